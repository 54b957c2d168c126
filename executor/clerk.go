package executor

import (
	"context"
	"sync"
	"time"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
)

// noteEvery is how long reports may wait to be noted as settled, so that many are noted
// at once. One that a crash leaves without its note is published again, which says
// nothing new.
const noteEvery = 10 * time.Millisecond

// outbox is what the protocol of a call needs of the reports that are on their way.
type outbox interface {
	// add is for a report that this host remembers and that is not known to be settled.
	add(token string)
	// settled is for reports of a key that are on the log, and whose turn knows. They are
	// taken off later, after the mark that says where the log had ended.
	settled(ctx context.Context, key string, reports ...effect.Fact) error
}

// clerk notes in the background which reports are settled. Nobody waits for it: all that
// its notes are for is that the next process does not publish them again.
type clerk struct {
	journal    func() journal
	marks      *marks
	partitions int
	clock      clock
	crash      *crasher
	open       *tokenSet // reports that are remembered and not yet noted as settled

	mu    sync.Mutex
	done  []keystore.Settled
	wake  chan struct{}
	every time.Duration
}

func (c *clerk) add(token string) { c.open.add(token) }

func (c *clerk) settled(_ context.Context, key string, reports ...effect.Fact) error {
	c.mu.Lock()
	for _, f := range reports {
		c.done = append(c.done, keystore.Settled{Key: key, Token: f.Token, Outcome: f.Outcome})
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// run notes until ctx ends, and then what is left. Only a fault of this host's memory
// ends it earlier.
func (c *clerk) run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-c.wake:
		case <-ctx.Done():
		}
		_ = c.clock.Sleep(ctx, c.every) // more come meanwhile; the loop looks at ctx
		if err := c.flush(); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *clerk) flush() error {
	c.mu.Lock()
	done := c.done
	c.done = nil
	c.mu.Unlock()
	if len(done) == 0 {
		return nil
	}
	touched := map[int]bool{}
	for _, d := range done {
		touched[subjects.KeyPartition(d.Key, c.partitions)] = true
	}
	err := c.marks.note(touched, func(latest map[int]keystore.Mark) error {
		return c.journal().MarkSettled(context.Background(), done, latest)
	})
	if err != nil {
		return faulty(err)
	}
	for _, d := range done {
		c.open.remove(d.Token)
		c.crash.pass(crashNoted)
	}
	return nil
}
