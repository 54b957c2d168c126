package executor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

func turnOf(o feed.Output) subjects.Turn {
	return subjects.Turn{Tenant: subjects.LocalTenant, ID: o.Turn}
}

// stuckOnce makes the target take the first run of a key and never answer it.
func (g *target) stuckOnce(t testing.TB) (began chan struct{}) {
	began = make(chan struct{}, 16)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	g.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		if run == 1 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return
		}
		fmt.Fprintf(rw, "run %d", run)
	})
	return began
}

// A process dies between sending and recording. What that means is the class's matter.
func TestKilledDuringRun(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		for _, class := range []string{"read", "keyed", "once"} {
			t.Run(fmt.Sprintf("%s elsewhere=%v", class, elsewhere), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				began := w.target.stuckOnce(t)
				h := w.host("a").start()
				out := w.call("t", class, order)
				w.command(out[0])
				<-began
				h.kill()
				if elsewhere {
					h = w.host("b")
				}
				h.start()
				b := w.settled("t", "1.0")
				if class == "once" {
					want(t, b, event.OutcomeUnknown, effect.Interrupted, false)
				} else {
					want(t, b, event.OutcomeSucceeded, "", false)
				}
				runs := map[string]int{"read": 2, "keyed": 2, "once": 1}[class]
				if n := w.target.count(keyOf(out[0])); n != runs {
					t.Errorf("key was sent %d times, want %d", n, runs)
				}
				// Another call's chance: only once stays careful for good.
				w.command(again(out[0], "2.0"))
				second := w.settled("t", "2.0")
				if class == "once" {
					want(t, second, event.OutcomeUnknown, effect.Interrupted, true)
				} else {
					want(t, second, event.OutcomeSucceeded, "", true)
				}
				if n := w.target.count(keyOf(out[0])); n != runs {
					t.Errorf("key was sent %d times in the end, want %d", n, runs)
				}
			})
		}
	}
}

// The log has everything that a lost memory had.
func TestLostMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.host("a").start()
	out := w.call("t", "once", order)
	w.command(out[0])
	first := w.settled("t", "1.0")
	h.lose()
	h.start()
	w.command(out[0], again(out[0], "2.0"))
	second := w.settled("t", "2.0")
	want(t, second, event.OutcomeSucceeded, "", true)
	if second.Result != first.Result || w.target.total() != 1 {
		t.Errorf("result %q after %d runs", second.Result, w.target.total())
	}
}

// The memory has everything that the log of this host had, and gives it back to the
// others.
func TestLostLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.host("a").start()
	done := w.call("t", "once", order)
	w.command(done[0])
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	doubt := w.call("u", "once", order)
	doubt[0].Body.(*feed.CallCommand).TimeoutMS = 50
	w.target.stuckOnce(t)
	w.command(doubt[0])
	want(t, w.settled("u", "1.0"), event.OutcomeUnknown, "timeout", false)
	gone := w.call("v", "once", order)
	w.command(withdrawal(gone[0]))
	want(t, w.settled("v", "1.0"), event.OutcomeNotRun, "", false)
	a.end()

	w.loseEffects()
	a.start()
	eventually(t, "facts are back", func() bool {
		return len(w.facts(keyOf(done[0]))) >= 2 && len(w.facts(keyOf(doubt[0]))) >= 2 && len(w.facts(keyOf(gone[0]))) >= 1
	})
	runs := w.target.total()
	a.end()
	w.host("b").start() // knows nothing but the log
	w.command(again(done[0], "2.0"), again(doubt[0], "2.0"), gone[0])
	want(t, w.settled("t", "2.0"), event.OutcomeSucceeded, "", true)
	want(t, w.settled("u", "2.0"), event.OutcomeUnknown, "timeout", true)
	eventually(t, "withdrawn call settled again", func() bool { return len(w.settlements("v", "1.0")) == 2 })
	want(t, w.settlements("v", "1.0")[1], event.OutcomeNotRun, "", false)
	if n := w.target.total(); n != runs {
		t.Errorf("%d more runs", n-runs)
	}
}

// The log loses everything under a running executor, in the middle of a run.
func TestLostLogDuringRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, release := make(chan struct{}, 4), make(chan struct{})
	h := w.host("a").start()
	before := w.call("s", "once", order)
	w.command(before[0])
	want(t, w.settled("s", "1.0"), event.OutcomeSucceeded, "", false)
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		<-release
		fmt.Fprint(rw, "done")
	})
	out := w.call("t", "once", order)
	w.command(out[0])
	<-began
	w.loseEffects()
	eventually(t, "facts of the earlier call are back", func() bool { return len(w.facts(keyOf(before[0]))) >= 2 })
	eventually(t, "the open claim is back", func() bool { return len(w.facts(keyOf(out[0]))) >= 1 })
	if !h.x.guardian.marks.isFrozen(subjects.KeyPartition(keyOf(before[0]), testPartitions)) && h.x.guardian.marks.get(subjects.KeyPartition(keyOf(before[0]), testPartitions)).Seq == 0 {
		t.Error("no mark after the facts were stated again")
	}
	close(release)
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	w.command(out[0], again(out[0], "2.0"), again(before[0], "2.0"))
	want(t, w.settled("t", "2.0"), event.OutcomeSucceeded, "", true)
	want(t, w.settled("s", "2.0"), event.OutcomeSucceeded, "", true)
	if n := w.target.total(); n != 2 {
		t.Errorf("ran %d times", n)
	}
}

