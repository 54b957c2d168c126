package openairesponses

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

func encode(t *testing.T, req provider.Request) string {
	t.Helper()
	w, err := API{}.Encode(provider.Endpoint{BaseURL: "http://h/v1", Key: "k"}, req)
	if err != nil {
		t.Fatal(err)
	}
	if !jsontext.Value(w.Body).IsValid() {
		t.Fatalf("no JSON: %s", w.Body)
	}
	return string(w.Body)
}

const head = `{"model":"m","stream":true,"store":false`

func TestEncode(t *testing.T) {
	user := provider.Message{Role: "user", Text: "hi\u2028\xff"}
	call := func(id, args string) provider.Part {
		return provider.Part{Call: &provider.Call{ID: id, Name: "f", Args: args, Opaque: `["gemini",{}]`}}
	}
	opaque := func(api, data string) provider.Part {
		return provider.Part{Opaque: &provider.Opaque{API: api, Data: data}}
	}
	thought := `{"type":"reasoning", "id":"rs_1","summary":[],"encrypted_content":"b3BhcXVl"}`
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		name string
		req  provider.Request
		want string
	}{
		{"least", provider.Request{Model: "m", ToolChoice: "none", Messages: []provider.Message{user}},
			head + `,"input":[{"role":"user","content":"hi` + "\u2028\uFFFD" + `"}]}`},
		{"system and budget", provider.Request{Model: "m", MaxOutputTokens: 9, System: "s", Messages: []provider.Message{user, {Role: "system", Text: "t"}}},
			head + `,"max_output_tokens":9,"instructions":"s","input":[{"role":"user","content":"hi` + "\u2028\uFFFD" + `"},{"role":"system","content":"t"}]}`},
		{"tools", provider.Request{Model: "m", Tools: []provider.Tool{{Name: "f", Description: "Does \"f\".", Parameters: " {\"type\": \"object\"}\n"}, {Name: "g"}}},
			head + `,"tools":[{"type":"function","name":"f","description":"Does \"f\".","parameters":{"type": "object"},"strict":false},{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":"auto","input":[]}`},
		{"tools off", provider.Request{Model: "gpt-5", Tools: []provider.Tool{{Name: "g"}}, ToolChoice: "none"}, `{"model":"gpt-5","stream":true,"store":false,"input":[]}`},
		{"a model that reasons", provider.Request{Model: "gpt-5-mini", Tools: []provider.Tool{{Name: "g"}}, ToolChoice: "required"},
			`{"model":"gpt-5-mini","stream":true,"store":false,"include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":"required","input":[]}`},
		{"a whole step", provider.Request{Model: "m", Messages: []provider.Message{
			{Role: "assistant", Parts: []provider.Part{opaque(Name, thought), {Text: "a"}, opaque("anthropic-messages", "{}"), call("x", `{"n": 9007199254740993}`), call("y", " \n"), opaque(Name, thought)}},
			{Role: "tool", Results: []provider.Result{{ID: "x", Name: "f", Text: "1"}, {ID: "y", Name: "f", Error: true}}}}},
			head + `,"input":[` + thought + `,{"role":"assistant","content":"a"},{"type":"function_call","call_id":"x","name":"f","arguments":"{\"n\": 9007199254740993}"},{"type":"function_call","call_id":"y","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"x","output":"1"},{"type":"function_call_output","call_id":"y","output":""}]}`},
		{"ids missing, doubled, too long", provider.Request{Model: "m", Messages: []provider.Message{
			{Role: "assistant", Parts: []provider.Part{call("x", "{}"), call("x", "{}"), call("", "{}"), call(long, "{}")}},
			{Role: "tool", Results: []provider.Result{{ID: "x", Text: "1"}, {ID: "x", Text: "2"}, {ID: "", Text: "3"}, {ID: long, Text: "4"}}}}},
			head + `,"input":[{"type":"function_call","call_id":"x","name":"f","arguments":"{}"},{"type":"function_call","call_id":"call_2","name":"f","arguments":"{}"},{"type":"function_call","call_id":"call_3","name":"f","arguments":"{}"},{"type":"function_call","call_id":"call_4","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"x","output":"1"},{"type":"function_call_output","call_id":"call_2","output":"2"},{"type":"function_call_output","call_id":"call_3","output":"3"},{"type":"function_call_output","call_id":"call_4","output":"4"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := encode(t, c.req); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	for model, want := range map[string]bool{"o1": true, "o4-mini": true, "gpt-5": true, "gpt-5.2-codex": true, "openai/gpt-5": true, "codex-mini-latest": true,
		"gpt-5-chat-latest": false, "gpt-4o": false, "gpt-4.1": false, "omni": false, "o": false, "m-small": false, "": false} {
		if got := reasons(model); got != want {
			t.Errorf("%s: %v", model, got)
		}
	}
}

func TestEncodeWire(t *testing.T) {
	w, err := API{}.Encode(provider.Endpoint{BaseURL: "https://h/openai/v1/?api-version=1", Key: "k"}, provider.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if w.Method != "POST" || w.URL != "https://h/openai/v1/responses?api-version=1" || w.Header.Get("Authorization") != "Bearer k" {
		t.Errorf("%+v", w)
	}
	for name, req := range map[string]provider.Request{
		"role":       {Messages: []provider.Message{{Role: "robot"}}},
		"choice":     {Tools: []provider.Tool{{Name: "f"}}, ToolChoice: "f"},
		"parameters": {Tools: []provider.Tool{{Name: "f", Parameters: `{"a":`}}},
	} {
		if _, err := (API{}).Encode(provider.Endpoint{BaseURL: "http://h"}, req); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, base := range []string{"", "h/v1", "ftp://h", "http://h:key:1"} {
		if _, err := (API{}).Encode(provider.Endpoint{BaseURL: base}, provider.Request{}); err == nil || strings.Contains(err.Error(), "key") {
			t.Errorf("%q: %v", base, err)
		}
	}
}
