package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// turnOf runs the one open turn whose id has a prefix: the first attempt breaks.
func turnOf(t *testing.T, w *world, prefix string, last func(subjects.Turn, *event.At)) {
	t.Helper()
	var turn subjects.Turn
	within(t, "a turn is open", func() bool {
		list, err := w.turns.Open(t.Context(), -1)
		must(t, err)
		for _, o := range list {
			if s, err := w.turns.Load(t.Context(), o, 0); err == nil && s.Opened != nil && len(s.Steps) == 1 && !s.Over() && s.Steps[0].Attempts[0].Started == nil && strings.HasPrefix(o.ID, prefix) {
				turn = o
			}
		}
		return turn.ID != ""
	})
	at := w.start(turn, 1, 1)
	w.say(turn, &at, "I am ", "sor")
	w.event(turn, &event.AttemptFailed{At: at, Class: event.Connection, Retryable: true})
	at = w.start(turn, 1, 2)
	w.say(turn, &at, "Sorry ", "about ", "that.")
	last(turn, &at)
	w.event(turn, &event.AttemptFinished{At: at, Finish: "stop", Usage: event.Usage{Input: 7, Output: 3}})
}

func nothing(subjects.Turn, *event.At) {}

// A protocol's feed is whole, in order, has no abandoned word where nothing can be taken
// back, and is the same again when asked for again.
func TestProtocols(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		name, prefix, path, body string
		header                   []string
		want, never              []string // in order; in no place
	}{
		{"ai-sdk", "chat-", "/v1/ai-sdk/chat", `{"id":"c1","trigger":"submit-message","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Hi"}]}]}`, nil,
			[]string{`"type":"start"`, `"type":"start-step"`, `"type":"text-start"`, `"delta":"Sorry "`, `"type":"text-end"`, `"type":"finish-step"`, `"finishReason":"stop"`, `"message_id"`, "data: [DONE]\n\n"},
			[]string{"sor\"", "reset-step", "I am"}},
		{"ai-sdk step", "chat-", "/v1/ai-sdk/chat", `{"id":"c2","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Hi"}]}]}`, []string{"Turnfold-Reset", "step"},
			[]string{`"delta":"I am "`, `"type":"data-turnfold-reset"`, `"type":"reset-step"`, `"type":"text-start"`, `"delta":"Sorry "`, `"type":"finish"`, "data: [DONE]\n\n"}, nil},
		{"ag-ui", "run-", "/v1/ag-ui", `{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"Hi"}],"tools":[],"context":[],"state":{}}`, nil,
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START", `"delta":"I am "`, "TEXT_MESSAGE_END", "turnfold.reset", `"MESSAGES_SNAPSHOT"`, "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "turnfold.saved", "RUN_FINISHED"}, nil},
		{"openai", "cmpl-", "/v1/chat/completions", `{"model":"default","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`, []string{"Idempotency-Key", "k1"},
			[]string{`"role":"assistant"`, `"content":"Sorry "`, `"finish_reason":"stop"`, `"prompt_tokens":7`, "data: [DONE]\n\n"}, []string{"sor\"", "tool_calls", "I am"}},
		{"openai whole", "cmpl-", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}`, []string{"Idempotency-Key", "k2"},
			[]string{`"finish_reason":"stop"`, `"content":"Sorry about that."`, `"total_tokens":10`}, []string{"data:", "I am"}},
	} {
		done := make(chan struct{})
		go func() { defer close(done); turnOf(t, w, c.prefix, nothing) }()
		status, header, body := w.call("POST", c.path, c.body, c.header...)
		<-done
		rest := body
		for _, part := range c.want {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Fatalf("%s: %d, %s is missing in its place of\n%s", c.name, status, part, body)
			}
			rest = after
		}
		for _, part := range c.never {
			if strings.Contains(body, part) {
				t.Errorf("%s holds %s:\n%s", c.name, part, body)
			}
		}
		if strings.HasPrefix(c.name, "ai-sdk") && header.Get("X-Vercel-Ai-Ui-Message-Stream") != "v1" {
			t.Errorf("%s: %v", c.name, header)
		}
		if _, _, again := w.call("POST", c.path, c.body, c.header...); strings.Count(again, "Sorry") != 1 || strings.Contains(again, "I am") {
			t.Errorf("%s again:\n%s", c.name, again)
		}
	}
}

// A client that runs its own tools gets its calls when their attempt has finished.
func TestPassedThrough(t *testing.T) {
	w := newWorld(t, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		turnOf(t, w, "cmpl-", func(turn subjects.Turn, at *event.At) {
			w.event(turn, &event.CallDelta{At: *at, ID: "c0", Name: "look", Args: `{"n":1}`})
			at.Ord++
		})
	}()
	status, _, body := w.call("POST", "/v1/passthrough/chat/completions", `{"model":"m","temperature":0.5,"max_tokens":99,"user":"u","tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}],
		"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c0","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c0","content":"7"}]}`)
	<-done
	if status != 200 || !strings.Contains(body, `"finish_reason":"tool_calls"`) || !strings.Contains(body, `"arguments":"{\"n\":1}","name":"look"`) ||
		!strings.Contains(body, `"id":"call_1_0"`) || !strings.Contains(body, "Sorry about that.") {
		t.Errorf("%d %s", status, body)
	}
	open, err := w.turns.Open(t.Context(), -1)
	must(t, err)
	s, err := w.turns.Load(t.Context(), open[0], 0)
	must(t, err)
	if o := s.Opened; o.Params != `{"max_tokens":99,"temperature":0.5}` || o.Entries[0].MaxOutputTokens != 0 || len(o.Tools) != 1 || !o.ClientTools {
		t.Errorf("opened as %+v", o)
	}
}

// What cannot be served is refused in the protocol's own words.
func TestProtocolRefusals(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Routes["other"] = []event.Entry{{Provider: "x", API: "gemini", Model: "g"}}
	})
	w.client.Timeout = 5 * time.Second // what is not refused would be followed for long
	user := `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/v1/ai-sdk/chat", `{"messages":[]}`, 422, `"id"`},
		{"/v1/ai-sdk/chat", `{"id":"c","messages":[]}`, 422, "messages"},
		{"/v1/ai-sdk/chat", `{"id":7}`, 422, "another type"},
		{"/v1/ai-sdk/chat", `{"id":"c","messages":[{"role":"user","parts":[{"type":"file","url":"x"}]}]}`, 422, "only text"},
		{"/v1/ai-sdk/chat?reset=snapshot", `{"id":"c"}`, 422, "reset"},
		{"/v1/ag-ui", `{"messages":[]}`, 422, "runId"},
		{"/v1/ag-ui?reset=step", `{}`, 422, "reset"},
		{"/v1/ag-ui", `[]`, 422, "type"},
		{"/v1/chat/completions", `{`, 400, `"error":`},
		{"/v1/chat/completions", `{"model":"nobody",` + user + `}`, 404, "/v1/models"},
		{"/v1/chat/completions", `{"model":"m","tools":[{"type":"function"}],` + user + `}`, 400, "/v1/passthrough"},
		{"/v1/chat/completions", `{"model":"m","n":2,` + user + `}`, 400, "must be 1"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "image_url"},
		{"/v1/passthrough/chat/completions", `{"model":"g","temperature":1,` + user + `}`, 400, "gemini"},
		{"/v1/passthrough/chat/completions", `{"model":"m","tool_choice":"maybe",` + user + `}`, 400, "tool_choice"},
	} {
		status, header, body := w.call("POST", c.path, c.body)
		problem := header.Get("Content-Type") == "application/problem+json"
		if openAI := strings.Contains(c.path, "completions"); status != c.status || !strings.Contains(body, c.says) || openAI == problem {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, body)
		}
	}
	if status, _, _ := w.call("GET", "/v1/ai-sdk/chat/none/stream", ""); status != http.StatusNoContent {
		t.Errorf("no answer runs: %d", status)
	}
	if status, _, body := w.call("GET", "/v1/ai-sdk/chat/none/stream?turn=chat-x", ""); status != 422 {
		t.Errorf("a foreign turn: %d %s", status, body)
	}
	if _, _, body := w.call("GET", "/v1/models", ""); !strings.Contains(body, `"id":"other"`) {
		t.Error(body)
	}
}
