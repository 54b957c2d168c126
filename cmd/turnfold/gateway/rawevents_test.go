package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

type rawPage struct {
	Stream, Subject string
	More            bool
	Events          []struct {
		Seq      uint64
		AtMS     int64 `json:"at_ms"`
		Kind     string
		Body     map[string]any
		Withheld bool
	}
}

func rawOf(t testing.TB, w *world, path string) rawPage {
	t.Helper()
	status, _, body := w.call("GET", path, "")
	var p rawPage
	if status != 200 || json.Unmarshal([]byte(body), &p) != nil {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	return p
}

// Facts come in order and in pages, and without what `show` does not show.
func TestRawEvents(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Tools[0].Redact = []string{"/pin"} })
	turn := local("raw")
	w.call("POST", "/v1/turns", `{"turn":"raw","input":"my secret question","system":"a secret rule"}`, "Prefer", "respond-async")
	at := w.start(turn, 1, 1)
	w.say(turn, &at, "a ", "b ")
	w.event(turn, &event.CallDelta{At: at, ID: "c1", Name: "issue_refund", Args: `{"pin":"secret"`, Opaque: "secret"})
	at.Ord++
	w.event(turn, &event.OpaqueBlock{At: at, API: "x", Data: `"secret"`})
	p := turn.Partition(testPartitions)
	for _, data := range []string{`{"v":1,"kind":"of.tomorrow","what":"secret"}`, `{"no":"event"}`} {
		_, err := w.conn.Publish(t.Context(), subjects.Events(p, turn), nil, []byte(data))
		must(t, err)
	}
	all := rawOf(t, w, "/v1/turns/raw/events")
	var kinds []string
	for _, e := range all.Events {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); got != "turn.opened attempt.started text.delta text.delta call.delta opaque.block of.tomorrow malformed" {
		t.Errorf("kinds: %s", got)
	}
	if all.Events[0].AtMS == 0 || all.Subject != fmt.Sprintf("tf.ev.%d.local.raw", p) || all.More {
		t.Errorf("page: %+v", all)
	}
	_, _, body := w.call("GET", "/v1/turns/raw/events", "")
	if strings.Contains(body, "secret") || !strings.Contains(body, `"text":"a "`) {
		t.Errorf("it shows %s", body)
	}
	for i, want := range []bool{true, false, false, false, true, true, true, true} {
		if all.Events[i].Withheld != want {
			t.Errorf("%s says withheld: %v", all.Events[i].Kind, !want)
		}
	}
	var paged int
	for after, more := uint64(0), true; more; {
		page := rawOf(t, w, fmt.Sprintf("/v1/turns/raw/events?limit=3&after=%d", after))
		paged += len(page.Events)
		more, after = page.More, page.Events[len(page.Events)-1].Seq
	}
	if paged != len(all.Events) {
		t.Errorf("%d events in pages, %d at once", paged, len(all.Events))
	}
	for q, field := range map[string]string{"limit=0": "limit", "limit=2001": "limit", "after=x": "after"} {
		status, header, body := w.call("GET", "/v1/turns/raw/events?"+q, "")
		checkProblem(t, q, status, header, body, field, 422)
	}
	status, header, body := w.call("GET", "/v1/turns/none/events", "")
	checkProblem(t, "no turn", status, header, body, "turn", 404)
}

// Where no tool redacts, arguments are shown as they came.
func TestRawArguments(t *testing.T) {
	w := newWorld(t, nil)
	park(w, "open")
	p := rawOf(t, w, "/v1/turns/open/events")
	if got := p.Events[2].Body["args"]; got != `{"order":"O-1"}` || p.Events[2].Withheld {
		t.Errorf("arguments: %v", got)
	}
}

// A turn's effects tell what was asked for, by whom, and what became of it.
func TestTurnEffects(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Tools[0].Redact = []string{"/note"} })
	turn := local("fx")
	w.call("POST", "/v1/turns", `{"turn":"fx","input":"Hi"}`, "Prefer", "respond-async")
	at := w.start(turn, 1, 1)
	w.event(turn, &event.CallDelta{At: at, ID: "c1", Name: "issue_refund", Args: `{"order":"O-1","note":"x"}`})
	at.Ord++
	w.event(turn, &event.AttemptFailed{At: at, Class: event.Connection, Retryable: true})
	at = w.start(turn, 1, 2)
	w.event(turn, &event.CallDelta{At: at, ID: "c7", Name: "issue_refund", Args: `{"note":"x","order":"O-1"}`})
	at.Ord++
	w.event(turn, &event.AttemptFinished{At: at, Finish: "tool_calls"})
	var v turnEffects
	within(t, "the call", func() bool {
		status, _, body := w.call("GET", "/v1/turns/fx/effects", "")
		v = turnEffects{}
		return status == 200 && json.Unmarshal([]byte(body), &v) == nil && len(v.Effects) == 1
	})
	if len(v.Asked) != 2 || v.Asked[0].Key == "" || v.Asked[0].Key != v.Asked[1].Key || v.Effects[0].Key != v.Asked[0].Key || v.Asked[0].Call != "" || v.Asked[1].Call != "1.0" {
		t.Errorf("asked: %+v", v.Asked)
	}
	if strings.Contains(v.Asked[0].Args+v.Asked[1].Args, `"x"`) {
		t.Errorf("redacted: %+v", v.Asked)
	}
	if len(v.Tools) != 1 || v.Tools[0].Name != "issue_refund" || !v.Tools[0].IdentityAll || v.Calls != 1 || v.CallsMost != 8 || len(v.Effects[0].Claims) != 0 {
		t.Errorf("effects: %+v", v)
	}
	status, header, body := w.call("GET", "/v1/turns/none/effects", "")
	checkProblem(t, "no turn", status, header, body, "turn", 404)
}

// Browsers get the page, everybody else the list of calls; the page's files come with
// its policy.
func TestPageFiles(t *testing.T) {
	w := newWorld(t, nil)
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	status, header, body := w.call("GET", "/", "", "Accept", browser)
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/html") || !strings.Contains(body, "page/main.js") || header.Get("Vary") != "Accept" {
		t.Errorf("the page: %d %v", status, header)
	}
	if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy: %s", policy)
	}
	if status, header, _ := w.call("GET", "/", ""); status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Errorf("the list of calls: %d %v", status, header)
	}
	for file, kind := range map[string]string{"main.js": "text/javascript; charset=utf-8", "base.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"} {
		status, header, _ := w.call("GET", "/page/"+file, "")
		if status != 200 || header.Get("Content-Type") != kind || header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", file, status, header)
		}
		if status, _, body := w.call("GET", "/page/"+file, "", "If-None-Match", header.Get("ETag")); status != 304 || body != "" {
			t.Errorf("%s, unchanged: %d", file, status)
		}
	}
	status, header, body = w.call("GET", "/page/none.js", "")
	checkProblem(t, "no file", status, header, body, "no such file", 404)
}
