package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/reducer/audit"
)

// kind is a way in which a turn goes. Its model says what follows from the results that
// it has been told, and from how often it was asked for the same.
type kind struct {
	name  string
	more  string // further members of the request
	model func(s *reply, results, asked int, tools bool)
	// act is what people do meanwhile; at the item of the feed that is given.
	at  string
	act func(t *testing.T, v verbs, turn string)
	// says must be on the feed, or nothing has been shown.
	says []string
}

// verbs runs command lines against a server, and its HTTP API.
type verbs struct {
	dir string
	url string
}

func (v verbs) run(t *testing.T, args ...string) {
	t.Helper()
	if code, out, errs := invoke(t, v.dir, append(args, "--server", v.url)...); code != 0 {
		t.Errorf("turnfold %v: exit %d: %s%s", args, code, out, errs)
	}
}

// reply writes a stream of the openai-chat API.
type reply struct{ w http.ResponseWriter }

func (s *reply) delta(d string) {
	fmt.Fprintf(s.w, `data: {"id":"c","choices":[{"index":0,"delta":%s}]}`+"\n\n", d)
	_ = http.NewResponseController(s.w).Flush() // the reader may be gone
}

func (s *reply) text(text string) { s.delta(fmt.Sprintf(`{"content":%q}`, text)) }

func (s *reply) calls(calls ...[2]string) {
	for i, c := range calls {
		s.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"p%d","type":"function","function":{"name":%q,"arguments":%q}}]}`, i, i, c[0], c[1]))
	}
	s.finish("tool_calls")
}

func (s *reply) finish(why string) {
	fmt.Fprintf(s.w, `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":%q}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`+"\n\ndata: [DONE]\n\n", why)
}

func (s *reply) answer(text string) { s.text(text); s.finish("stop") }

func (s *reply) breakOff() { panic(http.ErrAbortHandler) }

// callThen asks for calls, and answers when it has the results of all.
func callThen(answer string, calls ...[2]string) func(*reply, int, int, bool) {
	return func(s *reply, results, _ int, _ bool) {
		if results == 0 {
			s.calls(calls...)
			return
		}
		s.answer(answer)
	}
}

// stubborn asks for a call again and again, as long as there are tools.
func stubborn(tool, args string) func(*reply, int, int, bool) {
	return func(s *reply, results, _ int, tools bool) {
		if !tools {
			s.answer("I could not.")
			return
		}
		s.calls([2]string{tool, fmt.Sprintf(args, results)})
	}
}

const kindsTools = `tools:
- {name: look, description: L., effect: read, parameters: {type: object, properties: {n: {type: integer}}}, run: {http: {url: '%[1]s/ok'}}}
- {name: find, description: F., effect: read, parameters: {type: object, properties: {n: {type: integer}}}, run: {http: {url: '%[1]s/empty'}}}
- {name: file, description: F., effect: keyed, identity: "*", repeat: per_call, cap: 2, parameters: {type: object, properties: {n: {type: integer}}}, run: {http: {url: '%[1]s/bad'}}}
- {name: refund, description: R., effect: keyed, identity: [order], parameters: &order {type: object, required: [order], properties: {order: {type: string}}}, run: {http: {url: '%[1]s/ok'}}}
- {name: send, description: S., effect: once, identity: [order], parameters: *order, run: {http: {url: '%[1]s/gone'}}}
- {name: welcome, description: W., effect: keyed, identity: [order], scope: tenant, window: 24h, parameters: *order, run: {http: {url: '%[1]s/ok'}}}
- {name: pay, description: P., effect: once, identity: [order], approval: always, parameters: *order, run: {http: {url: '%[1]s/ok'}}}
- {name: hurry, description: H., effect: once, identity: [order], approval: always, approval_timeout: 1s, parameters: *order, run: {http: {url: '%[1]s/ok'}}}
`

const order1 = `{"order":"O-1"}`

