package gemini

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

func encode(t *testing.T, req provider.Request) string {
	t.Helper()
	if req.Model == "" {
		req.Model = "m"
	}
	w, err := API{}.Encode(provider.Endpoint{BaseURL: "http://h", Key: "k"}, req)
	if err != nil {
		t.Fatal(err)
	}
	if !jsontext.Value(w.Body).IsValid() {
		t.Fatalf("no JSON: %s", w.Body)
	}
	return string(w.Body)
}

func TestEncode(t *testing.T) {
	user := provider.Message{Role: "user", Text: "hi\u2028\xff"}
	call := func(args, opaque string) provider.Part {
		return provider.Part{Call: &provider.Call{ID: "call_1_0", Name: "f", Args: args, Opaque: opaque}}
	}
	block := func(api, data string) provider.Part {
		return provider.Part{Opaque: &provider.Opaque{API: api, Data: data}}
	}
	step := func(parts ...provider.Part) provider.Request {
		return provider.Request{Messages: []provider.Message{{Role: "assistant", Parts: parts}}}
	}
	foreign := step(call("{}", `{"google":{}}`), call("{}", ""))
	foreign.Model = "models/gemini-3-pro"
	for _, c := range []struct {
		name string
		req  provider.Request
		want string
	}{
		{"least", provider.Request{ToolChoice: "none", Messages: []provider.Message{user}},
			`{"contents":[{"role":"user","parts":[{"text":"hi` + "\u2028\uFFFD" + `"}]}]}`},
		{"system and budget", provider.Request{MaxOutputTokens: 9, System: "s", Messages: []provider.Message{{Role: "user", Text: "u"}, {Role: "system", Text: "t"}, {Role: "user"}}},
			`{"generationConfig":{"maxOutputTokens":9},"systemInstruction":{"parts":[{"text":"s"},{"text":"t"}]},"contents":[{"role":"user","parts":[{"text":"u"}]}]}`},
		{"tools", provider.Request{Tools: []provider.Tool{{Name: "f", Description: "Does \"f\".", Parameters: " {\"type\": \"object\"}\n"}, {Name: "g"}}},
			`{"tools":[{"functionDeclarations":[{"name":"f","description":"Does \"f\".","parametersJsonSchema":{"type": "object"}},{"name":"g"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"contents":[]}`},
		{"tools off", provider.Request{Tools: []provider.Tool{{Name: "g"}}, ToolChoice: "none"},
			`{"contents":[]}`},
		{"required", provider.Request{Tools: []provider.Tool{{Name: "g"}}, ToolChoice: "required"},
			`{"tools":[{"functionDeclarations":[{"name":"g"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},"contents":[]}`},
		{"a whole step", provider.Request{Messages: []provider.Message{
			{Role: "assistant", Parts: []provider.Part{{Text: "a"}, block("anthropic-messages", "{}"),
				call(`{"n": 9007199254740993}`, `["gemini",{"thoughtSignature":"c2ln"}]`), call(" \n", `["gemini",{}]`), call("{}", `["gemini",{"id":"x\u0041"}]`)}},
			{Role: "tool", Results: []provider.Result{{ID: "call_1_0", Name: "f", Text: `{"rows": 1}`}, {Name: "f", Text: "busy", Error: true}, {Name: "f", Text: `{"id":[9007199254740993]}`}}}}},
			`{"contents":[{"role":"model","parts":[{"text":"a"},{"functionCall":{"name":"f","args":{"n": 9007199254740993}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"f","args":{}}},{"functionCall":{"id":"x\u0041","name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"rows": 1}}},{"functionResponse":{"name":"f","response":{"error":"busy"}}},{"functionResponse":{"id":"x\u0041","name":"f","response":{"output":"{\"id\":[9007199254740993]}"}}}]}]}`},
		{"a signed text is its own part", step(provider.Part{Text: "ab"}, block(Name, `{"text":"b", "thoughtSignature":"c2ln"}`), provider.Part{Text: "c"}),
			`{"contents":[{"role":"model","parts":[{"text":"a"},{"text":"b", "thoughtSignature":"c2ln"},{"text":"c"}]}]}`},
		{"all of a text signed", step(provider.Part{Text: "b"}, block(Name, `{"text":"b","thoughtSignature":"c2ln"}`)),
			`{"contents":[{"role":"model","parts":[{"text":"b","thoughtSignature":"c2ln"}]}]}`},
		{"a signature alone", step(provider.Part{Text: "b"}, block(Name, `{"text":"","thoughtSignature":"c2ln"}`)),
			`{"contents":[{"role":"model","parts":[{"text":"b"},{"text":"","thoughtSignature":"c2ln"}]}]}`},
		{"a signed thought", step(provider.Part{Text: "b"}, block(Name, `{"text":"b","thought":true,"thoughtSignature":"c2ln"}`)),
			`{"contents":[{"role":"model","parts":[{"text":"b"},{"text":"b","thought":true,"thoughtSignature":"c2ln"}]}]}`},
		{"another API's calls to a model that wants signatures", foreign,
			`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"f","args":{}}}]}]}`},
		{"nothing to say", step(), `{"contents":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := encode(t, c.req); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestRoundTrip: what a reply brought goes back as it came.
func TestRoundTrip(t *testing.T) {
	r := decode(t, parts(`{"functionCall":{"name":"hold_bike","args":{"bike":"B-7"}},"thoughtSignature":"c2lnLW9uZQ=="}`),
		parts(`{"functionCall":{"name":"hold_bike","args":{"bike":"B-9"},"id":"q"}}`), finish("STOP"))
	m := provider.Message{Role: "assistant"}
	for i, c := range r.Calls {
		m.Parts = append(m.Parts, provider.Part{Call: &provider.Call{ID: "call_1", Name: c.Name(), Args: c.Args(), Opaque: r.Opaque[i]}})
	}
	want := `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"hold_bike","args":{"bike":"B-7"}},"thoughtSignature":"c2lnLW9uZQ=="},{"functionCall":{"id":"q","name":"hold_bike","args":{"bike":"B-9"}}}]}]}`
	if got := encode(t, provider.Request{Messages: []provider.Message{m}}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSigned(t *testing.T) {
	for model, want := range map[string]bool{"gemini-2.5-pro": false, "gemini-3-pro-preview": true, "models/gemini-3.1-pro": true, "gemini-10": true, "gemini-pro": false, "m-small": false, "gemini-": false} {
		if got := signed(model); got != want {
			t.Errorf("%s: %v", model, got)
		}
	}
}

func TestEncodeWire(t *testing.T) {
	for _, c := range []struct{ base, model, want string }{
		{"http://h", "m", "http://h/v1beta/models/m:streamGenerateContent?alt=sse"},
		{"http://h/v1/", "m", "http://h/v1/models/m:streamGenerateContent?alt=sse"},
		{"http://h/v1beta", "models/m", "http://h/v1beta/models/m:streamGenerateContent?alt=sse"},
		{"http://h/google?tenant=1", "tunedModels/m x", "http://h/google/v1beta/tunedModels/m%20x:streamGenerateContent?tenant=1&alt=sse"},
		{"https://v/v1/projects/p/locations/l/publishers/google/", "m", "https://v/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse"},
	} {
		w, err := API{}.Encode(provider.Endpoint{BaseURL: c.base, Key: "k"}, provider.Request{Model: c.model})
		if err != nil {
			t.Fatal(err)
		}
		if w.Method != "POST" || w.URL != c.want || w.Header.Get("x-goog-api-key") != "k" || strings.Contains(w.URL, "key") {
			t.Errorf("%+v", w)
		}
	}
	for name, req := range map[string]provider.Request{
		"model":      {},
		"role":       {Model: "m", Messages: []provider.Message{{Role: "robot"}}},
		"choice":     {Model: "m", Tools: []provider.Tool{{Name: "f"}}, ToolChoice: "f"},
		"parameters": {Model: "m", Tools: []provider.Tool{{Name: "f", Parameters: `{"a":`}}},
		"arguments":  {Model: "m", Messages: []provider.Message{{Role: "assistant", Parts: []provider.Part{{Call: &provider.Call{Name: "f", Args: `{"secret":`}}}}}},
	} {
		if _, err := (API{}).Encode(provider.Endpoint{BaseURL: "http://h"}, req); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, base := range []string{"", "h/v1", "ftp://h", "http://h:key:1"} {
		if _, err := (API{}).Encode(provider.Endpoint{BaseURL: base}, provider.Request{Model: "m"}); err == nil || strings.Contains(err.Error(), "key") {
			t.Errorf("%q: %v", base, err)
		}
	}
}
