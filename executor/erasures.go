package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
)

// erasures keeps calls of turns that are erased from saying anything any more, and waits
// for those that are still at it. A nil one lets everything pass.
type erasures struct {
	mu   sync.Mutex
	gone map[subjects.Turn]bool
	done map[subjects.Turn]bool // this host has confirmed it
	busy map[subjects.Turn]int
	idle map[subjects.Turn]chan struct{} // closed when the last busy call has ended
}

func newErasures() *erasures {
	return &erasures{gone: map[subjects.Turn]bool{}, done: map[subjects.Turn]bool{}, busy: map[subjects.Turn]int{}, idle: map[subjects.Turn]chan struct{}{}}
}

// enter begins to work on a call of the turn; false if the turn is erased.
func (e *erasures) enter(t subjects.Turn) bool {
	if e == nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone[t] {
		return false
	}
	e.busy[t]++
	return true
}

func (e *erasures) leave(t subjects.Turn) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy[t]--; e.busy[t] > 0 {
		return
	}
	delete(e.busy, t)
	if c := e.idle[t]; c != nil {
		close(c)
		delete(e.idle, t)
	}
}

// bar lets nothing more begin, and returns when nothing is at work on the turn.
func (e *erasures) bar(ctx context.Context, t subjects.Turn) error {
	e.mu.Lock()
	e.gone[t] = true
	var c chan struct{}
	if e.busy[t] > 0 {
		if c = e.idle[t]; c == nil {
			c = make(chan struct{})
			e.idle[t] = c
		}
	}
	e.mu.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *erasures) finish(t subjects.Turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done[t] = true
}

func (e *erasures) finished(t subjects.Turn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.done[t]
}

// forgetErased obeys the orders that were given while this host was away, before it says
// anything of what it remembers.
func (x *Executor) forgetErased(ctx context.Context) error {
	list, err := x.cfg.Turns.Erasures(ctx, x.cfg.Instance)
	if err != nil {
		return err
	}
	for _, o := range list {
		if o.Confirmed {
			if err := x.erasures.bar(ctx, o.Turn); err != nil {
				return err
			}
			x.erasures.finish(o.Turn)
			continue
		}
		// What is forgotten cannot be said any more, even if old files are still in use;
		// those are looked at again below.
		if err := x.forget(ctx, o.Turn); err != nil && !errors.Is(err, keystore.ErrNotWiped) {
			return err
		}
	}
	return nil
}

// followErasures obeys orders as they come, until ctx ends.
func (x *Executor) followErasures(ctx context.Context, work *sync.WaitGroup) {
	for ctx.Err() == nil {
		err := x.cfg.Turns.WatchErasures(ctx, -1, func(t subjects.Turn) {
			if x.erasures.finished(t) {
				return
			}
			work.Go(func() { // a call of it may take its time
				err := x.persist(ctx, func(ctx context.Context) error { return x.forget(ctx, t) })
				if isFault(err) {
					x.fail(err)
				}
			})
		})
		if ctx.Err() == nil {
			x.cfg.Log.Debug().Err(err).Msg("erasures not watched; trying again")
			_ = x.performer.clock.Sleep(ctx, retryMax)
		}
	}
}

// forget takes what this host remembers of an erased turn in words out of its memory,
// and says so. An order whose turn has not ended yet comes again when it has.
func (x *Executor) forget(ctx context.Context, t subjects.Turn) error {
	order, ok, err := x.cfg.Turns.Erasure(ctx, t)
	if err != nil || !ok || order.State == turns.ErasureAsked {
		return err
	}
	if err := x.erasures.bar(ctx, t); err != nil {
		return err
	}
	x.erasing.Lock()
	defer x.erasing.Unlock()
	if x.erasures.finished(t) {
		return nil
	}
	began := time.Now()
	var calls []keystore.Call
	for _, c := range order.Calls {
		name := callName(t, c.Call)
		known, err := x.cfg.Store.Knows(c.Key, name)
		if err != nil {
			return faulty(err)
		}
		if known {
			calls = append(calls, keystore.Call{Key: c.Key, Name: name})
		}
	}
	if err := x.cfg.Store.Erase(ctx, calls); err != nil {
		if ctx.Err() != nil || errors.Is(err, keystore.ErrClosed) || errors.Is(err, keystore.ErrNotWiped) {
			return err
		}
		return faulty(err)
	}
	for _, c := range order.Calls {
		x.asker.forget(c.Key, callName(t, c.Call))
	}
	x.cfg.Log.Info().Str("turn", t.String()).Int("calls", len(calls)).Dur("took", time.Since(began)).
		Msg("this host remembers no result of an erased turn any more")
	if err := x.cfg.Turns.ConfirmErasure(ctx, t, x.cfg.Instance); err != nil {
		return err
	}
	x.erasures.finish(t)
	return nil
}
