package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
)

func listOf(t testing.TB, w *world, query string) summaryList {
	t.Helper()
	status, _, body := w.call("GET", "/v1/turns?view=summary"+query, "")
	var out summaryList
	if status != http.StatusOK || json.Unmarshal([]byte(body), &out) != nil {
		t.Fatalf("list %s: %d %s", query, status, body)
	}
	return out
}

func names(l summaryList) (out []string) {
	for _, s := range l.Turns {
		out = append(out, s.Turn)
	}
	return out
}

// park runs a turn to a call that waits for a person.
func park(w *world, id string) {
	turn := local(id)
	w.call("POST", "/v1/turns", `{"turn":"`+id+`","input":"Hi"}`, "Prefer", "respond-async")
	at := w.start(turn, 1, 1)
	w.event(turn, &event.CallDelta{At: at, ID: "c1", Name: "issue_refund", Args: `{"order":"O-1"}`})
	at.Ord++
	w.event(turn, &event.AttemptFinished{At: at, Finish: "tool_calls"})
}

// The list has ended turns, open ones and those that wait for a person, whether they
// ended before the first question or after it; filters, pages and counts agree.
func TestList(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 3 {
		w.call("POST", "/v1/turns", fmt.Sprintf(`{"turn":"auto-%d","input":"Hi"}`, i)) // to its end
	}
	within(t, "three turns", func() bool { return listOf(t, w, "").Counts.Completed == 3 })
	broken(w, "other", false)
	park(w, "parked")
	w.call("POST", "/v1/turns", `{"turn":"quiet","input":"Hi"}`, "Prefer", "respond-async")
	within(t, "six turns", func() bool {
		c := listOf(t, w, "").Counts
		return c == turnCounts{All: 6, Open: 2, Waiting: 1, Completed: 4}
	})
	if got := names(listOf(t, w, "")); !slices.Equal(got, []string{"quiet", "parked", "other", "auto-2", "auto-1", "auto-0"}) {
		t.Errorf("all: %v", got)
	}
	for query, want := range map[string]string{
		"&state=open": "quiet parked", "&state=waiting": "parked", "&state=completed&limit=2": "other auto-2", "&state=completed&limit=2&offset=2": "auto-1 auto-0",
		"&q=AUTO": "auto-2 auto-1 auto-0", "&q=auto&offset=2": "auto-0", "&q=nobody": "", "&state=failed": "", "&state=unknown": "", "&offset=99": "",
	} {
		if got := strings.Join(names(listOf(t, w, query)), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if l := listOf(t, w, "&state=completed&limit=1"); l.Total != 4 || l.Tenant != "local" || l.Counts.All != 6 {
		t.Errorf("a page: %+v", l)
	}
	s := listOf(t, w, "&q=other").Turns[0]
	if len(s.Attempts) != 2 || s.Attempts[0].Outcome != "failed" || s.Attempts[0].Class != event.Connection || s.Excerpt != "Sorry about that." ||
		s.FirstMS < s.OpenedMS || s.EndedMS < s.FirstMS || s.Events == 0 {
		t.Errorf("summary: %+v", s)
	}
	w.call("POST", "/v1/turns/parked/calls/1.0/deny", `{"by":"ada"}`)
	within(t, "nobody is waited for", func() bool { return listOf(t, w, "").Counts.Waiting == 0 })
	for query, field := range map[string]string{"&state=x": "state", "&limit=0": "limit", "&limit=201": "limit", "&offset=-1": "offset", "&offset=x": "offset"} {
		status, header, body := w.call("GET", "/v1/turns?view=summary"+query, "")
		checkProblem(t, query, status, header, body, field, 422)
	}
	status, header, body := w.call("GET", "/v1/turns?view=x", "")
	checkProblem(t, "view", status, header, body, "view", 422)
}

// An unknown outcome is on the list until somebody resolves it, which no item tells.
func TestListUnknown(t *testing.T) {
	w := newWorld(t, nil)
	listOf(t, w, "") // from now on the hub is heard
	park(w, "doubt")
	within(t, "it waits", func() bool { return listOf(t, w, "").Counts.Waiting == 1 })
	turn := local("doubt")
	var key string
	within(t, "a key", func() bool {
		s, err := w.turns.Load(t.Context(), turn, 0)
		if err == nil && s.Call("1.0") != nil {
			key = s.Call("1.0").Key
		}
		return key != ""
	})
	_, _, body := w.call("GET", "/v1/turns/doubt/calls/1.0/approval", "")
	var a struct{ Digest string }
	must(t, json.Unmarshal([]byte(body), &a))
	w.call("POST", "/v1/turns/doubt/calls/1.0/approve", `{"by":"ada","digest":"`+a.Digest+`"}`)
	w.event(turn, &event.CallSettled{Call: "1.0", Key: key, Outcome: event.OutcomeUnknown, ErrorClass: "timeout"})
	within(t, "it is unknown", func() bool { return listOf(t, w, "").Counts.Unknown == 1 })
	w.event(turn, &event.CallSettled{Call: "1.0", Key: key, Outcome: event.OutcomeSucceeded, By: "ada"})
	within(t, "it is known", func() bool { return listOf(t, w, "").Counts.Unknown == 0 })
}

// Tenants see their own turns.
func TestListTenants(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Tokens = map[string]string{"t-a": "acme", "t-b": "bravo"} })
	for _, token := range []string{"t-a", "t-b"} {
		w.call("POST", "/v1/turns", `{"turn":"auto-`+token+`","input":"Hi"}`, "Authorization", "Bearer "+token)
	}
	for token, want := range map[string]string{"t-a": "auto-t-a", "t-b": "auto-t-b"} {
		_, _, body := w.call("GET", "/v1/turns?view=summary", "", "Authorization", "Bearer "+token)
		var l summaryList
		must(t, json.Unmarshal([]byte(body), &l))
		if got := names(l); len(got) != 1 || got[0] != want || l.Counts.All != 1 {
			t.Errorf("%s sees %v", token, got)
		}
		for _, path := range []string{"/events", "/effects"} {
			other := "/v1/turns/auto-t-a" + path
			if token == "t-a" {
				other = "/v1/turns/auto-t-b" + path
			}
			if status, _, _ := w.call("GET", other, "", "Authorization", "Bearer "+token); status != 404 {
				t.Errorf("%s reads %s: %d", token, other, status)
			}
			if status, _, _ := w.call("GET", other, ""); status != 401 {
				t.Errorf("%s without a token: %d", other, status)
			}
		}
	}
}

// The directory keeps the latest turns, and forgets what nobody asks for.
func TestDirectory(t *testing.T) {
	w := newWorld(t, nil)
	w.call("POST", "/v1/turns", `{"turn":"auto-1","input":"Hi"}`)
	if d := w.g.directory; d.hears.Load() || len(d.of("local")) != 0 {
		t.Error("it listens before anybody has asked")
	}
	within(t, "a turn", func() bool { return len(listOf(t, w, "").Turns) == 1 })
	w.g.directory.forget()
	if len(w.g.directory.of("local")) != 0 {
		t.Error("it remembers")
	}
	if got := names(listOf(t, w, "")); !slices.Equal(got, []string{"auto-1"}) {
		t.Errorf("loaded again: %v", got)
	}
	for _, c := range []struct{ data, want string }{{`{"type":"error","id":"1"}`, "error"}, {`{"type":"`, ""}, {`{"id":"1","type":"error"}`, ""}, {``, ""}} {
		if got := typeOf([]byte(c.data)); got != c.want {
			t.Errorf("%s is of type %q", c.data, got)
		}
	}
}
