package gateway

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// A tenant that knows the names of another's turn, call, chat and effect key gets the same
// answer at every address as if there were none; the one whose they are is let in.
func TestNamesOfAnotherTenant(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Tokens = map[string]string{"tok-a": "acme", "tok-b": "bolt"}
		c.Audit = func(context.Context, subjects.Turn) (any, error) { return map[string]bool{"ok": true}, nil }
	})
	mine := []string{"Authorization", "Bearer tok-a", "Prefer", "respond-async"}
	turn := chatPrefix("c") + "1"
	if status, _, body := w.call("POST", "/v1/turns", `{"turn":"`+turn+`","input":"Hi"}`, mine...); status != 202 {
		t.Fatal(status, body)
	}
	acme := subjects.Turn{Tenant: "acme", ID: turn}
	at := w.start(acme, 1, 1)
	for i := range 2 {
		w.event(acme, &event.CallDelta{At: at, Index: i, ID: "c", Name: "issue_refund", Args: `{"order":` + string(rune('1'+i)) + `}`})
		at.Ord++
	}
	w.event(acme, &event.AttemptFinished{At: at, Finish: "tool_calls"})
	key := effect.Meaning{Tenant: "acme", Scope: turn, Tool: "x"}.Key()
	for _, f := range []effect.Fact{
		{Kind: effect.KindClaim, Token: "a", Call: "acme/" + turn + "/1.7", Host: "h1"},
		{Kind: effect.KindReport, Token: "a", Call: "acme/" + turn + "/1.7", Outcome: effect.Unknown, ErrorClass: "timeout"},
	} {
		must(t, w.conn.AppendFact(context.Background(), subjects.KeyPartition(key, testPartitions), key, effect.EncodeFact(f)))
	}
	within(t, "the call waits", func() bool {
		status, _, _ := w.call("GET", "/v1/turns/"+turn+"/calls/1.0/approval", "", mine...)
		return status == 200
	})

	// In this order, so that the owner's own acts come after those that are refused.
	routes := []struct {
		pattern, query, body string
		none, own            int // status for a stranger, and for the owner
	}{
		{"GET /v1/turns/{turn}", "", "", 404, 200},
		{"GET /v1/turns/{turn}/audit", "", "", 404, 200},
		{"GET /v1/turns/{turn}/events", "", "", 404, 200},
		{"GET /v1/turns/{turn}/effects", "", "", 404, 200},
		{"GET /v1/turns/{turn}/calls/{call}/approval", "", "", 404, 200},
		{"POST /v1/turns/{turn}/calls/{call}/approve", "", `{"by":"eve","args":"{\"order\":1}"}`, 404, 202},
		{"POST /v1/turns/{turn}/calls/{call}/deny", "", `{"by":"eve"}`, 404, 409}, // it has just been approved
		{"GET /v1/effects/{key}", "", "", 404, 200},
		{"POST /v1/effects/{key}/resolve", "", `{"as":"succeeded","by":"eve","why":"seen"}`, 404, 200},
		{"POST /v1/turns/{turn}/cancel", "", `{"by":"eve"}`, 404, 202},
		{"GET /v1/turns/{turn}/feed", "", "", 404, 0},
		{"DELETE /v1/turns/{turn}", "", `{"by":"eve"}`, 404, 0}, // here is nobody who does it
		{"GET /v1/ai-sdk/chat/{chat}/stream", "?turn=" + turn, "", 204, 0},
	}
	names := strings.NewReplacer("{turn}", turn, "{call}", "1.0", "{key}", key, "{chat}", "c")
	tested := map[string]bool{}
	for _, r := range routes {
		tested[r.pattern] = true
		method, path, _ := strings.Cut(names.Replace(r.pattern), " ")
		status, _, body := w.call(method, path+r.query, r.body, "Authorization", "Bearer tok-b")
		if status != r.none || strings.Contains(body, "acme") || strings.Contains(body, "order") {
			t.Errorf("a stranger at %s: %d %s", r.pattern, status, body)
		}
		if r.own == 0 {
			continue // it does not end
		}
		if status, _, body := w.call(method, path+r.query, r.body, mine...); status != r.own {
			t.Errorf("the owner at %s: %d %s", r.pattern, status, body)
		}
	}
	source, err := os.ReadFile("gateway.go")
	must(t, err)
	for _, m := range regexp.MustCompile(`"((?:GET|POST|PUT|DELETE|PATCH) /v1/[^"]*\{[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		if !tested[m[1]] {
			t.Errorf("%s names something, and no stranger has been there", m[1])
		}
	}
	for _, list := range []string{"/v1/turns", "/v1/turns?status=all", "/v1/turns?view=summary", "/v1/effects?outcome=unknown"} {
		if _, _, body := w.call("GET", list, "", "Authorization", "Bearer tok-b"); strings.Contains(body, turn) {
			t.Errorf("%s of a stranger: %s", list, body)
		}
	}
}
