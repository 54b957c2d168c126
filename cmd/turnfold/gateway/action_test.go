package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

func TestCancel(t *testing.T) {
	w := newWorld(t, nil)
	turn := local("cancel-1")
	if status, _, _ := w.call("POST", "/v1/turns", `{"turn":"cancel-1","input":"Hi"}`, "Prefer", "respond-async"); status != 202 {
		t.Fatal(status)
	}
	at := w.start(turn, 1, 1)
	w.say(turn, &at, "Half a ")
	if _, _, body := w.call("GET", "/v1/turns", ""); !strings.Contains(body, `{"turn":"cancel-1"}`) {
		t.Errorf("not among the open turns: %s", body)
	}
	status, header, body := w.call("POST", "/v1/turns/cancel-1/cancel", `{"by":"ann","why":"x"}`)
	checkProblem(t, "unknown member", status, header, body, "why", 422)
	status, _, body = w.call("POST", "/v1/turns/cancel-1/cancel", `{"by":"ann","reason":"enough"}`)
	if status != 202 || !strings.Contains(body, `"turn":"cancel-1"`) {
		t.Fatalf("cancel: %d %s", status, body)
	}
	_, _, body = w.call("GET", "/v1/turns/cancel-1/feed", "")
	if !strings.Contains(body, `"finish":"cancelled"`) {
		t.Errorf("feed: %s", body)
	}
	status, header, body = w.call("POST", "/v1/turns/cancel-1/cancel", "")
	checkProblem(t, "cancel of an ended turn", status, header, body, "ended", 409)
}

