package executor

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

func TestWithdrawnBeforeItsCommand(t *testing.T) {
	w := newWorld(t)
	out := w.call("t", "once", order)
	w.host("a").start()
	w.command(withdrawal(out[0]))
	want(t, w.settled("t", "1.0"), event.OutcomeNotRun, "", false)
	w.command(out[0])
	eventually(t, "settled again", func() bool { return len(w.settlements("t", "1.0")) == 2 })
	want(t, w.settlements("t", "1.0")[1], event.OutcomeNotRun, "", false)
	if n := w.target.total(); n != 0 {
		t.Errorf("ran %d times", n)
	}
}

// A call that waits for a place, or for another call of its key, is withdrawn at once.
func TestWithdrawnWhileQueued(t *testing.T) {
	w := newWorld(t)
	began, release := make(chan struct{}, 4), make(chan struct{})
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		<-release
		fmt.Fprint(rw, "done")
	})
	w.host("a").start(func(c *Config) { c.Concurrency = 1 })
	running := w.call("t", "once", order)
	w.command(running[0])
	<-began
	queued := w.call("u", "once", order)
	behind := again(running[0], "1.5")
	w.command(queued[0], behind)
	w.command(withdrawal(queued[0]), withdrawal(behind))
	want(t, w.settled("u", "1.0"), event.OutcomeNotRun, "", false)
	want(t, w.settled("t", "1.5"), event.OutcomeNotRun, "", false)
	close(release)
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	if n := w.target.total(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

func TestWithdrawnWhileRunning(t *testing.T) {
	w := newWorld(t)
	began, release := make(chan struct{}, 4), make(chan struct{})
	w.target.behave(func(rw http.ResponseWriter, r *http.Request, run int) {
		began <- struct{}{}
		<-release
		fmt.Fprint(rw, "done")
	})
	w.host("a").start()
	w.host("b").start()
	out := w.call("t", "once", order)
	w.command(out[0])
	<-began
	w.command(withdrawal(out[0]), withdrawal(out[0]), withdrawal(out[0]), withdrawal(out[0])) // some for each host
	close(release)
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	if n := w.target.total(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// Whoever wins, what is said is what happened.
func TestWithdrawRaces(t *testing.T) {
	w := newWorld(t)
	w.host("a").start()
	w.host("b").start()
	var calls []feed.Output
	for i := range 16 {
		calls = append(calls, w.call(fmt.Sprint("t", i), []string{"once", "keyed"}[i%2], order)[0])
	}
	var wg sync.WaitGroup
	for _, c := range calls {
		wg.Go(func() { w.command(c) })
		wg.Go(func() { w.command(withdrawal(c)) })
	}
	wg.Wait()
	for _, c := range calls {
		b := w.settled(c.Turn, "1.0")
		runs := map[event.Outcome]int{event.OutcomeSucceeded: 1, event.OutcomeNotRun: 0}
		n, ok := runs[b.Outcome]
		if got := w.target.count(keyOf(c)); !ok || got != n {
			t.Errorf("%s: settled %s after %d runs", c.Turn, b.Outcome, got)
		}
	}
}
