package executor

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// TestChaos lets two hosts die, the log's server restart and the effect streams vanish
// while calls are made, repeated and withdrawn, and then compares what the turns were
// told with what the target did. CHAOS_SEED repeats a run as far as that is possible.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("CHAOS_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	did := newDeeds(seed)
	w.target.behave(did.serve)
	hosts := []*host{w.host("a").start(), w.host("b").start()}

	const calls = 40
	classes := []string{"read", "keyed", "once"}
	var out []feed.Output
	twice := map[string]bool{} // turns with a second call of the same effect
	for i := range calls {
		o := w.call(fmt.Sprint("t", i), classes[i%3], order)[0]
		out = append(out, o)
		w.command(o)
		switch random.IntN(6) {
		case 0:
			w.command(withdrawal(o))
		case 1:
			w.command(o, again(o, "2.0"))
			twice[o.Turn] = true
		}
		switch random.IntN(12) {
		case 0, 1:
			h := hosts[random.IntN(2)]
			h.kill()
			h.start()
		case 2:
			w.server.Shutdown()
			w.serve()
		case 3:
			w.loseEffects()
		}
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
	}
	for i, o := range out {
		w.settled(o.Turn, "1.0")
		told := []event.Outcome{w.kept(o.Turn, "1.0")}
		if twice[o.Turn] {
			// No event asks for this call, so a redelivery of it is dropped.
			told = append(told, w.kept(o.Turn, "2.0"))
		}
		done, sent := did.of(keyOf(o))
		succeeded := slices.Contains(told, event.OutcomeSucceeded)
		if succeeded && done == 0 || !succeeded && !slices.Contains(told, event.OutcomeUnknown) && done > 0 {
			t.Errorf("%s: settled %s, and happened %d times", o.Turn, told, done)
		}
		if classes[i%3] == "once" && done > 1 {
			t.Errorf("%s: a once tool ran %d times, %d sent", o.Turn, done, sent)
		}
	}
}

// kept is the outcome as the fold keeps it: the first known one, else unknown.
func (w *world) kept(turn, call string) event.Outcome {
	for _, b := range w.settlements(turn, call) {
		if b.Outcome.Known() {
			return b.Outcome
		}
	}
	return event.OutcomeUnknown
}

// deeds is what a target did by key: some requests fail before anything is done, some
// are done and answered late or never.
type deeds struct {
	mu     sync.Mutex
	random *rand.Rand
	done   map[string]int
	sent   map[string]int
}

func newDeeds(seed uint64) *deeds {
	return &deeds{random: rand.New(rand.NewPCG(seed, 2)), done: map[string]int{}, sent: map[string]int{}}
}

func (d *deeds) serve(w http.ResponseWriter, r *http.Request, _ int) {
	key := r.Header.Get("Idempotency-Key")
	d.mu.Lock()
	d.sent[key]++
	what, wait := d.random.IntN(10), time.Duration(d.random.IntN(120))*time.Millisecond
	if what != 0 {
		d.done[key]++
	}
	d.mu.Unlock()
	time.Sleep(wait)
	switch what {
	case 0:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
	case 2:
		panic(http.ErrAbortHandler) // the connection breaks
	default:
		fmt.Fprint(w, "done")
	}
}

func (d *deeds) of(key string) (done, sent int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done[key], d.sent[key]
}
