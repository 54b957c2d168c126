package executor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// doubtful declares a once tool that loses every answer, and a target that can be asked.
func doubtful(w *world, more string) (asked *atomic.Int32, knows *atomic.Bool) {
	asked, knows = new(atomic.Int32), new(atomic.Bool)
	w.tools = w.declare(fmt.Sprintf(`
  - name: book
    parameters: {type: object, required: [order], properties: {order: {type: string}}}
    effect: once
    identity: "*"
    run: {http: {url: "%s/book"}}
    verify: {http: {url: "%s/bookings/{key}"}, found: /id%s}
`, w.target.URL, w.target.URL, more))
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		if r.Method == http.MethodGet {
			asked.Add(1)
			if knows.Load() {
				fmt.Fprintf(rw, `{"id":"b-1","key":%q}`, r.URL.Path)
			} else {
				fmt.Fprint(rw, `{}`)
			}
			return
		}
		panic(http.ErrAbortHandler) // the booking is made, its answer lost
	})
	return asked, knows
}

// A host's clock that was ahead when a question was noted does not put it off for ever.
func TestClockThatWasAhead(t *testing.T) {
	store, err := keystore.Open(t.TempDir(), keystore.Config{Host: "a", Log: zerolog.Nop()})
	check(t, err)
	defer func() { check(t, store.Close()) }()
	now := time.Now()
	check(t, store.KeepDoubt(t.Context(), keystore.Doubt{Key: "k", Token: "t", Call: "local/t/1.1", Since: now, Next: now.AddDate(1, 0, 0)}))
	a := newAsker(&performer{clock: systemClock{}}, nil, store, time.Second, zerolog.Nop())
	check(t, a.recall())
	if _, wait := a.next(true); wait > verifyBackoffMax {
		t.Errorf("waits %s for the next question, more than %s", wait, verifyBackoffMax)
	}
	for _, d := range a.open {
		if d.Next.After(now.Add(2 * verifyBackoffMax)) {
			t.Errorf("it is due in %s", d.Next.Sub(now))
		}
	}
}

func quickly(c *Config) { c.VerifyBackoff = 20 * time.Millisecond }

// After an unknown the target is asked, across a restart; a no leaves the outcome
// unknown, a yes makes it known for good, in the facts and in the turn.
func TestVerifyResolvesUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked, knows := doubtful(w, "")
	h := w.host("a")
	h.start(quickly)
	out := w.call("t", "book", order)
	w.command(out[0])
	want(t, w.settled("t", "1.0"), event.OutcomeUnknown, "connection", false)
	eventually(t, "asked twice", func() bool { return asked.Load() >= 2 })
	if n := len(w.settlements("t", "1.0")); n != 1 {
		t.Fatalf("a no has settled the call: %d settlements", n)
	}
	h.end()
	knows.Store(true)
	h = w.host2(h)
	h.start(quickly)
	eventually(t, "resolved", func() bool { return len(w.settlements("t", "1.0")) > 1 })
	all := w.settlements("t", "1.0")
	b := all[len(all)-1]
	want(t, b, event.OutcomeSucceeded, "", false)
	if b.By != "verify" || !strings.Contains(b.Result, `"id":"b-1"`) || !strings.Contains(b.Result, keyOf(out[0])) {
		t.Errorf("settled %+v", *b)
	}
	v := effect.Join(w.facts(keyOf(out[0])))
	if s, ok := v.Succeeded(); !ok || s.Report.By != "verify" || v.Conflict {
		t.Errorf("facts %+v", v)
	}
	eventually(t, "nothing left to ask", func() bool { left, err := h.store.Doubts(); return err == nil && len(left) == 0 })
	eventually(t, "outbox empty", func() bool { n, err := h.x.outboxSize(); return err == nil && n == 0 })
	// An equal call replays what the target said.
	w.command(again(out[0], "2.0"))
	second := w.settled("t", "2.0")
	want(t, second, event.OutcomeSucceeded, "", true)
	if second.Result != b.Result {
		t.Errorf("replayed %s", second.Result)
	}
}

// host2 is the same host after a restart.
func (w *world) host2(h *host) *host { return &host{w: w, name: h.name, dir: h.dir} }

// A target that never knows the key is not asked for ever; a person's word ends the
// asking, and is what the turn hears.
func TestVerifyEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked, _ := doubtful(w, ", for: 1s")
	h := w.host("a").start(quickly)
	out := w.call("t", "book", order)
	w.command(out[0])
	w.settled("t", "1.0")
	eventually(t, "given up", func() bool { left, err := h.store.Doubts(); return err == nil && len(left) == 0 && asked.Load() > 0 })
	if n := len(w.settlements("t", "1.0")); n != 1 {
		t.Errorf("%d settlements", n)
	}
	out = w.call("u", "book", order)
	w.command(out[0])
	w.settled("u", "1.0")
	key := keyOf(out[0])
	claim := effect.Join(w.facts(key)).Tokens[0]
	w.publish(subjects.Effect(subjects.KeyPartition(key, testPartitions), key), effect.EncodeFact(effect.Fact{
		Kind: effect.KindReport, Token: claim.ID, Call: claim.Call, Outcome: effect.Failed, ErrorClass: "resolved", By: "ann", Why: "never arrived"}))
	eventually(t, "heard", func() bool { return len(w.settlements("u", "1.0")) == 2 })
	if b := w.settlements("u", "1.0")[1]; b.Outcome != event.OutcomeFailed || b.By != "ann" || b.Why != "never arrived" {
		t.Errorf("settled %+v", *b)
	}
}