// kinds are all ways in which a turn may go and end.
func kinds() []kind {
	call := func(tool string) [2]string { return [2]string{tool, order1} }
	return []kind{
		{name: "plain", model: func(s *reply, _, _ int, _ bool) { s.answer("Hello.") }, says: []string{`"finish":"stop"`}},
		{name: "reset", model: func(s *reply, _, asked int, _ bool) {
			if s.text("Half"); asked == 1 {
				s.breakOff()
			}
			s.answer(" and whole.")
		}, says: []string{`"type":"reset"`, `"finish":"stop"`}},
		{name: "salvage", model: func(s *reply, _, _ int, _ bool) { s.text("Kept."); s.breakOff() }, says: []string{`"salvaged":true`}},
		{name: "nothing", model: func(s *reply, _, _ int, _ bool) { s.breakOff() }, says: []string{`"type":"error"`, `"class":"connection"`}},
		{name: "filtered", model: func(s *reply, _, _ int, _ bool) { s.text("So"); s.finish("content_filter") }, says: []string{`"filtered"`}},
		{name: "truncated", model: func(s *reply, _, _ int, _ bool) { s.text("So"); s.finish("length") }, says: []string{`"truncated"`}},
		{name: "malformed", model: func(s *reply, _, _ int, _ bool) { s.calls([2]string{"refund", `{"order":`}) }, says: []string{`"malformed_call"`}},
		{name: "cancel", model: func(s *reply, _, _ int, _ bool) { s.text("Wait"); <-s.gone() }, at: "text_delta",
			act: func(t *testing.T, v verbs, turn string) {
				res, err := http.Post(v.url+"/v1/turns/"+turn+"/cancel", "application/json", strings.NewReader(`{"by":"ann"}`))
				if err != nil || res.StatusCode > 299 {
					t.Fatalf("cancel: %v, %v", res, err)
				}
				res.Body.Close()
			}, says: []string{`"finish":"cancelled"`}},
		{name: "deadline", more: `,"deadline":"1s"`, model: func(s *reply, _, _ int, _ bool) { s.text("Wait"); <-s.gone() }, says: []string{`"deadline"`}},
		{name: "cap", model: func(s *reply, results, _ int, _ bool) { s.calls([2]string{"look", fmt.Sprintf(`{"n":%d}`, results)}) },
			says: []string{`"calls_per_turn"`}},
		{name: "loop", model: stubborn("file", `{"n":1,"words":%d}`), says: []string{`"outcome":"failed"`, `"outcome":"refused"`, `"finish":"stop"`}},
		{name: "empty", model: stubborn("find", `{"n":%d}`), says: []string{`"result":"[]"`, `"finish":"stop"`}},
		{name: "effect", model: callThen("Done.", call("refund"), call("refund"), [2]string{"look", `{"n":1}`}), says: []string{`"replayed":true`, `"finish":"stop"`}},
		{name: "tenant-1", model: callThen("Hi.", call("welcome")), says: []string{`"outcome":"succeeded"`}},
		{name: "tenant-2", model: callThen("Hi.", call("welcome")), says: []string{`"outcome":"succeeded"`}},
		{name: "approve", model: callThen("Paid.", call("pay")), at: "approval_request", act: func(t *testing.T, v verbs, turn string) {
			v.run(t, "approve", turn, "1.0", "--by", "ann", "--digest", digestOf(t, v, turn))
		}, says: []string{`"outcome":"succeeded"`}},
		{name: "deny", model: callThen("Not paid.", call("pay")), at: "approval_request", act: func(t *testing.T, v verbs, turn string) {
			v.run(t, "deny", turn, "1.0", "--by", "ann", "--reason", "no")
		}, says: []string{`"outcome":"refused"`}},
		{name: "expire", model: callThen("Too late.", call("hurry")), says: []string{`"approval_expired"`}},
		{name: "unknown", model: callThen("It is being confirmed.", call("send")), says: []string{`"outcome":"unknown"`}},
		{name: "resolved", model: callThen("It is being confirmed.", call("send")), at: "message_saved", act: resolve, says: []string{`"outcome":"unknown"`}},
	}
}

// gone is closed when the reader has hung up.
func (s *reply) gone() <-chan struct{} { return s.w.(interface{ done() <-chan struct{} }).done() }

// digestOf is what an approver was shown.
func digestOf(t *testing.T, v verbs, turn string) string {
	t.Helper()
	res, err := http.Get(v.url + "/v1/turns/" + turn + "/calls/1.0/approval")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var shown struct{ Digest string }
	if err := json.NewDecoder(res.Body).Decode(&shown); err != nil {
		t.Fatal(err)
	}
	return shown.Digest
}

// resolve says how the turn's unknown call ended.
func resolve(t *testing.T, v verbs, turn string) {
	res, err := http.Get(v.url + "/v1/turns/" + turn)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var state struct {
		Steps []struct{ Calls []struct{ Key string } }
	}
	if err := json.NewDecoder(res.Body).Decode(&state); err != nil || len(state.Steps) == 0 || len(state.Steps[0].Calls) == 0 {
		t.Fatalf("state %+v, %v", state, err)
	}
	v.run(t, "effects", "resolve", state.Steps[0].Calls[0].Key, "--as", "failed", "--by", "ann", "--why", "asked them")
}

// watched is a response that knows when its reader is gone.
type watched struct {
	http.ResponseWriter
	r *http.Request
}