// The log's server restarts in the middle of a run, and is away when it ends.
func TestServerAwayWhenRunEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, release, ended := make(chan struct{}, 4), make(chan struct{}), make(chan struct{}, 4)
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		<-release
		fmt.Fprint(rw, "done")
		ended <- struct{}{}
	})
	h := w.host("a").start()
	out := w.call("t", "once", order)
	w.command(out[0])
	<-began
	w.server.Shutdown()
	close(release)
	<-ended
	eventually(t, "outcome is remembered", func() bool {
		g, err := h.store.Glance(keyOf(out[0]))
		return g.Success != nil && err == nil
	})
	w.serve()
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	eventually(t, "report is on the log", func() bool {
		v := effect.Join(w.facts(keyOf(out[0])))
		_, ok := v.Succeeded()
		return ok
	})
	if n := w.target.total(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// A report that could not be published goes out at the next start.
func TestOutboxAtStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, release := make(chan struct{}, 1), make(chan struct{})
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		<-release
		fmt.Fprint(rw, "done")
	})
	h := w.host("a").start(func(c *Config) { c.Grace = 300 * time.Millisecond })
	out := w.call("t", "once", order)
	w.command(out[0])
	<-began
	w.server.Shutdown()
	close(release)
	h.end()
	w.serve()
	if n := len(w.settlements("t", "1.0")); n != 0 {
		t.Fatalf("settled %d times", n)
	}
	h.start()
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	eventually(t, "outbox empty", func() bool { n, err := h.x.outboxSize(); return err == nil && n == 0 })
	if n := w.target.total(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// An executor that starts takes what open turns wait for, delivered or not.
func TestPendingCallsAtStart(t *testing.T) {
	w := newWorld(t)
	out := w.call("t", "keyed", order) // its command is never put on the log
	check(t, w.reader.MarkOpen(w.ctx, turnOf(out[0])))
	w.host("a").start()
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
}

// A report is on the log and its body is not: the process died, or lost its connection,
// between the two, which leave one behind the other. The next process sends it again.
func TestBodyLostOnItsWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.host("a")
	out := w.call("t", "once", order)
	key, name, body := keyOf(out[0]), "local/t/1.0", []byte("the answer")
	s, err := keystore.Open(h.dir, keystore.Config{Host: "a", Log: zerolog.Nop()})
	check(t, err)
	check(t, s.Intent(w.ctx, keystore.Intent{Key: key, Token: "x", Call: name}))
	check(t, s.Report(w.ctx, keystore.Report{Key: key, Token: "x", Outcome: effect.Succeeded, Body: body}))
	own, err := s.Facts(key)
	check(t, err)
	check(t, s.Close())
	p := subjects.KeyPartition(key, testPartitions)
	for _, f := range own {
		w.publish(subjects.Effect(p, key), effect.EncodeFact(f))
	}
	h.start()
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	eventually(t, "the body is on the log", func() bool {
		got, ok, err := w.conn.Body(w.ctx, p, key, "x")
		return err == nil && ok && bytes.Equal(got, body)
	})
	h.lose()
	h.start()
	w.command(again(out[0], "2.0"))
	b := w.settled("t", "2.0")
	want(t, b, event.OutcomeSucceeded, "", true)
	if b.Result != string(body) || w.target.total() != 0 {
		t.Errorf("result %q after %d runs", b.Result, w.target.total())
	}
}

// Who finds a report without its body waits for it: it may be on its way.
func TestBodyAfterItsReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := w.call("t", "once", order)
	key, body := keyOf(out[0]), []byte("the answer")
	p := subjects.KeyPartition(key, testPartitions)
	sum := sha256.Sum256(body)
	for _, f := range []effect.Fact{
		{Kind: effect.KindClaim, Token: "x", Call: "local/t/1.0", Host: "b"},
		{Kind: effect.KindReport, Token: "x", Call: "local/t/1.0", Host: "b", Outcome: effect.Succeeded, BodyDigest: hex.EncodeToString(sum[:])},
	} {
		w.publish(subjects.Effect(p, key), effect.EncodeFact(f))
	}
	h := w.host("a")
	looked := make(chan struct{}, bodyLooks+1)
	h.bodies = func(b bodies) bodies { return lookedFor{b, looked} }
	h.start()
	w.command(out[0])
	<-looked
	check(t, w.conn.PutBody(w.ctx, p, key, "x", body))
	if b := w.settled("t", "1.0"); b.Outcome != event.OutcomeSucceeded || b.Result != string(body) {
		t.Errorf("settled %+v", *b)
	}
}

// lookedFor tells of each look for a body that has found none.
type lookedFor struct {
	bodies
	looked chan struct{}
}

func (l lookedFor) Body(ctx context.Context, key, token string) ([]byte, bool, error) {
	body, ok, err := l.bodies.Body(ctx, key, token)
	if !ok {
		l.looked <- struct{}{}
	}
	return body, ok, err
}
