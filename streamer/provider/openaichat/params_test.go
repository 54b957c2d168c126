package openaichat

import (
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
)

// A client's own members go along as they came, but for those that make an attempt what it is.
func TestParams(t *testing.T) {
	req := provider.Request{Model: "m", Messages: []provider.Message{{Role: "user", Text: "Hi"}}, Tools: []provider.Tool{{Name: "f"}},
		Params: `{"temperature":0.50,"stream":false,"model":"x","n":9,"max_completion_tokens":7,"tool_choice":{"type":"function","function":{"name":"f"}}}`}
	w, err := API{}.Encode(provider.Endpoint{BaseURL: "http://127.0.0.1/v1"}, req)
	if err != nil {
		t.Fatal(err)
	}
	body := string(w.Body)
	for part, n := range map[string]int{`"temperature":0.50`: 1, `"stream":true`: 1, `"stream":false`: 0, `"model"`: 1, `"n"`: 0,
		`"max_completion_tokens":7`: 1, `"tool_choice"`: 1, `"name":"f"`: 2} {
		if strings.Count(body, part) != n {
			t.Errorf("%s is there %d times, want %d: %s", part, strings.Count(body, part), n, body)
		}
	}
	req.Params = "[]"
	if _, err := (API{}).Encode(provider.Endpoint{BaseURL: "http://127.0.0.1/v1"}, req); err == nil {
		t.Error("a list went through")
	}
}
