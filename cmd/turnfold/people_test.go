package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// asks serves the openai-chat API: first one call of a tool, afterwards a text.
func asks(t *testing.T, tool, args string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		if strings.Contains(string(body), `"role":"tool"`) {
			fmt.Fprint(w, `data: {"id":"c2","choices":[{"index":0,"delta":{"content":"It is being confirmed."}}]}`+"\n\n"+
				`data: {"id":"c2","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			return
		}
		text, _ := json.Marshal(args)
		fmt.Fprintf(w, `data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":%q,"arguments":%s}}]}}]}`+"\n\n"+
			`data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n", tool, text)
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// A call waits for a person over a restart; the person sees what would run, hidden parts
// included, and lets exactly that run. Its answer is lost, and a person says later how
// it ended.
func TestPeopleDecide(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer tool.Close()
	args := `{"order":"O-1","note":"private words"}`
	dir := configure(t, asks(t, "pay", args), "tools_file: tools.yaml\n")
	write(t, dir, "tools.yaml", fmt.Sprintf(`tools:
- {name: pay, description: Pay., effect: once, identity: [order], approval: always, approval_timeout: 1h, redact: [/note],
   parameters: {type: object, additionalProperties: false, required: [order], properties: {order: {type: string}, note: {type: string}}}, run: {http: {url: '%s'}}}
`, tool.URL))
	s := serve(t, dir)
	verb := func(want int, contains string, args ...string) string {
		t.Helper()
		code, stdout, stderr := invoke(t, dir, append(args, "--server", s.url)...)
		if code != want || !strings.Contains(stdout+stderr, contains) {
			t.Errorf("turnfold %v: exit %d, want %d with %q\nstdout: %s\nstderr: %s", args, code, want, contains, stdout, stderr)
		}
		return stdout
	}
	res, err := http.Post(s.url+"/v1/turns", "application/json", strings.NewReader(`{"turn":"t1","input":"Pay.","conversation":"chat-7"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	waitFor(t, "parked", func() bool { return strings.Contains(invokeOut(t, dir, s, "show", "t1"), "approval") })
	if out := invokeOut(t, dir, s, "show", "t1", "--json"); strings.Contains(out, "private words") || !strings.Contains(out, `"conversation":"chat-7"`) {
		t.Errorf("state: %s", out)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	s = serve(t, dir)
	data, err := http.Get(s.url + "/v1/turns/t1/calls/1.0/approval")
	if err != nil {
		t.Fatal(err)
	}
	defer data.Body.Close()
	var shown struct{ Args, Digest string }
	if err := json.NewDecoder(data.Body).Decode(&shown); err != nil || shown.Args != args {
		t.Errorf("an approver sees %+v, %v", shown, err)
	}
	verb(2, shown.Digest, "approve", "t1", "1.0") // nobody is there to be asked
	verb(1, "other arguments", "approve", "t1", "1.0", "--digest", strings.Repeat("0", 64))
	verb(0, "approved", "approve", "t1", "1.0", "--digest", shown.Digest, "--by", "ann")
	verb(1, "any more", "approve", "t1", "1.0", "--digest", shown.Digest)
	waitFor(t, "told", func() bool { return strings.Contains(invokeOut(t, dir, s, "show", "t1"), "It is being confirmed.") })
	verb(0, "approved by ann", "show", "t1")
	out := verb(5, "t1", "effects", "--unknown", "--json")
	var line effectLine
	if err := json.Unmarshal([]byte(strings.TrimSpace(out)), &line); err != nil || line.Outcome != "unknown" || ran.Load() != 1 {
		t.Fatalf("unknown effects %s (%v), %d runs", out, err, ran.Load())
	}
	verb(5, line.Key, "effects", "--unknown", "--all")
	verb(5, "unknown", "effects", line.Key)
	verb(0, "told: t1  1.0", "effects", "resolve", line.Key, "--as", "succeeded", "--by", "bob", "--why", "the bank shows it")
	verb(0, "by bob: the bank shows it", "show", "t1")
	verb(0, "by bob: the bank shows it", "effects", line.Key)
	verb(0, "", "effects", "--unknown")
	verb(1, "known already", "effects", "resolve", line.Key, "--as", "failed", "--by", "bob", "--why", "x")
	verb(0, "t1: ok", "audit", "t1")
}

func invokeOut(t *testing.T, dir string, s *serving, args ...string) string {
	t.Helper()
	_, stdout, _ := invoke(t, dir, append(args, "--server", s.url)...)
	return stdout
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