func TestApproval(t *testing.T) {
	w := newWorld(t, nil)
	turn := local("approve-1")
	if status, _, _ := w.call("POST", "/v1/turns", `{"turn":"approve-1","input":"Hi"}`, "Prefer", "respond-async"); status != 202 {
		t.Fatal(status)
	}
	at := w.start(turn, 1, 1)
	for i := range 2 {
		w.event(turn, &event.CallDelta{At: at, Index: i, ID: "c", Name: "issue_refund", Args: `{"order":` + string(rune('1'+i)) + `}`})
		at.Ord++
	}
	w.event(turn, &event.AttemptFinished{At: at, Finish: "tool_calls"})
	post := func(path, body, named string, want int) {
		t.Helper()
		status, header, answer := w.call("POST", "/v1/turns/approve-1/calls/"+path, body)
		if want != 202 {
			checkProblem(t, path, status, header, answer, named, want)
		} else if status != 202 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	post("1.7/approve", `{}`, "call", 404)
	post("1.0/approve", `{"digest":"00"}`, "digest", 409)
	post("1.0/approve", `{"by":"ann"}`, "digest", 422)
	post("1.0/approve", ``, "digest", 422)
	post("1.0/approve", `{"args":"{\"order\": 1}"}`, "digest", 409) // the same meaning is not the same text
	status, _, body := w.call("GET", "/v1/turns/approve-1/calls/1.0/approval", "")
	var shown fold.Approval
	must(t, json.Unmarshal([]byte(body), &shown))
	if status != 200 || shown.Args != `{"order":1}` || shown.Digest != fold.ArgsDigest(shown.Args) || shown.ExpiresMS < time.Now().UnixMilli() {
		t.Errorf("what an approver sees: %d %s", status, body)
	}
	post("1.0/approve", `{"by":"ann","digest":"`+shown.Digest+`"}`, "", 202)
	post("1.0/approve", `{"by":"ann","digest":"`+shown.Digest+`"}`, "call", 409)
	if status, _, _ := w.call("GET", "/v1/turns/approve-1/calls/1.0/approval", ""); status != 409 {
		t.Errorf("a call that runs can still be approved: %d", status)
	}
	post("1.1/deny", `{"by":"ann","reason":"no"}`, "", 202)
	status, _, body = w.call("GET", "/v1/turns/approve-1", "")
	var view struct {
		Steps []struct {
			Calls []struct{ Call, Outcome, Waiting string }
		}
	}
	must(t, json.Unmarshal([]byte(body), &view))
	if status != 200 || view.Steps[0].Calls[1].Outcome != "refused" || view.Steps[0].Calls[0].Waiting != "" {
		t.Errorf("state: %d %s", status, body)
	}
}

func TestEffects(t *testing.T) {
	w := newWorld(t, nil)
	key := effect.Meaning{Tenant: "local", Scope: "t", Tool: "x"}.Key()
	p := subjects.KeyPartition(key, testPartitions)
	ctx := context.Background()
	for _, f := range []effect.Fact{
		{Kind: effect.KindClaim, Token: "a", Call: "local/t/1.0", Host: "h1"},
		{Kind: effect.KindReport, Token: "a", Call: "local/t/1.0", Outcome: effect.Succeeded, BodyDigest: "d"},
	} {
		must(t, w.conn.AppendFact(ctx, p, key, effect.EncodeFact(f)))
	}
	must(t, w.conn.PutBody(ctx, p, key, "a", []byte(`{"refund":1}`)))
	status, _, body := w.call("GET", "/v1/effects/"+key, "")
	if status != 200 || !strings.Contains(body, `"outcome":"succeeded"`) || !strings.Contains(body, `{\"refund\":1}`) {
		t.Errorf("%d %s", status, body)
	}
}

func TestTenants(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Tokens = map[string]string{"tok-a": "acme", "tok-b": "bolt"} })
	status, header, body := w.call("GET", "/v1/turns", "")
	checkProblem(t, "no token", status, header, body, "token", 401)
	status, header, body = w.call("GET", "/v1/turns", "", "Authorization", "Bearer tok-c")
	checkProblem(t, "unknown token", status, header, body, "token", 401)
	if status, _, _ := w.call("POST", "/v1/turns", `{"turn":"auto-mine","input":"Hi"}`, "Authorization", "Bearer tok-a"); status != 200 {
		t.Errorf("post: %d", status)
	}
	if status, _, _ := w.call("GET", "/v1/turns/auto-mine", "", "Authorization", "bearer tok-a"); status != 200 {
		t.Errorf("own turn: %d", status)
	}
	for _, path := range []string{"/v1/turns/auto-mine", "/v1/turns/auto-mine/feed"} {
		status, header, body = w.call("GET", path, "", "Authorization", "Bearer tok-b")
		checkProblem(t, "another's turn", status, header, body, "turn", 404)
	}
	if _, _, body := w.call("GET", "/v1/turns?status=all", "", "Authorization", "Bearer tok-b"); strings.Contains(body, "auto-mine") {
		t.Errorf("another's list: %s", body)
	}
	for _, open := range []string{"/livez", "/readyz"} {
		if status, _, _ := w.call("GET", open, ""); status != 200 {
			t.Errorf("%s: %d", open, status)
		}
	}
}

func TestHealth(t *testing.T) {
	sick := Check{Name: "log", Detail: "away"}
	w := newWorld(t, func(c *Config) {
		c.Ready = func(context.Context) []Check {
			return []Check{sick, {Name: "poisoned events", Info: true, Detail: "2"}}
		}
		c.Audit = func(context.Context, subjects.Turn) (any, error) { return nil, errors.New("x") }
	})
	status, header, body := w.call("GET", "/readyz", "")
	checkProblem(t, "readyz", status, header, body, "log: away", 503)
	status, _, body = w.call("GET", "/readyz?verbose", "")
	if status != 503 || !strings.Contains(body, `"poisoned events"`) || !strings.Contains(body, `"ok":false`) {
		t.Errorf("verbose: %d %s", status, body)
	}
	if status, _, body := w.call("GET", "/livez", ""); status != 200 || body != "ok\n" {
		t.Errorf("livez: %d %s", status, body)
	}
	if status, _, body := w.call("GET", "/metrics", ""); status != 200 || !strings.Contains(body, "turnfold_http_requests_total") {
		t.Errorf("metrics: %d %.200s", status, body)
	}
	if status, _, body := w.call("GET", "/", ""); status != 200 || !strings.Contains(body, "/v1/turns") {
		t.Errorf("index: %d %s", status, body)
	}
	w.g.Drain()
	status, header, body = w.call("POST", "/v1/turns", `{"input":"Hi"}`)
	checkProblem(t, "post while stopping", status, header, body, "stopping", 503)
}
