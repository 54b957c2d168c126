package openaichat

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

func encode(t *testing.T, req provider.Request) string {
	t.Helper()
	w, err := API{}.Encode(provider.Endpoint{BaseURL: "http://h/v1/", Key: "k"}, req)
	if err != nil {
		t.Fatal(err)
	}
	if !jsontext.Value(w.Body).IsValid() {
		t.Fatalf("no JSON: %s", w.Body)
	}
	return string(w.Body)
}

const head = `{"model":"m","stream":true,"stream_options":{"include_usage":true}`

func TestEncode(t *testing.T) {
	tool := provider.Tool{Name: "f", Description: "Does \"f\".", Parameters: " {\"type\": \"object\"}\n"}
	user := provider.Message{Role: "user", Text: "hi\u2028\xff"}
	call := func(id, args string) provider.Part {
		return provider.Part{Call: &provider.Call{ID: id, Name: "f", Args: args}}
	}
	for _, c := range []struct {
		name string
		req  provider.Request
		want string
	}{
		{"least", provider.Request{Model: "m", ToolChoice: "none", Messages: []provider.Message{user}},
			head + `,"messages":[{"role":"user","content":"hi` + "\u2028\uFFFD" + `"}]}`},
		{"system and budget", provider.Request{Model: "m", MaxOutputTokens: 9, System: "s", Messages: []provider.Message{user, {Role: "system", Text: "t"}}},
			head + `,"max_tokens":9,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi` + "\u2028\uFFFD" + `"},{"role":"system","content":"t"}]}`},
		{"tools", provider.Request{Model: "m", Tools: []provider.Tool{tool, {Name: "g"}}, ToolChoice: "required"},
			head + `,"tools":[{"type":"function","function":{"name":"f","description":"Does \"f\".","parameters":{"type": "object"}}},{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],"tool_choice":"required","messages":[]}`},
		{"tools off", provider.Request{Model: "m", Tools: []provider.Tool{tool}, ToolChoice: "none"}, head + `,"messages":[]}`},
		{"text and calls", provider.Request{Model: "m", Messages: []provider.Message{
			{Role: "assistant", Parts: []provider.Part{{Text: "a"}, call("x", `{"n": 9007199254740993}`), {Text: "b"}, {Opaque: &provider.Opaque{API: "other", Data: "{}"}}, call("y", " \n")}},
			{Role: "tool", Results: []provider.Result{{ID: "x", Name: "f", Text: "1"}, {ID: "y", Name: "f", Text: "2", Error: true}}}}},
			head + `,"messages":[{"role":"assistant","content":"ab","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"n\": 9007199254740993}"}},{"id":"y","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"y","content":"2"}]}`},
		{"calls alone, one id for all", provider.Request{Model: "m", Messages: []provider.Message{
			{Role: "assistant", Parts: []provider.Part{call("x", "{}"), call("x", "{}"), call("", "{}")}},
			{Role: "tool", Results: []provider.Result{{ID: "x", Text: "1"}, {ID: "x", Text: "2"}, {ID: "", Text: "3"}}},
			{Role: "assistant", Parts: []provider.Part{{Call: &provider.Call{ID: "x", Name: "f", Opaque: `{"s":1}`}}}},
			{Role: "tool", Results: []provider.Result{{ID: "x", Text: "4"}}}}},
			head + `,"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_3","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"call_2","content":"2"},{"role":"tool","tool_call_id":"call_3","content":"3"},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"call_4","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"s":1}}]},{"role":"tool","tool_call_id":"call_4","content":"4"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := encode(t, c.req); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEncodeWire(t *testing.T) {
	w, err := API{}.Encode(provider.Endpoint{BaseURL: "https://h/openai/v1/?api-version=1", Key: "k"}, provider.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if w.Method != http.MethodPost || w.URL != "https://h/openai/v1/chat/completions?api-version=1" || w.Header.Get("Authorization") != "Bearer k" {
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
