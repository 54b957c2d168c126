package executor

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// What a key stands for is remembered: by the log, by the host over a restart, and by the
// log again after the host has given it back what it had lost. Whoever brings the key with
// another identity is refused, and counted, each time.
func TestKeyConflictAfterALoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.host("a").start()
	out := w.call("t", "once", order)
	mine := effect.IdentityDigest(order)
	out[0].Body.(*feed.CallCommand).Identity = mine
	w.command(out[0])
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	stranger := func(h *host, o feed.Output, call string) {
		t.Helper()
		o = again(o, call)
		o.Body.(*feed.CallCommand).Identity = effect.IdentityDigest(`{"order":"another"}`)
		before := conflicts(t, h)
		w.command(o)
		want(t, w.settled(o.Turn, call), event.OutcomeRefused, "key_conflict", false)
		if n := conflicts(t, h) - before; n != 1 {
			t.Errorf("%s: counted %v times", call, n)
		}
	}
	stranger(h, out[0], "2.0")
	h.end()
	h.start()
	stranger(h, out[0], "3.0")
	h.end()
	w.loseEffects()
	h.start()
	stranger(h, out[0], "4.0")
	eventually(t, "facts are back", func() bool { return len(w.facts(keyOf(out[0]))) >= 2 })
	if v := effect.Join(w.facts(keyOf(out[0]))); v.Tokens[0].Identity != mine {
		t.Errorf("given back without its identity: %+v", v.Tokens[0])
	}
	h.end()
	b := w.host("b").start() // knows nothing but the log
	stranger(b, out[0], "5.0")
	w.command(again(out[0], "6.0"))
	want(t, w.settled("t", "6.0"), event.OutcomeSucceeded, "", true)
	if n := w.target.count(keyOf(out[0])); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

func conflicts(t *testing.T, h *host) float64 {
	t.Helper()
	families, err := h.x.cfg.Registerer.(*prometheus.Registry).Gather()
	check(t, err)
	for _, f := range families {
		if f.GetName() == "turnfold_key_conflicts_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("no count of conflicts")
	return 0
}
