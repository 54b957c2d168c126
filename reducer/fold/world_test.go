package fold_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// callsMax is the number of calls in one generated reply.
const callsMax = 3

// world writes a turn's events as streamers, executors, people and timers would, most
// of them right, some repeated, stale, early or missing.
type world struct {
	t      *rapid.T
	opened *event.TurnOpened
	state  fold.State
	events []event.Event
	err    error
	ord    map[string]int // next ord by token
	slots  map[string]int // calls opened by token
	seq    uint64
	now    int64
}

func newWorld(t *rapid.T) *world {
	o := defaults()
	o.Policy.AttemptsPerStep = rapid.IntRange(1, 3).Draw(t, "attempts_per_step")
	o.Policy.AttemptsPerTurn = rapid.IntRange(1, 12).Draw(t, "attempts_per_turn")
	o.Policy.CallsPerTurn = rapid.IntRange(1, 9).Draw(t, "calls")
	o.Policy.AfterText = rapid.SampledFrom([]string{"reset", "reset", "salvage"}).Draw(t, "after_text")
	entries := []event.Entry{o.Entries[0], {Provider: "main", Model: "m-small", MaxOutputTokens: 8192}, {Provider: "big", Model: "m-big"}}
	for i := range entries {
		if rapid.Bool().Draw(t, "priced") {
			entries[i].API = rapid.SampledFrom([]string{"openai-chat", "anthropic-messages", "new-api"}).Draw(t, "api")
			entries[i].Price = event.Price{Currency: "EUR", Input: 2_500_001, CacheRead: 1_250_000, Output: 10_000_499}
		}
	}
	o.Rules = rapid.IntRange(0, event.Rules).Draw(t, "rules")
	o.Policy.TokensPerTurn = rapid.SampledFrom([]int64{0, 0, 12}).Draw(t, "tokens")
	o.Entries = entries[:rapid.IntRange(1, 3).Draw(t, "entries")]
	o.Tools = []event.Tool{
		{Name: "find", Effect: "read", TimeoutMS: 1000, Rows: rapid.SampledFrom([]string{"", "/ok"}).Draw(t, "rows")},
		{Name: "refund", Effect: "keyed", Identity: []string{"order"}, Repeat: "never", TimeoutMS: 1000, Cap: 1, Redact: []string{"/note"}},
		{Name: "note", Effect: "once", IdentityAll: true, Repeat: "per_call", TimeoutMS: 1000},
		{Name: "hold", Effect: "keyed", IdentityAll: true, Repeat: "per_step", Approval: "always", TimeoutMS: 1000, Card: "hold"},
	}
	g := &world{t: t, opened: o, state: absent(), ord: map[string]int{}, slots: map[string]int{}}
	g.put(o)
	return g
}

func (g *world) put(b event.Body) {
	g.seq += uint64(rapid.IntRange(1, 3).Draw(g.t, "seq"))
	g.now += int64(rapid.IntRange(-50, 400).Draw(g.t, "ms")) // leaders' clocks may differ
	e := event.Event{Turn: address, Seq: g.seq, Body: throughCodec(b), AtMS: max(g.now, 0)}
	g.events = append(g.events, e)
	next, _, err := fold.Guarded(g.state, e)
	g.state = next
	if err != nil && g.err == nil {
		g.err = err
	}
}

func (g *world) chance(percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(g.t, what) < percent
}

func (g *world) play(n int) {
	for len(g.events) < n && !g.state.Done() {
		switch {
		case g.chance(20, "fault"):
			g.fault()
		case g.state.Over():
			g.put(&event.MessageSaved{MessageID: "m1"})
		default:
			g.progress()
		}
	}
}

// progress lets one of those who work on the turn do the next right thing.
func (g *world) progress() {
	if step, a := g.state.Running(); a != nil {
		if a.Started == nil {
			g.start(step, a.N)
			return
		}
		g.stream(step, a.N, a.Started.Token)
		return
	}
	g.settleOne()
}

func (g *world) start(step, attempt int) {
	token := fmt.Sprintf("t%d", len(g.events))
	g.put(&event.AttemptStarted{Step: step, Attempt: attempt, Token: token})
}

func (g *world) at(step, attempt int, token string) event.At {
	at := event.At{Step: step, Attempt: attempt, Token: token, Ord: g.ord[token]}
	g.ord[token]++
	return at
}

