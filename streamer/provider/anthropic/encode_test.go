package anthropic

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

func encode(t *testing.T, req provider.Request) string {
	t.Helper()
	w, err := API{}.Encode(provider.Endpoint{BaseURL: "http://h", Key: "k"}, req)
	if err != nil {
		t.Fatal(err)
	}
	if !jsontext.Value(w.Body).IsValid() {
		t.Fatalf("no JSON: %s", w.Body)
	}
	return string(w.Body)
}

const head = `{"model":"m","stream":true,"max_tokens":4096`

func TestEncode(t *testing.T) {
	user := provider.Message{Role: "user", Text: "hi\u2028\xff"}
	call := func(id, args string) provider.Part {
		return provider.Part{Call: &provider.Call{ID: id, Name: "f", Args: args, Opaque: `["gemini",{}]`}}
	}
	opaque := func(api, data string) provider.Part {
		return provider.Part{Opaque: &provider.Opaque{API: api, Data: data}}
	}
	thinking := `{"type":"thinking","thinking":"hm","signature":"c2ln"}`
	for _, c := range []struct {
		name string
		req  provider.Request
		want string
	}{
		{"least", provider.Request{Model: "m", ToolChoice: "none", Messages: []provider.Message{user}},
			head + `,"messages":[{"role":"user","content":[{"type":"text","text":"hi` + "\u2028\uFFFD" + `"}]}]}`},
		{"system and budget", provider.Request{Model: "m", MaxOutputTokens: 9, System: "s", Messages: []provider.Message{{Role: "user", Text: "u"}, {Role: "system", Text: "t"}, {Role: "user", Text: " \n"}}},
			`{"model":"m","stream":true,"max_tokens":9,"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}],"messages":[{"role":"user","content":[{"type":"text","text":"u"}]}]}`},
		{"tools", provider.Request{Model: "m", Tools: []provider.Tool{{Name: "f", Description: "Does \"f\".", Parameters: " {\"type\": \"object\"}\n"}, {Name: "g"}}},
			head + `,"tools":[{"name":"f","description":"Does \"f\".","input_schema":{"type": "object"}},{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"auto"},"messages":[]}`},
		{"required", provider.Request{Model: "m", Tools: []provider.Tool{{Name: "g"}}, ToolChoice: "required"},
			head + `,"tools":[{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"any"},"messages":[]}`},
		{"none", provider.Request{Model: "m", Tools: []provider.Tool{{Name: "g"}}, ToolChoice: "none"},
			head + `,"tools":[{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"none"},"messages":[]}`},
		{"a whole step, and no tools any more", provider.Request{Model: "m", ToolChoice: "none", Messages: []provider.Message{
			{Role: "assistant", Parts: []provider.Part{opaque(Name, thinking), {Text: "a"}, opaque("openai-responses", "{}"), call("x", `{"n": 9007199254740993}`), call("y", " \n"), opaque(Name, thinking)}},
			{Role: "tool", Results: []provider.Result{{ID: "x", Name: "f", Text: "1"}, {ID: "y", Name: "f", Error: true}}},
			{Role: "assistant", Parts: []provider.Part{{Text: "b"}}}}},
			head + `,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"none"},"messages":[` +
				`{"role":"assistant","content":[` + thinking + `,{"type":"text","text":"a"},{"type":"tool_use","id":"x","name":"f","input":{"n": 9007199254740993}},{"type":"tool_use","id":"y","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"tool_result","tool_use_id":"y","is_error":true}]},` +
				`{"role":"assistant","content":[{"type":"text","text":"b"}]}]}`},
		{"ids missing, doubled, of another form", provider.Request{Model: "m", Tools: []provider.Tool{{Name: "f"}}, Messages: []provider.Message{
			{Role: "assistant", Parts: []provider.Part{call("x", "{}"), call("x", "{}"), call("", "{}"), call("functions.f:0", "{}")}},
			{Role: "tool", Results: []provider.Result{{ID: "x", Text: "1"}, {ID: "x", Text: "2"}, {ID: "", Text: "3"}, {ID: "functions.f:0", Text: "4"}}}}},
			head + `,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"auto"},"messages":[{"role":"assistant","content":[` +
				`{"type":"tool_use","id":"x","name":"f","input":{}},{"type":"tool_use","id":"call_2","name":"f","input":{}},{"type":"tool_use","id":"call_3","name":"f","input":{}},{"type":"tool_use","id":"call_4","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"tool_result","tool_use_id":"call_2","content":"2"},{"type":"tool_result","tool_use_id":"call_3","content":"3"},{"type":"tool_result","tool_use_id":"call_4","content":"4"}]}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := encode(t, c.req); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEncodeWire(t *testing.T) {
	for base, want := range map[string]string{
		"http://h": "http://h/v1/messages", "http://h/v1/": "http://h/v1/messages",
		"https://h/anthropic?tenant=1": "https://h/anthropic/v1/messages?tenant=1",
	} {
		w, err := API{}.Encode(provider.Endpoint{BaseURL: base, Key: "k"}, provider.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if w.Method != "POST" || w.URL != want || w.Header.Get("x-api-key") != "k" || w.Header.Get("anthropic-version") != "2023-06-01" || w.Header.Get("Authorization") != "" {
			t.Errorf("%+v", w)
		}
	}
	for name, req := range map[string]provider.Request{
		"role":       {Messages: []provider.Message{{Role: "robot"}}},
		"choice":     {Tools: []provider.Tool{{Name: "f"}}, ToolChoice: "f"},
		"parameters": {Tools: []provider.Tool{{Name: "f", Parameters: `{"a":`}}},
		"arguments":  {Messages: []provider.Message{{Role: "assistant", Parts: []provider.Part{{Call: &provider.Call{Name: "f", Args: `{"secret":`}}}}}},
	} {
		if _, err := (API{}).Encode(provider.Endpoint{BaseURL: "http://h"}, req); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, base := range []string{"", "h/v1", "ftp://h", "http://h:key:1"} {
		if _, err := (API{}).Encode(provider.Endpoint{BaseURL: base}, provider.Request{}); err == nil || strings.Contains(err.Error(), "key") {
			t.Errorf("%q: %v", base, err)
		}
	}
}
