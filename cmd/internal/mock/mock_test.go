package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// dialects are the APIs of the mock, and below what address each lies.
var dialects = map[string]string{"openai-chat": "/v1", "openai-responses": "/v1", "anthropic-messages": "/v1", "gemini": ""}

// scenarios are what happens to the first request of a turn, and how its attempt ends.
// All the others get a whole reply.
var scenarios = []struct {
	name    string
	first   map[string]any // members of the first reply's fixture; nil is whole
	class   string
	retried bool
	waitMin time.Duration // between the first two requests
}{
	{name: "parallel"},
	{name: "reset", first: map[string]any{"truncateAfterChunks": 3}, class: "connection", retried: true},
	{name: "ratelimit", first: failing(429, "rate_limit_error", 1), class: "rate_limited", retried: true, waitMin: time.Second},
	{name: "overloaded", first: failing(529, "overloaded_error", 0), class: "overloaded", retried: true},
	{name: "malformed", first: map[string]any{"chaos": map[string]any{"malformedRate": 1}}, class: "server_error", retried: true},
}

func failing(status int, kind string, retryAfter int) map[string]any {
	r := map[string]any{"error": map[string]any{"message": "not now", "type": kind}, "status": status}
	if retryAfter > 0 {
		r["retryAfter"] = retryAfter
	}
	return map[string]any{"response": r}
}

const (
	opening, closing = "Refunding both, one moment. ", "Both are refunded."
	winner           = "try 2"          // in the arguments of the reply that is whole
	unknown          = "unknown-finish" // Gemini alone: the mock's own word ends the reply
)

// reply is a reply with text and two calls, worded anew for each attempt.
func reply(n int, gemini bool) map[string]any {
	calls := []any{}
	for i, args := range []string{`{"order":"O-1","note":"try %d"}`, `{"note":"try %d", "order":"O-2"}`} {
		calls = append(calls, map[string]any{"id": fmt.Sprintf("c%d_%d", n, i), "name": "refund", "arguments": fmt.Sprintf(args, n)})
	}
	out := map[string]any{"content": opening, "toolCalls": calls}
	if gemini {
		out["finishReason"] = "stop" // see the package's comment
	}
	return out
}

// fixtures is what the mock is told.
func fixtures() any {
	var out []any
	add := func(input string, match, more map[string]any) {
		f := map[string]any{"chunkSize": 8}
		for k, v := range more {
			f[k] = v
		}
		m := map[string]any{"userMessage": input}
		for k, v := range match {
			m[k] = v
		}
		f["match"] = m
		out = append(out, f)
	}
	add("[gemini unknown-finish]", nil, map[string]any{"response": map[string]any{"toolCalls": reply(1, false)["toolCalls"]}})
	add("Refund", map[string]any{"hasToolResult": true}, map[string]any{"response": map[string]any{"content": closing}})
	for d := range dialects {
		for _, s := range scenarios {
			if s.first != nil {
				first := map[string]any{"response": reply(1, d == "gemini")}
				for k, v := range s.first {
					first[k] = v
				}
				add(input(d, s.name), map[string]any{"sequenceIndex": 0}, first)
			}
			add(input(d, s.name), nil, map[string]any{"response": reply(2, d == "gemini")})
		}
	}
	return map[string]any{"fixtures": out}
}

func input(dialect, scenario string) string { return "Refund [" + dialect + " " + scenario + "]" }

// world is a turnfold, the mock and one tool.
type world struct {
	mock   provider
	p      *stage.Product
	ledger *stage.Ledger
}

// newWorld gives each dialect and scenario a route of its own, so that the mock's
// journal keeps them apart by a header of the provider.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{mock: startMock(t, fixtures()), ledger: stage.NewLedger(`{"refund":"ok"}`, 0)}
	t.Cleanup(w.ledger.Close)
	binary, err := built.Into(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	providers, routes := map[string]any{}, map[string]any{}
	for d, path := range dialects {
		for _, s := range append([]string{unknown}, names()...) {
			id := d + "-" + s
			providers[id] = map[string]any{"api": d, "base_url": w.mock.base + path, "api_key_env": "TURNFOLD_STAGE_KEY", "model": "m",
				"headers": map[string]string{"X-Test-Id": id}}
			routes[id], routes["default"] = []string{id}, []string{id}
		}
	}
	p, err := stage.NewProduct(binary, t.TempDir(), "", map[string]any{"providers": providers, "routes": routes, "log": map[string]any{"level": "warn"},
		"retry": map[string]any{"attempts_per_step": 4, "backoff": map[string]any{"base": "5ms", "max": "50ms", "retry_after_max": "5s"},
			"budget": map[string]any{"fraction": 1000, "per_second": 1_000_000}}},
		stage.Tool{Name: "refund", URL: w.ledger.URL(), Identity: []string{"order"}, Timeout: 10 * time.Second,
			Members: map[string]string{"order": "string", "note": "string"}})
	if err != nil {
		t.Fatal(err)
	}
	w.p = p
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(p.Dir, "turnfold.log"))
			t.Logf("turnfold.log ends with:\n%s", log[max(0, len(log)-4000):])
		}
	})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func names() (out []string) {
	for _, s := range scenarios {
		out = append(out, s.name)
	}
	return out
}