// A key that was claimed for another identity is refused and counted, whatever became
// of the claim.
func TestKeyConflictIsRefused(t *testing.T) {
	w := newWorld(t)
	h := w.host("a").start()
	for i, o := range []effect.Outcome{effect.Succeeded, effect.Failed, effect.Unknown, ""} {
		out := w.call(fmt.Sprint("t", i), "once", order)
		c := out[0].Body.(*feed.CallCommand)
		c.Identity = "mine"
		key := keyOf(out[0])
		subject := subjects.Effect(subjects.KeyPartition(key, testPartitions), key)
		w.publish(subject, effect.EncodeFact(effect.Fact{Kind: effect.KindClaim, Token: "x", Call: "local/other/1.0", Host: "b", Identity: "other"}))
		if o != "" {
			w.publish(subject, effect.EncodeFact(effect.Fact{Kind: effect.KindReport, Token: "x", Call: "local/other/1.0", Outcome: o}))
		}
		w.command(out[0])
		want(t, w.settled(out[0].Turn, "1.0"), event.OutcomeRefused, "key_conflict", false)
	}
	out := w.call("fine", "once", order)
	out[0].Body.(*feed.CallCommand).Identity = "mine"
	w.command(out[0])
	want(t, w.settled("fine", "1.0"), event.OutcomeSucceeded, "", false)
	w.command(again(out[0], "1.5"))
	want(t, w.settled("fine", "1.5"), event.OutcomeSucceeded, "", true)
	if f := effect.Join(w.facts(keyOf(out[0]))); f.Tokens[0].Identity != "mine" {
		t.Errorf("the claim names no identity: %+v", f)
	}
	if w.target.total() != 1 {
		t.Errorf("%d runs", w.target.total())
	}
	families, err := h.x.cfg.Registerer.(*prometheus.Registry).Gather()
	check(t, err)
	for _, f := range families {
		if f.GetName() == "turnfold_key_conflicts_total" && f.GetMetric()[0].GetCounter().GetValue() != 4 {
			t.Errorf("conflicts counted: %v", f)
		}
	}
}

// A tenant that floods the executor with slow calls holds up another tenant's by little,
// and a tool's own limit is kept.
func TestFloodingTenant(t *testing.T) {
	w := newWorld(t)
	w.tools = w.declare(fmt.Sprintf(`
  - name: slow
    parameters: {type: object, required: [order], properties: {order: {type: string}}}
    effect: once
    identity: "*"
    concurrency: 3
    run: {http: {url: "%s/slow"}}
`, w.target.URL))
	var now, most, runs atomic.Int32
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		if r.URL.Path == "/slow" {
			runs.Add(1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(30 * time.Millisecond)
			now.Add(-1)
		}
		fmt.Fprint(rw, "done")
	})
	var flood []feed.Output
	for i := range 5 {
		var args []string
		for k := range 60 {
			text, _ := json.Marshal(map[string]string{"order": fmt.Sprint(i, "-", k)})
			args = append(args, string(text))
		}
		flood = append(flood, w.call(fmt.Sprint("flood", i), "slow", args...)...)
	}
	w.command(flood...)
	w.host("a").start(func(c *Config) { c.Concurrency, c.TenantConcurrency = 8, 4 })
	w.settled("flood0", "1.0")
	other := w.callOf("quiet", "q", "slow", order)
	before := runs.Load()
	for _, o := range other {
		data, err := feed.Encode(o)
		check(t, err)
		tn := subjects.Turn{Tenant: "quiet", ID: o.Turn}
		w.publish(subjects.Out(tn.Partition(testPartitions), tn, subjects.LaneCall), data)
	}
	quiet := subjects.Turn{Tenant: "quiet", ID: "q"}
	eventually(t, "the quiet tenant's call", func() bool {
		s, err := w.reader.Load(w.ctx, quiet, 0)
		return err == nil && s.Call("1.0").Settled()
	})
	// 300 calls were asked for before it; fairness lets a tenth of them go first, and a log
	// that is slow to tell some more.
	if n := runs.Load() - before; n > 150 {
		t.Errorf("%d calls of the flood went before the quiet tenant's", n)
	}
	if n := most.Load(); n > 3 {
		t.Errorf("%d runs of a tool with concurrency 3", n)
	}
	w.settled("flood4", "1.59")
}
