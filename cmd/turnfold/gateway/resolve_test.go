package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// doubt runs a turn up to a call whose outcome is unknown, with the facts behind it.
func (w *world) doubt(id string, facts ...effect.Fact) (key string) {
	w.t.Helper()
	turn := local(id)
	if status, _, body := w.call("POST", "/v1/turns", `{"turn":"`+id+`","input":"Hi"}`, "Prefer", "respond-async"); status != 202 {
		w.t.Fatal(status, body)
	}
	at := w.start(turn, 1, 1)
	w.event(turn, &event.CallDelta{At: at, Index: 0, ID: "c", Name: "find", Args: `{"order":1}`})
	at.Ord++
	w.event(turn, &event.AttemptFinished{At: at, Finish: "tool_calls"})
	s, err := w.turns.Load(context.Background(), turn, 0)
	must(w.t, err)
	key = s.Call("1.0").Key
	p := subjects.KeyPartition(key, testPartitions)
	for _, f := range facts {
		f.Call = turn.String() + "/1.0"
		must(w.t, w.conn.AppendFact(context.Background(), p, key, effect.EncodeFact(f)))
	}
	w.event(turn, &event.CallSettled{Call: "1.0", Key: key, Outcome: event.OutcomeUnknown, ErrorClass: "timeout"})
	return key
}

// A person's word makes an unknown outcome known, in the facts and in the turn; what is
// known never changes.
func TestResolve(t *testing.T) {
	w := newWorld(t, nil)
	claim := effect.Fact{Kind: effect.KindClaim, Token: "a", Host: "h"}
	unknown := effect.Fact{Kind: effect.KindReport, Token: "a", Outcome: effect.Unknown, ErrorClass: "timeout"}
	key := w.doubt("doubt-1", claim, unknown)
	path := "/v1/effects/" + key + "/resolve"
	listed := func() int {
		t.Helper()
		status, _, body := w.call("GET", "/v1/effects?outcome=unknown", "")
		if status != 200 {
			t.Fatal(status, body)
		}
		return strings.Count(body, `"outcome":"unknown"`)
	}
	if n := listed(); n != 1 {
		t.Errorf("%d unknown effects are listed", n)
	}
	for _, c := range []struct {
		body, named string
		status      int
	}{
		{`{"as":"refused","by":"ann","why":"x"}`, "as", 422}, {`{"as":"failed","why":"x"}`, "by", 422},
		{`{"as":"failed","by":"ann"}`, "why", 422}, {`{"as":"failed","by":"ann","why":"x","result":"y"}`, "result", 422},
		{`{"as":"failed","by":"ann","why":"x","who":"y"}`, "who", 422},
	} {
		status, header, body := w.call("POST", path, c.body)
		checkProblem(t, c.body, status, header, body, c.named, c.status)
	}
	status, _, body := w.call("POST", path, `{"as":"succeeded","by":"ann","why":"the bank shows it","result":"{\"refund\":7}"}`)
	if status != 200 || !strings.Contains(body, `"told":[{"turn":"doubt-1","call":"1.0"}]`) && !strings.Contains(body, `"told":[{"call":"1.0","turn":"doubt-1"}]`) {
		t.Fatalf("resolve: %d %s", status, body)
	}
	_, _, body = w.call("GET", "/v1/turns/doubt-1", "")
	for _, want := range []string{`"outcome":"succeeded"`, `"resolved_by":"ann"`, `"why":"the bank shows it"`, `{\"refund\":7}`} {
		if !strings.Contains(body, want) {
			t.Errorf("state lacks %s: %s", want, body)
		}
	}
	_, _, body = w.call("GET", "/v1/effects/"+key, "")
	if !strings.Contains(body, `"outcome":"succeeded"`) || !strings.Contains(body, `"by":"ann"`) || !strings.Contains(body, `{\"refund\":7}`) {
		t.Errorf("effect: %s", body)
	}
	for _, as := range []string{"failed", "succeeded"} {
		status, header, body := w.call("POST", path, `{"as":"`+as+`","by":"bob","why":"x"}`)
		checkProblem(t, "resolve again as "+as, status, header, body, "known already", 409)
	}
	if n := listed(); n != 0 {
		t.Errorf("%d unknown effects are listed after all are resolved", n)
	}
}

func TestResolveFailed(t *testing.T) {
	w := newWorld(t, nil)
	fact := func(kind effect.FactKind, token string, o effect.Outcome) effect.Fact {
		return effect.Fact{Kind: kind, Token: token, Outcome: o}
	}
	// Every claim must have failed for the call to have failed.
	key := w.doubt("two-doubts", fact(effect.KindClaim, "a", ""), fact(effect.KindReport, "a", effect.Unknown),
		fact(effect.KindClaim, "b", ""), fact(effect.KindReport, "b", effect.Unknown))
	if status, _, body := w.call("POST", "/v1/effects/"+key+"/resolve", `{"as":"failed","by":"ann","why":"never arrived"}`); status != 200 {
		t.Fatal(status, body)
	}
	_, _, body := w.call("GET", "/v1/effects/"+key, "")
	var v struct{ Outcome string }
	must(t, json.Unmarshal([]byte(body), &v))
	if v.Outcome != "failed" {
		t.Errorf("outcome %s: %s", v.Outcome, body)
	}
	// A run may still be under way.
	key = w.doubt("still-open", fact(effect.KindClaim, "a", ""))
	status, header, body := w.call("POST", "/v1/effects/"+key+"/resolve", `{"as":"failed","by":"ann","why":"x"}`)
	checkProblem(t, "an open claim", status, header, body, "under way", 409)
	// The turn ended before anybody had claimed.
	key = w.doubt("no-facts")
	if status, _, body := w.call("POST", "/v1/effects/"+key+"/resolve", `{"as":"failed","by":"ann","why":"x"}`); status != 200 {
		t.Error(status, body)
	}
	other := effect.Meaning{Tenant: "local", Scope: "nobody", Tool: "x"}.Key()
	status, header, body = w.call("POST", "/v1/effects/"+other+"/resolve", `{"as":"failed","by":"ann","why":"x"}`)
	checkProblem(t, "a key of nothing", status, header, body, "Nothing is known", 404)
}

// Another tenant's effect is nobody's business.
func TestResolveOfAnotherTenant(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Tokens = map[string]string{"tok-b": "bolt"} })
	key := effect.Meaning{Tenant: "local", Scope: "t", Tool: "x"}.Key()
	p := subjects.KeyPartition(key, testPartitions)
	for _, f := range []effect.Fact{{Kind: effect.KindClaim}, {Kind: effect.KindReport, Outcome: effect.Unknown}} {
		f.Token, f.Call = "a", "local/t/1.0"
		must(t, w.conn.AppendFact(context.Background(), p, key, effect.EncodeFact(f)))
	}
	status, header, body := w.call("POST", "/v1/effects/"+key+"/resolve", `{"as":"failed","by":"b","why":"x"}`, "Authorization", "Bearer tok-b")
	checkProblem(t, "another's effect", status, header, body, "Nothing is known", 404)
}
