package executor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// faultyEffects lets a test come between a claim and its acknowledgement.
type faultyEffects struct {
	effects
	claim func(key string, f effect.Fact, store func() (uint64, error)) (uint64, error)
}

func (e faultyEffects) Claim(ctx context.Context, key string, f effect.Fact, last uint64) (uint64, error) {
	return e.claim(key, f, func() (uint64, error) { return e.effects.Claim(ctx, key, f, last) })
}

// startFaulty starts a host before any command, with claims that go through claim.
func (w *world) startFaulty(claim func(key string, f effect.Fact, store func() (uint64, error)) (uint64, error)) *host {
	h := w.host("a")
	h.wrap = func(e effects) effects { return faultyEffects{e, claim} }
	return h.start()
}

// No answer, and either code of a lost compare-and-set, mean the same: look.
func TestUnclearClaims(t *testing.T) {
	w := newWorld(t)
	var n atomic.Int32
	w.startFaulty(func(key string, f effect.Fact, store func() (uint64, error)) (uint64, error) {
		switch n.Add(1) % 4 {
		case 1: // stored, and the answer is lost
			_, _ = store()
			return 0, jet.ErrUnclear
		case 2: // stored, and told that it was not
			_, _ = store()
			return 0, jet.ErrConflict
		case 3: // not stored, and told so without anybody having been faster
			return 0, jet.ErrConflict
		default:
			return store()
		}
	})
	for i := range 8 {
		out := w.call(fmt.Sprint("t", i), "once", order)
		w.command(out[0])
		want(t, w.settled(out[0].Turn, "1.0"), event.OutcomeSucceeded, "", false)
		if n := w.target.count(keyOf(out[0])); n != 1 {
			t.Errorf("ran %d times", n)
		}
		v := effect.Join(w.facts(keyOf(out[0])))
		if len(v.Tokens) != 1 {
			t.Errorf("%d claims", len(v.Tokens))
		}
	}
}

// A claim is won on facts that the log has lost and got back since: it does not run.
func TestClaimOnLostFacts(t *testing.T) {
	w := newWorld(t)
	var h *host
	var once atomic.Bool
	begun := make(chan struct{})
	h = w.startFaulty(func(key string, f effect.Fact, store func() (uint64, error)) (uint64, error) {
		<-begun
		seq, err := store()
		if f.Kind == effect.KindClaim && !once.Swap(true) {
			h.x.guardian.suspect()
			p := subjects.KeyPartition(key, testPartitions)
			for _, f := range []effect.Fact{claimed("0", "local/t/0.9"), reported("0", "local/t/0.9", effect.Succeeded, "")} {
				check(t, w.conn.AppendFact(w.ctx, p, key, effect.EncodeFact(f)))
			}
		}
		return seq, err
	})
	close(begun)
	out := w.call("t", "once", order)
	w.command(out[0])
	b := w.settled("t", "1.0")
	want(t, b, event.OutcomeSucceeded, "", true)
	if b.Result != lostResult {
		t.Errorf("result %q", b.Result)
	}
	if n := w.target.total(); n != 0 {
		t.Errorf("ran %d times", n)
	}
	v := effect.Join(w.facts(keyOf(out[0])))
	for _, tok := range v.Tokens {
		if tok.ID != "0" && tok.Report.ErrorClass != "superseded" {
			t.Errorf("own claim: %+v", tok)
		}
	}
}

// Many calls of one key after failures: each may run, one after another.
func TestOneAtATimePerKey(t *testing.T) {
	w := newWorld(t)
	w.host("a").start()
	w.host("b").start()
	out := w.call("t", "keyed", order)
	for i := range 12 {
		w.command(again(out[0], fmt.Sprint("1.", i)))
	}
	replayed := 0
	for i := range 12 {
		b := w.settled("t", fmt.Sprint("1.", i))
		if b.Outcome != event.OutcomeSucceeded {
			t.Errorf("call %d: %+v", i, *b)
		}
		if b.Replayed {
			replayed++
		}
	}
	if n := w.target.total(); n != 1 || replayed != 11 {
		t.Errorf("ran %d times, %d replays", n, replayed)
	}
}
