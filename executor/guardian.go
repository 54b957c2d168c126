package executor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// restateParallel is how many keys are stated again at a time.
	restateParallel = 16

	// shortChecks is how often, shortWait apart, the leader must say that the log ends
	// early before it is believed: a fresh leader may still be catching up.
	shortChecks = 5
	shortWait   = 200 * time.Millisecond
)

// logEnd is what the guardian asks of the effect streams.
type logEnd interface {
	State(ctx context.Context, stream string) (jet.StreamState, error)
	Get(ctx context.Context, stream string, seq uint64) (jet.Msg, bool, error)
}

// others are the other executors, as a check of the log asks them.
type others interface {
	// begin says that this host looks at the log; with ask, every other one is to do so
	// from now on. It gives the others' questions that the look is an answer to.
	begin(ask bool) (questions map[string]string)
	// ask is for a look that has found a loss and was not asked for by this host.
	ask()
	progress()
	// answer says that this host has stated what was missing.
	answer(questions map[string]string)
	// await returns when all others have answered the last question, and nobody is
	// stating. It is true if there is something new to answer first.
	await(ctx context.Context) (wanted bool, err error)
}

// guardian keeps the gate. Whenever the log may have lost its end, it closes the gate,
// compares the log with the marks, states again what this host knows of the
// partitions that were cut, waits until every other host has done the same, and
// opens the gate (docs/effects.md, "Claims").
type guardian struct {
	gate       *gate
	marks      *marks
	end        logEnd
	clock      clock
	partitions int
	others     others // nil: nobody else can reach the log
	keys       func(fn func(key string, facts []effect.Fact) error) error
	know       func(ctx context.Context, key string) (knowledge, error)
	log        zerolog.Logger

	alarm chan struct{} // holds one element if there is something to check
	doubt atomic.Bool   // of this host's own, since the last check
}

// suspect closes the gate and has the log checked. It never waits. At a start, and after
// a reconnect, the server may be another process, without what it had not synced; what
// other hosts have lost then, this one cannot see.
func (g *guardian) suspect() {
	g.doubt.Store(true)
	g.look()
}

// look has the log checked because another host asks for it.
func (g *guardian) look() {
	g.gate.close()
	select {
	case g.alarm <- struct{}{}:
	default:
	}
}

// disconnect closes the gate before another server can answer: what follows on the
// reconnect comes a moment after it, and in that moment a claim could be won on a log
// that has lost its end. The reconnect has the log checked.
func (g *guardian) disconnect() {
	g.doubt.Store(true)
	g.gate.close()
}

// run guards until ctx ends. Only a fault of this host's memory ends it earlier.
func (g *guardian) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.alarm:
		}
		doubt := g.doubt.Swap(false)
		for wait := retryMin; ctx.Err() == nil; wait = min(2*wait, retryMax) {
			epoch := g.gate.started()
			again, err := g.check(ctx, doubt)
			if err == nil && again {
				doubt = false // what was asked is still asked
				continue
			}
			if err == nil {
				g.gate.release(epoch) // if it was closed again, there is another alarm
				break
			}
			if isFault(err) {
				return err
			}
			g.log.Debug().Err(err).Msg("log cannot be checked yet")
			_ = g.clock.Sleep(ctx, wait) // the loop looks at ctx
		}
	}
}

// check returns when claims may go on: this host has stated what the log had lost, and so
// has every other one. With doubt, those are asked to look, because a host that lost
// nothing cannot know whether they did. It is true if another host asks meanwhile: then
// it has to be done again first.
func (g *guardian) check(ctx context.Context, doubt bool) (again bool, err error) {
	var questions map[string]string
	if g.others != nil {
		questions = g.others.begin(doubt)
	}
	lost, err := g.lost(ctx)
	if err != nil {
		return false, err
	}
	if len(lost) > 0 {
		if err := g.recover(ctx, lost); err != nil {
			return false, err
		}
	}
	if g.others == nil {
		return false, nil
	}
	if len(lost) > 0 && !doubt {
		g.others.ask()
	}
	g.others.answer(questions)
	return g.others.await(ctx)
}

// lost lists the partitions that were cut. They are looked at side by side: one after
// the other, a host with many would still be looking when the others go on.
func (g *guardian) lost(ctx context.Context) (map[int]bool, error) {
	var mu sync.Mutex
	out := map[int]bool{}
	looks, ctx := errgroup.WithContext(ctx)
	for p := range g.partitions {
		looks.Go(func() error {
			cut, err := g.cut(ctx, p)
			if cut {
				mu.Lock()
				defer mu.Unlock()
				out[p] = true
			}
			return err
		})
	}
	return out, looks.Wait()
}

// recover states again what this host knows of the partitions that were cut. Only then
// do the marks follow the log.
func (g *guardian) recover(ctx context.Context, lost map[int]bool) error {
	for p := range lost {
		g.marks.freeze(p)
	}
	g.log.Warn().Int("partitions", len(lost)).Msg("the log has lost the end of its effects; this host states again what it knows")
	if err := g.restate(ctx, lost); err != nil {
		return fmt.Errorf("state facts again: %w", err)
	}
	for p := range lost {
		if err := g.marks.thaw(ctx, p); err != nil {
			return faulty(err)
		}
	}
	return nil
}

// cut says whether a partition's stream ends before the mark, or has another message
// there. A message that is gone while older ones are not has been purged: that is no
// loss of the end.
func (g *guardian) cut(ctx context.Context, p int) (bool, error) {
	mark := g.marks.get(p)
	if g.marks.isFrozen(p) {
		return true, nil // a restatement was broken off
	}
	if mark.Seq == 0 {
		return false, nil
	}
	stream := subjects.EffectsStream(p)
	for n := 1; ; n++ {
		state, err := g.end.State(ctx, stream)
		if err != nil {
			return false, err
		}
		if state.FirstSeq > mark.Seq && state.LastSeq >= mark.Seq {
			return false, nil // aged out
		}
		if state.LastSeq >= mark.Seq {
			break
		}
		if n == shortChecks {
			return true, nil
		}
		if err := g.clock.Sleep(ctx, shortWait); err != nil {
			return false, err
		}
	}
	m, ok, err := g.end.Get(ctx, stream, mark.Seq)
	return ok && sha256.Sum256(m.Data) != mark.Digest, err
}

// restate states again every fact of this host that is missing in the partitions.
func (g *guardian) restate(ctx context.Context, lost map[int]bool) error {
	parallel, ctx := errgroup.WithContext(ctx)
	parallel.SetLimit(restateParallel)
	err := g.keys(func(key string, _ []effect.Fact) error {
		if lost[subjects.KeyPartition(key, g.partitions)] {
			parallel.Go(func() error {
				_, err := g.know(ctx, key)
				if g.others != nil {
					g.others.progress()
				}
				return err
			})
		}
		return ctx.Err()
	})
	if wait := parallel.Wait(); wait != nil {
		return wait
	}
	return faulty(err)
}
