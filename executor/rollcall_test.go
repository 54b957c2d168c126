package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// board is what all members see of each other, at once.
type board struct {
	mu      sync.Mutex
	notes   map[string]string
	changed chan struct{}
}

func newBoard(names ...string) *board {
	b := &board{notes: map[string]string{}, changed: make(chan struct{})}
	for _, n := range names {
		b.notes[n] = ""
	}
	return b
}

// announce must be called with mu held.
func (b *board) announce() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *board) leave(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.notes, name)
	b.announce()
}

func (b *board) join(name string, patience time.Duration) *rollcall {
	return &rollcall{peers: place{b, name}, self: name, life: name + "1", patience: patience, log: zerolog.Nop()}
}

// place is the board as one member sees it.
type place struct {
	*board
	self string
}

func (s place) Live() ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.notes)), true
}

func (s place) Notes() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.notes)
	delete(out, s.self)
	return out
}

func (s place) Say(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[s.self] = note
	s.announce()
}

func (s place) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// TestRollcall: who waits for whom, and for how long.
func TestRollcall(t *testing.T) {
	const patience = 10 * time.Second
	for _, c := range []struct {
		name string
		do   func(b *board, second, third *rollcall)
		want time.Duration // how long the first one waits
	}{
		{"both answer", func(b *board, second, third *rollcall) {
			for i, r := range []*rollcall{second, third} {
				q := r.begin(false)
				time.Sleep(time.Duration(i+1) * time.Second)
				r.answer(q)
			}
		}, 3 * time.Second},
		{"one has nothing to say", func(b *board, second, third *rollcall) {
			second.answer(second.begin(false))
		}, patience},
		{"one is gone", func(b *board, second, third *rollcall) {
			second.answer(second.begin(false))
			time.Sleep(time.Second)
			b.leave("third")
		}, time.Second},
		{"one has much to state", func(b *board, second, third *rollcall) {
			second.answer(second.begin(false))
			q := third.begin(false)
			for range 60 {
				time.Sleep(time.Second)
				third.progress()
			}
			third.answer(q)
		}, time.Minute},
		{"one is stuck while it states", func(b *board, second, third *rollcall) {
			second.answer(second.begin(false))
			third.begin(false)
			time.Sleep(time.Second)
			third.progress()
		}, patience},
		{"an answer to nothing", func(b *board, second, third *rollcall) {
			second.answer(second.begin(false))
			third.answer(nil)
		}, patience},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard("first", "second", "third")
				first, second, third := b.join("first", patience), b.join("second", patience), b.join("third", patience)
				first.answer(first.begin(true))
				began := time.Now()
				go c.do(b, second, third)
				wanted, err := first.await(context.Background())
				// What a stuck one said last was said a moment into the wait.
				if took := time.Since(began); err != nil || wanted || took < c.want || took > c.want+2*time.Second {
					t.Errorf("waited for %s (asked meanwhile: %v, %v), want %s", took, wanted, err, c.want)
				}
			})
		})
	}
}

// An answer from a look that began before the question proves nothing.
func TestRollcallAnswersAreLaterThanQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("first", "second")
		first, second := b.join("first", time.Hour), b.join("second", time.Hour)
		before := second.begin(false)
		first.answer(first.begin(true))
		second.answer(before)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _, err := first.await(ctx); ended <- err }()
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("an answer counts that was under way before the question")
		}
		if !second.wanted() {
			t.Error("the question waits, and nobody is to look")
		}
		second.answer(second.begin(false))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if second.wanted() || first.wanted() {
			t.Error("a question that is answered is asked again")
		}
		cancel()

		second.begin(true) // its turn to ask
		if wanted, err := first.await(context.Background()); !wanted || err != nil {
			t.Errorf("asked while it waits: %v, %v", wanted, err)
		}
	})
}

// threeHosts are executors that wait for each other for as long as a test takes.
func threeHosts(w *world) (hosts []*host) {
	for _, name := range []string{"a", "b", "c"} {
		h := w.host(name)
		h.lease = 30 * time.Second
		hosts = append(hosts, h)
	}
	return hosts
}

