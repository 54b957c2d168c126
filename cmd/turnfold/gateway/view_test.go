package gateway

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// broken runs a turn whose first attempt breaks after text.
func broken(w *world, id string, posted bool) {
	turn := local(id)
	if !posted {
		w.call("POST", "/v1/turns", `{"turn":"`+id+`","input":"Hi"}`, "Prefer", "respond-async")
	}
	at := w.start(turn, 1, 1)
	w.say(turn, &at, "I am ", "sor")
	w.event(turn, &event.AttemptFailed{At: at, Class: event.Connection, Retryable: true})
	w.attempt(turn, 1, 2, "Sorry ", "about ", "that.")
}

func texts(list []feed.Output) (out []string) {
	for _, o := range list {
		if b, ok := o.Body.(*feed.TextDelta); ok {
			out = append(out, b.Text)
		}
	}
	return out
}

// A client that cannot retract gets each attempt once it has won, live and from the log,
// and goes on from every item.
func TestHeldFeed(t *testing.T) {
	w := newWorld(t, nil)
	res := w.do("POST", "/v1/turns?reset=hold", `{"turn":"held","input":"Hi"}`)
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	live := []feed.Output{nextItem(t, r)} // the turn is stored
	broken(w, "held", true)
	for live[len(live)-1].Body.Type() != "message_saved" {
		live = append(live, nextItem(t, r))
	}
	if got := strings.Join(texts(live), "|"); got != "Sorry |about |that." {
		t.Errorf("live: %s", got)
	}
	_, _, body := w.call("GET", "/v1/turns/held/feed?reset=hold", "")
	if !slices.Equal(ids(items(t, body)), ids(live)) {
		t.Errorf("from the log %v, live %v", ids(items(t, body)), ids(live))
	}
	for i, id := range ids(live[:len(live)-1]) {
		_, _, body := w.call("GET", "/v1/turns/held/feed?reset=hold", "", "Last-Event-ID", id)
		if got := ids(items(t, body)); !slices.Equal(got, ids(live[i+1:])) {
			t.Errorf("after %s: %v, want %v", id, got, ids(live[i+1:]))
		}
	}
	_, _, body = w.call("GET", "/v1/turns/held/feed?reset=hold&after=7.7.7", "")
	if list := items(t, body); len(list) != 1 || list[0].Body.Type() != "error" {
		t.Errorf("a position that is unknown: %s", body)
	}
	for _, q := range []string{"reset=x", "compact=x"} {
		status, header, body := w.call("GET", "/v1/turns/held/feed?"+q, "")
		checkProblem(t, q, status, header, body, q[:len(q)-2], 422)
	}
}

// A late joiner gets what the turn amounts to, and may be cut off anywhere in it.
func TestCompactFeed(t *testing.T) {
	w := newWorld(t, nil)
	broken(w, "late", false)
	_, _, body := w.call("GET", "/v1/turns/late/feed", "") // to its end
	whole := items(t, body)
	_, _, body = w.call("GET", "/v1/turns/late/feed?compact=1", "")
	all := items(t, body)
	if got := texts(all); len(got) != 1 || got[0] != "Sorry about that." || all[len(all)-1].ID != whole[len(whole)-1].ID {
		t.Fatalf("compact: %s", body)
	}
	for i, id := range ids(all[:len(all)-1]) {
		_, _, body := w.call("GET", "/v1/turns/late/feed", "", "Last-Event-ID", id)
		if got := ids(items(t, body)); !slices.Equal(got, ids(all[i+1:])) {
			t.Errorf("after %s: %v, want %v", id, got, ids(all[i+1:]))
		}
	}
	if status, _, _ := w.call("GET", "/v1/turns/late/feed?compact=1", "", "Last-Event-ID", all[len(all)-1].ID); status != http.StatusNoContent {
		t.Errorf("after the last: %d", status)
	}
}

// Pages of other origins may call only where that is configured.
func TestOrigins(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Origins = []string{"https://app.example"} })
	for origin, want := range map[string]string{"https://app.example": "https://app.example", "https://evil.example": ""} {
		status, header, _ := w.call("OPTIONS", "/v1/turns", "", "Origin", origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "content-type,x-own", "Sec-Fetch-Site", "cross-site")
		if got := header.Get("Access-Control-Allow-Origin"); got != want || want != "" && (status != 204 || header.Get("Access-Control-Allow-Headers") != "content-type,x-own") {
			t.Errorf("preflight of %s: %d %v", origin, status, header)
		}
		status, header, body := w.call("POST", "/v1/turns", `{"turn":"auto-cors","input":"Hi"}`, "Origin", origin, "Sec-Fetch-Site", "cross-site", "Prefer", "respond-async")
		if got := header.Get("Access-Control-Allow-Origin"); got != want || (status == 202) != (want != "") {
			t.Errorf("post of %s: %d %v %s", origin, status, header, body)
		}
	}
	off := newWorld(t, nil)
	status, header, _ := off.call("POST", "/v1/turns", `{"input":"Hi"}`, "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site")
	if status != 403 || header.Get("Access-Control-Allow-Origin") != "" || header.Get("Vary") != "" {
		t.Errorf("off by default: %d %v", status, header)
	}
	for _, bad := range []string{"*", "app.example", "https://app.example/"} {
		if checkOrigins([]string{bad}, false) == nil {
			t.Errorf("%s is an origin", bad)
		}
	}
	if checkOrigins([]string{"*"}, true) != nil {
		t.Error("with tokens, every origin may call")
	}
}