func (g *world) stream(step, attempt int, token string) {
	switch rapid.SampledFrom([]string{"text", "call", "call", "call", "think", "block", "finish", "finish", "finish", "fail", "alive"}).Draw(g.t, "say") {
	case "text":
		g.put(&event.TextDelta{At: g.at(step, attempt, token), Text: rapid.SampledFrom([]string{"Hel", "lo ", "", "é🚲"}).Draw(g.t, "text")})
	case "think":
		g.put(&event.ReasoningDelta{At: g.at(step, attempt, token), Text: "hm"})
	case "block":
		g.put(&event.OpaqueBlock{At: g.at(step, attempt, token), API: "a", Data: `{"sig":"x"}`})
	case "call":
		if g.slots[token] < callsMax {
			g.call(step, attempt, token)
		}
	case "finish":
		if g.slots[token] == 0 && g.chance(75, "a call first") {
			g.call(step, attempt, token)
		}
		g.put(&event.AttemptFinished{At: g.at(step, attempt, token), Finish: "stop", Usage: event.Usage{Input: 3, Output: 2}})
	case "fail":
		g.fail(step, attempt, token)
	case "alive":
		g.put(&event.AttemptAlive{Step: step, Attempt: attempt, Token: token})
	}
}

func (g *world) call(step, attempt int, token string) {
	n := g.slots[token]
	g.slots[token]++
	b := &event.CallDelta{At: g.at(step, attempt, token), Index: n, ID: rapid.SampledFrom([]string{"c1", "c2", ""}).Draw(g.t, "id"),
		Name: rapid.SampledFrom([]string{"find", "refund", "refund", "note", "note", "hold", "nothing"}).Draw(g.t, "tool"),
		Args: rapid.SampledFrom([]string{`{"order":1}`, `{"order":1.0,"note":"x"}`, `{ "order": 1 }`, `{"order":2}`, "", `{"order":`}).Draw(g.t, "args")}
	g.put(b)
	if b.Args == `{"order":` && g.chance(90, "rest") {
		g.put(&event.CallDelta{At: g.at(step, attempt, token), Index: n, Args: `1 }`})
	}
}

func (g *world) fail(step, attempt int, token string) {
	classes := []event.Class{event.Connection, event.Stall, event.Truncated, event.Filtered, event.Auth, event.RateLimited, event.Cancelled, event.Budget, "new_class", ""}
	g.put(&event.AttemptFailed{At: g.at(step, attempt, token), Class: rapid.SampledFrom(classes).Draw(g.t, "class"),
		Unsent: g.chance(15, "unsent"), Usage: event.Usage{Input: 5, CacheRead: int64(g.ord[token]), Partial: g.chance(50, "partial")},
		Length: g.chance(20, "length"), Retryable: g.chance(80, "retryable"), RetryAfterMS: 100})
}

// settleOne answers one call, or decides about one that waits for a person.
func (g *world) settleOne() {
	var open []*fold.Call
	for _, st := range g.state.Steps {
		for _, c := range st.Calls {
			if !c.Settled() {
				open = append(open, c)
			}
		}
	}
	if len(open) == 0 {
		g.t.Fatalf("the turn is stranded: nothing runs and no call is open\n%s", g.describe())
	}
	c := rapid.SampledFrom(open).Draw(g.t, "open call")
	waiting := map[string]bool{}
	for _, st := range g.state.View().Steps {
		for _, v := range st.Calls {
			waiting[v.Call] = v.Waiting != ""
		}
	}
	if waiting[c.ID] {
		if g.chance(10, "expire") {
			g.put(&event.ApprovalExpired{Call: c.ID, Seen: g.seq})
		} else if g.chance(50, "approve") {
			g.put(&event.CallApproved{Call: c.ID, Digest: fold.ArgsDigest(c.Args)})
		} else {
			g.put(&event.CallDenied{Call: c.ID, Reason: "no"})
		}
		return
	}
	g.settle(c)
}

func (g *world) settle(c *fold.Call) {
	g.put(&event.CallSettled{Call: c.ID, Key: c.Key,
		Outcome:    rapid.SampledFrom([]event.Outcome{"succeeded", "succeeded", "failed", "unknown", "unknown", "refused", "not_run"}).Draw(g.t, "outcome"),
		ErrorClass: rapid.SampledFrom([]string{"http_500", "timeout", ""}).Draw(g.t, "error class"),
		Result:     rapid.SampledFrom([]string{`{"ok":true}`, "[]", ""}).Draw(g.t, "result"),
		Replayed:   g.chance(20, "replayed")})
}