// TestSlowExecutorIsWaitedFor: the log loses its effects, and the one of three executors
// that knows of an effect is slow in stating it. The others must not claim it meanwhile.
func TestSlowExecutorIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	hosts := threeHosts(w)
	a, b, c := hosts[0], hosts[1], hosts[2]
	slow, held := make(chan struct{}), make(chan struct{}, 64)
	var holding atomic.Bool
	c.wrap = func(e effects) effects {
		return slowEffects{e, func(ctx context.Context) {
			if holding.Load() {
				held <- struct{}{}
				select {
				case <-slow:
				case <-ctx.Done():
				}
			}
		}}
	}
	c.start()
	doubt := w.call("u", "once", order)
	doubt[0].Body.(*feed.CallCommand).TimeoutMS = 50
	w.target.stuckOnce(t)
	w.command(doubt[0])
	want(t, w.settled("u", "1.0"), event.OutcomeUnknown, "timeout", false)
	a.start()
	b.start()
	for _, h := range hosts {
		eventually(t, h.name+" works", h.open)
	}
	holding.Store(true)
	w.loseEffects()
	<-held // c has begun to state
	var more []feed.Output
	for n := range 12 {
		more = append(more, again(doubt[0], fmt.Sprint(n+2, ".0")))
	}
	w.command(more...)
	eventually(t, "others have commands", func() bool { return a.present()+b.present() > 0 })
	eventually(t, "others have answered", func() bool { return a.waits() && b.waits() })
	time.Sleep(200 * time.Millisecond) // for what must not happen
	if n := w.target.count(keyOf(doubt[0])); n != 1 || a.open() || b.open() {
		t.Errorf("before the slow one has stated what it knows, the key was sent %d times, and claims go on: %v %v", n, a.open(), b.open())
	}
	close(slow)
	for n := range 12 {
		want(t, w.settled("u", fmt.Sprint(n+2, ".0")), event.OutcomeUnknown, "timeout", true)
	}
	if n := w.target.count(keyOf(doubt[0])); n != 1 {
		t.Errorf("key was sent %d times", n)
	}
}

// TestGoneExecutorIsNotWaitedFor: nobody waits for one that has left, nor for long for
// one that is dead, and a restart of the log's server costs no more than a word with
// those that are there.
func TestGoneExecutorIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	hosts := threeHosts(w)
	for _, h := range hosts {
		h.start()
	}
	for _, h := range hosts {
		eventually(t, h.name+" works", h.open)
	}
	w.server.Shutdown()
	w.serve()
	out := w.call("t", "once", order)
	w.command(out[0]) // a lease is 30 s, and patience more: this test does not wait so long
	want(t, w.settled("t", "1.0"), event.OutcomeSucceeded, "", false)
	hosts[2].end()
	hosts[0].x.guardian.suspect()
	hosts[1].x.guardian.suspect()
	out = w.call("u", "once", order)
	w.command(out[0])
	want(t, w.settled("u", "1.0"), event.OutcomeSucceeded, "", false)

	brief, dead := w.host("d").start(), w.host("e").start() // leases of a moment
	eventually(t, "d works", brief.open)
	dead.kill()
	brief.x.guardian.suspect()
	eventually(t, "d works without e", brief.open)
}

// open says that claims may go on.
func (h *host) open() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := h.x.guardian.gate.wait(ctx)
	return err == nil
}

// waits says that the host has stated what it knows, and others have not.
func (h *host) waits() bool {
	r := h.x.rollcall
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open != "" && !r.said.Busy
}

func (h *host) present() int {
	d := h.x.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present[subjects.LocalTenant]
}

// slowEffects waits before it states a fact.
type slowEffects struct {
	effects
	wait func(context.Context)
}

func (e slowEffects) Append(ctx context.Context, key string, f effect.Fact, body []byte) error {
	e.wait(ctx)
	return e.effects.Append(ctx, key, f, body)
}