// state is what GET /v1/turns/{turn} says, as far as the tests look at it.
type state struct {
	Status, Text string
	Steps        []struct {
		Attempts []struct{ Outcome, Class, Detail string }
		Calls    []struct{ Tool, Args, Key, Outcome string }
	}
}

func (w *world) run(t *testing.T, id, input string) (*stage.Follower, state) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := stage.NewFollower(w.p, id)
	f.Route = id
	err := f.Post(ctx, input)
	for !f.Over && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		err = f.Resume(ctx)
	}
	if !f.Over {
		t.Fatalf("%s has not ended: %v; items %+v", id, err, f.Items)
	}
	var s state
	data, err := w.p.Get(ctx, "/v1/turns/"+id)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range f.Faults() {
		t.Errorf("%s: %s", id, fault)
	}
	return f, s
}

// TestForeignMock plays every scenario in every dialect.
func TestForeignMock(t *testing.T) {
	w := newWorld(t)
	requests := 0
	for d := range dialects {
		for _, s := range scenarios {
			id := d + "-" + s.name
			f, got := w.run(t, id, input(d, s.name))
			if f.Text() != opening+closing || got.Text != f.Text() {
				t.Errorf("%s: the reader sees %q, the state says %q", id, f.Text(), got.Text)
			}
			if len(got.Steps) != 2 {
				t.Errorf("%s: %+v", id, got)
				continue
			}
			attempts := len(got.Steps[0].Attempts) + len(got.Steps[1].Attempts)
			journal := w.mock.journal(t, id, attempts)
			requests += len(journal)
			want := 2
			if s.retried {
				want = 3
				if a := got.Steps[0].Attempts[0]; a.Class != s.class {
					t.Errorf("%s: the first attempt ended as %+v, want %s", id, a, s.class)
				}
			}
			if attempts != want || len(journal) != attempts {
				t.Errorf("%s: %d attempts, %d requests in the mock's journal, want %d: %+v", id, attempts, len(journal), want, got.Steps)
			}
			if s.waitMin > 0 && len(journal) > 1 && journal[1].Timestamp-journal[0].Timestamp < s.waitMin.Milliseconds() {
				t.Errorf("%s: asked again after %d ms, told to wait %s", id, journal[1].Timestamp-journal[0].Timestamp, s.waitMin)
			}
			w.checkCalls(t, id, got)
		}
	}
	fmt.Printf("foreign mock: turns %d, requests in its journal %d\n", len(dialects)*len(scenarios), requests)
}

// checkCalls: both calls of the winner ran once, with their arguments as they came.
func (w *world) checkCalls(t *testing.T, id string, s state) {
	t.Helper()
	var ran []string
	for _, c := range s.Steps[0].Calls {
		if got := w.ledger.Under(c.Key); !slices.Equal(got, []string{c.Args}) {
			t.Errorf("%s: under key %s the tool got %q, want %q once", id, c.Key, got, c.Args)
		}
		if !strings.Contains(c.Args, winner) {
			t.Errorf("%s: %s is not of the winner", id, c.Args)
		}
		for _, order := range []string{"O-1", "O-2"} {
			if strings.Contains(c.Args, order) {
				ran = append(ran, order)
			}
		}
	}
	if !slices.Equal(ran, []string{"O-1", "O-2"}) {
		t.Errorf("%s: calls for %v", id, ran)
	}
}

// TestUnknownFinish: a word that the API does not have ends every attempt as a failure
// that names it, and no call runs.
func TestUnknownFinish(t *testing.T) {
	w := newWorld(t)
	id := "gemini-" + unknown
	f, s := w.run(t, id, input("gemini", unknown))
	requests := len(w.mock.journal(t, id, 4))
	if len(s.Steps) != 1 || len(s.Steps[0].Attempts) != 4 || requests != 4 || w.ledger.Effects() != 0 {
		t.Errorf("%+v, %d requests, %d effects", s, requests, w.ledger.Effects())
	}
	for _, a := range s.Steps[0].Attempts {
		if a.Class != "unknown_finish" || !strings.Contains(a.Detail, "FUNCTION_CALL") {
			t.Errorf("%+v", a)
		}
	}
	if last := f.Items[len(f.Items)-1]; last.Type != "error" {
		t.Errorf("%+v", last)
	}
}
