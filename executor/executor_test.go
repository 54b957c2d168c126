package executor

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

const order = `{"order":"R-1"}`

// The first story: whatever is delivered twice, to two executors at once, runs once.
func TestEqualCommandsRunOnce(t *testing.T) {
	w := newWorld(t)
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		time.Sleep(20 * time.Millisecond)
		fmt.Fprint(rw, "done")
	})
	w.host("a").start()
	w.host("b").start()
	var all []feed.Output
	for i := range 10 {
		class := []string{"read", "keyed", "once"}[i%3]
		out := w.call(fmt.Sprint("t", i), class, order)
		w.command(out[0], out[0], again(out[0], "1.7"), out[0])
		all = append(all, out[0])
	}
	for _, o := range all {
		own, other := w.settled(o.Turn, "1.0"), w.settled(o.Turn, "1.7")
		if own.Outcome != event.OutcomeSucceeded || other.Outcome != event.OutcomeSucceeded || own.Result != "done" || other.Result != "done" {
			t.Errorf("%s: %+v, %+v", o.Turn, *own, *other)
		}
		if own.Replayed == other.Replayed {
			t.Errorf("%s: replayed is %v for both calls of one run", o.Turn, own.Replayed)
		}
		if n := w.target.count(keyOf(o)); n != 1 {
			t.Errorf("%s: ran %d times", o.Turn, n)
		}
		claims := 0
		for _, f := range w.facts(keyOf(o)) {
			if f.Kind == effect.KindClaim {
				claims++
			}
		}
		if claims != 1 {
			t.Errorf("%s: %d claims", o.Turn, claims)
		}
	}
}

func TestStoredSuccessIsReplayed(t *testing.T) {
	w := newWorld(t)
	h := w.host("a").start()
	out := w.call("t", "once", order)
	w.command(out[0])
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	w.command(again(out[0], "2.0"))
	second := w.settled("t", "2.0")
	want(t, second, event.OutcomeSucceeded, "", true)
	if second.Result != `{"run":1,"args":`+order+`}` || w.target.total() != 1 {
		t.Errorf("result %s after %d runs", second.Result, w.target.total())
	}
	eventually(t, "outbox empty", func() bool { n, err := h.x.outboxSize(); return err == nil && n == 0 })
}

func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.host("a").start()
	out := w.call("t", "once", `{"order":7}`)
	w.command(out[0])
	b := w.settled("t", "1.0")
	want(t, b, event.OutcomeRefused, "invalid_arguments", false)
	if !strings.Contains(b.Result, "/order") {
		t.Errorf("result does not say where: %s", b.Result)
	}
	strange := w.call("u", "once", order)[0]
	strange.Body.(*feed.CallCommand).Tool = "other"
	w.command(strange)
	want(t, w.settled("u", "1.0"), event.OutcomeRefused, "unknown_tool", false)
	if len(w.facts(keyOf(out[0]))) > 0 || w.target.total() > 0 {
		t.Error("a refused call left facts or ran")
	}
}

// The third story: no answer is no failure, and an executor never sends again by itself.
func TestTimeoutIsUnknown(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"read", "keyed", "once"} {
		t.Run(class, func(t *testing.T) {
			w := newWorld(t)
			release := make(chan struct{})
			w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) { <-release })
			t.Cleanup(func() { close(release) })
			w.host("a").start()
			out := w.call("t", class, order)
			out[0].Body.(*feed.CallCommand).TimeoutMS = 100
			w.command(out[0])
			want(t, w.settled("t", "1.0"), event.OutcomeUnknown, "timeout", false)
			w.command(out[0])
			eventually(t, "settled again", func() bool { return len(w.settlements("t", "1.0")) == 2 })
			want(t, w.settlements("t", "1.0")[1], event.OutcomeUnknown, "timeout", false)
			if n := w.target.total(); n != 1 {
				t.Errorf("ran %d times", n)
			}
		})
	}
}

func TestFailureIsFinalForItsCallOnly(t *testing.T) {
	w := newWorld(t)
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		if run == 1 {
			rw.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(rw, `{"error":{"class":"no_such_order"}}`)
			return
		}
		fmt.Fprint(rw, "done")
	})
	w.host("a").start()
	out := w.call("t", "once", order)
	w.command(out[0])
	first := w.settled("t", "1.0")
	want(t, first, event.OutcomeFailed, "no_such_order", false)
	if !strings.Contains(first.Result, "no_such_order") {
		t.Errorf("result %q", first.Result)
	}
	w.command(again(out[0], "2.0"))
	want(t, w.settled("t", "2.0"), event.OutcomeSucceeded, "", false)
	if n := w.target.count(keyOf(out[0])); n != 2 {
		t.Errorf("key was sent %d times", n)
	}
}

func TestLongResultIsCutAndLongRunShowsLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.host("a")
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		time.Sleep(300 * time.Millisecond)
		fmt.Fprint(rw, strings.Repeat("ä", 1000))
	})
	h.start(func(c *Config) { c.ResultBytesMax = 101 })
	h.x.performer.progressEvery = 50 * time.Millisecond // no run has begun
	out := w.call("t", "read", order)
	w.command(out[0])
	b := w.settled("t", "1.0")
	if w := strings.Repeat("ä", 50) + "\n[turnfold: cut here; these are the first 100 of 2000 bytes]"; b.Result != w {
		t.Errorf("result %q", b.Result)
	}
	progress, renewals := 0, 0
	check(t, w.reader.Each(w.ctx, turnOf(out[0]), 0, func(e event.Event) error {
		if _, ok := e.Body.(*event.CallProgress); ok {
			progress++
		}
		return nil
	}))
	for _, f := range w.facts(keyOf(out[0])) {
		if f.Kind == effect.KindRenew {
			renewals++
		}
	}
	if progress == 0 || renewals == 0 {
		t.Errorf("%d signs of progress, %d renewals", progress, renewals)
	}
}

// A stopped executor lets its effects end, if they do so within the grace.
func TestStopWaitsForRunningEffects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		time.Sleep(200 * time.Millisecond)
		fmt.Fprint(rw, "done")
	})
	h := w.host("a").start()
	w.command(w.call("t", "once", order)...)
	<-began
	h.end()
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
}

// What outlasts the grace is interrupted: once is unknown, the others run again.
func TestStopInterruptsAfterTheGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, release := make(chan struct{}, 2), make(chan struct{})
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprint(rw, "done")
	})
	h := w.host("a").start(func(c *Config) { c.Grace = 50 * time.Millisecond })
	w.command(w.call("once", "once", order)...)
	w.command(w.call("keyed", "keyed", order)...)
	<-began
	<-began
	h.end()
	want(t, w.settled("once", "1.0"), event.OutcomeUnknown, effect.Interrupted, false)
	if n := len(w.settlements("keyed", "1.0")); n > 0 {
		t.Fatalf("keyed call was settled %d times", n)
	}
	close(release)
	h.start()
	want(t, w.settled("keyed", "1.0"), event.OutcomeSucceeded, "", false)
}

func TestNewReportsEveryFault(t *testing.T) {
	_, err := New(Config{LeaseTTL: 1, Concurrency: -1})
	for _, word := range []string{"Conn", "Store", "Turns", "Partitions", "Instance", "Concurrency", "LeaseTTL"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error does not name %s: %v", word, err)
		}
	}
}

func TestRunOnce(t *testing.T) {
	w := newWorld(t)
	h := w.host("a").start()
	h.end()
	if err := h.x.Run(context.Background()); err == nil {
		t.Error("a second Run did not fail")
	}
}