func (a watched) done() <-chan struct{}       { return a.r.Context().Done() }
func (a watched) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// models serves the models of all kinds; a turn's input names its kind.
func models(t *testing.T, list []kind) string {
	var mu sync.Mutex
	count := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages   []struct{ Role, Content string }
			Tools      []json.RawMessage
			ToolChoice any `json:"tool_choice"`
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Errorf("request: %v", err)
			return
		}
		results, name := 0, ""
		for _, m := range req.Messages {
			if m.Role == "tool" {
				results++
			}
			if m.Role == "user" {
				name = m.Content
			}
		}
		mu.Lock()
		count[fmt.Sprint(name, results)]++
		n := count[fmt.Sprint(name, results)]
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, k := range list {
			if k.name == name {
				k.model(&reply{watched{w, r}}, results, n, len(req.Tools) > 0 && req.ToolChoice != "none")
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// targets serves what tools reach.
func targets(t *testing.T) string {
	mux := http.NewServeMux()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // what is asked for does not matter
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	mux.Handle("/ok", answer(200, `{"done":true}`))
	mux.Handle("/empty", answer(200, `[]`))
	mux.Handle("/bad", answer(400, `{"error":{"class":"no_such_order"}}`))
	mux.HandleFunc("/gone", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// play runs a turn of a kind to its end, and gives its feed.
func (k kind) play(t *testing.T, v verbs) string {
	body := fmt.Sprintf(`{"turn":%q,"input":%q%s}`, k.name, k.name, k.more)
	client := http.Client{Timeout: time.Minute}
	res, err := client.Post(v.url+"/v1/turns", "application/json", strings.NewReader(body))
	if err != nil {
		t.Errorf("%s: %v", k.name, err)
		return ""
	}
	defer res.Body.Close()
	var all bytes.Buffer
	acted := k.act == nil
	for lines := json.NewDecoder(io.TeeReader(res.Body, &all)); ; {
		var item struct{ Type string }
		if err := lines.Decode(&item); err != nil {
			if err != io.EOF {
				t.Errorf("%s: feed: %v", k.name, err)
			}
			break
		}
		if !acted && item.Type == k.at {
			k.act(t, v, k.name)
			acted = true
		}
	}
	for _, must := range k.says {
		if !strings.Contains(all.String(), must) || !acted {
			t.Errorf("%s: the feed lacks %s (acted: %v):\n%s", k.name, must, acted, &all)
		}
	}
	return all.String()
}

// TestEveryKindAuditsClean runs turns of every kind and end through a real process, and
// then proves each one from the store alone, and from a bundle in an empty folder: every
// invariant of every turn holds.
func TestEveryKindAuditsClean(t *testing.T) {
	t.Parallel()
	list := kinds()
	dir := configure(t, models(t, list), "tools_file: tools.yaml\nretry: {attempts_per_step: 2, backoff: {base: 10ms, max: 50ms}}\nturn: {calls: 5}\n")
	write(t, dir, "tools.yaml", fmt.Sprintf(kindsTools, targets(t)))
	s := serve(t, dir)
	var wg sync.WaitGroup
	for _, k := range list {
		wg.Go(func() { k.play(t, verbs{dir, s.url}) })
	}
	wg.Wait()
	if code, _ := s.end(t); code != 0 {
		t.Fatalf("serve: exit %d: %s", code, s.errs)
	}
	clean := func(dir string, args ...string) {
		t.Helper()
		code, out, errs := invoke(t, dir, append(args, "--json")...)
		if code != 0 {
			t.Errorf("turnfold %v: exit %d: %s%s", args, code, out, errs)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(out) {
			var v audit.Verdict
			if json.Unmarshal([]byte(line), &v) != nil || v.Turn == "" {
				continue // of the bundle
			}
			for _, c := range v.Invariants {
				if !c.OK {
					t.Errorf("turnfold %v: %s: %+v", args, v.Turn, c)
				}
			}
			seen[v.Turn] = seen[v.Turn] || v.OK && v.UnderWay == 0 && (len(v.Invariants) == 13)
		}
		for _, k := range list {
			if !seen[k.name] {
				t.Errorf("turnfold %v: %s has no clean verdict on all invariants:\n%s", args, k.name, out)
			}
		}
	}
	clean(dir, "audit", "--all", "--settled")
	for _, turn := range []string{"tenant-1", "tenant-2"} { // one of them had the effect, for both
		for _, args := range [][]string{{"audit", "export", turn, turn + ".ndjson"}, {"audit", "verify", turn + ".ndjson", "--settled"}} {
			if code, out, errs := invoke(t, dir, args...); code != 0 {
				t.Errorf("turnfold %v: exit %d: %s%s", args, code, out, errs)
			}
		}
	}
	if code, out, errs := invoke(t, dir, "audit", "export", "--all", "all.ndjson"); code != 0 {
		t.Fatalf("export: exit %d: %s%s", code, out, errs)
	}
	empty := t.TempDir()
	raw, err := os.ReadFile(filepath.Join(dir, "all.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, empty, "all.ndjson", string(raw))
	clean(empty, "audit", "verify", "all.ndjson", "--settled")
}