// answer moves the turn towards its end: it answers what is pending.
func (g *world) answer() {
	if step, a := g.state.Running(); a != nil {
		switch {
		case a.Started == nil:
			g.start(step, a.N)
		case g.slots[a.Started.Token] < callsMax && g.chance(50, "one more call"):
			g.call(step, a.N, a.Started.Token)
		case g.chance(50, "finish"):
			g.put(&event.AttemptFinished{At: g.at(step, a.N, a.Started.Token), Finish: "stop"})
		default:
			g.fail(step, a.N, a.Started.Token)
		}
		return
	}
	g.settleOne()
}

// fault is something that happens in a distributed system.
func (g *world) fault() {
	pick := func() event.Event { return rapid.SampledFrom(g.events).Draw(g.t, "earlier") }
	step, a := g.state.Running()
	switch rapid.SampledFrom([]string{"redeliver", "repeat", "gap", "stranger", "lost", "lost", "overdue", "late", "cancel",
		"expired", "early save", "unknown kind", "wrong key", "wrong approval", "progress"}).Draw(g.t, "fault") {
	case "redeliver":
		e := pick()
		g.state, _, _ = fold.Guarded(g.state, e)
	case "repeat":
		g.repeat(pick().Body)
	case "gap":
		if a != nil && a.Started != nil && g.chance(30, "gap") {
			g.ord[a.Started.Token]++
		}
	case "stranger":
		g.put(&event.TextDelta{At: event.At{Step: max(step, 1), Attempt: 1, Token: "stranger"}, Text: "STRANGE"})
	case "lost":
		if a != nil && a.Started != nil {
			g.put(&event.AttemptLost{Step: step, Attempt: a.N, Token: a.Started.Token, Seen: g.seen(), Reason: "gone"})
		}
	case "overdue":
		g.overdue()
	case "late":
		g.late()
	case "cancel":
		if g.chance(20, "cancel") {
			g.put(&event.TurnCancelled{})
		}
	case "expired":
		if g.chance(15, "expire") {
			g.put(&event.TurnExpired{})
		}
	case "early save":
		g.put(&event.MessageSaved{MessageID: "m0"})
	case "unknown kind":
		g.put(&event.Unknown{Name: "turn.liked", Raw: []byte(`{"v":1,"kind":"turn.liked"}`)})
	case "wrong key":
		g.put(&event.CallSettled{Call: "1.0", Key: "tfk1_other", Outcome: event.OutcomeSucceeded})
	case "wrong approval":
		g.put(&event.CallApproved{Call: "1.0", Digest: "00"})
		g.put(&event.ApprovalExpired{Call: "1.0", Seen: 1})
	case "progress":
		g.put(&event.CallProgress{Call: "1.0", Percent: 50})
	}
}

// repeat stores a body once more, long after, unless it names what was seen: such a
// body is written by a timer, which looks first.
func (g *world) repeat(b event.Body) {
	switch b.(type) {
	case *event.AttemptLost, *event.CommandOverdue, *event.ApprovalExpired, *event.TurnExpired, *event.TurnCancelled:
		return
	}
	g.put(b)
}

func (g *world) seen() uint64 {
	return uint64(rapid.IntRange(0, int(g.seq)).Draw(g.t, "seen"))
}

func (g *world) overdue() {
	if timers := g.state.Timers(); len(timers) > 0 {
		if b := rapid.SampledFrom(timers).Draw(g.t, "timer").Fired(); b != nil && b.Kind() != "turn.expired" && b.Kind() != "approval.expired" {
			g.put(b)
		}
	}
}

// late resolves or contradicts the outcome of an earlier call.
func (g *world) late() {
	for _, st := range g.state.Steps {
		for _, c := range st.Calls {
			if c.Settled() && g.chance(40, "late") {
				g.settle(c)
				return
			}
		}
	}
}

func (g *world) describe() string {
	p := &printer{keys: map[string]string{}}
	state := absent()
	var out strings.Builder
	for _, e := range g.events {
		data, _ := event.Encode(e.Body)
		fmt.Fprintf(&out, "%d %s\n", e.Seq, data)
		var o []feed.Output
		state, o, _ = fold.Guarded(state, e)
		for _, x := range o {
			p.Reset()
			p.output(x)
			out.WriteString("    " + p.String())
		}
	}
	return out.String()
}
