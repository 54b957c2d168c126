package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// open stores a turn's opening by compare-and-set at the turn's beginning. attached:
// the same request had been stored before, perhaps by this very call's lost try. A
// conflict is another request under the same id.
func (g *Gateway) open(ctx context.Context, t subjects.Turn, opened *event.TurnOpened) (attached bool, err error) {
	defer func() {
		switch {
		case err != nil:
			g.door.refused(t, err)
		case attached:
			g.door.attached(t)
		}
	}()
	data, err := event.Encode(opened)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	if err := g.index(ctx, t); err != nil {
		return false, err
	}
	p := t.Partition(g.cfg.Partitions)
	wait := openRetryMin
	for {
		_, err := g.cfg.Conn.PublishAfter(ctx, subjects.Events(p, t), nil, data, 0)
		if err == nil {
			return false, nil
		}
		if errors.Is(err, jet.ErrRejected) || errors.Is(err, jet.ErrClosed) {
			return false, err
		}
		// A conflict or no clear answer: the log knows what is stored.
		stored, ok, rerr := g.opening(ctx, t)
		var erased fault
		switch {
		case errors.As(rerr, &erased):
			return false, rerr
		case rerr == nil && ok && stored == opened.Digest:
			g.unindexDone(ctx, t)
			return true, nil
		case rerr == nil && ok:
			return false, conflict(t)
		}
		if errors.Is(err, jet.ErrFull) && rerr == nil || pause(ctx, wait) != nil {
			return false, fmt.Errorf("open turn %s: %w", t, errors.Join(err, rerr))
		}
		wait = min(2*wait, openRetryMax)
	}
}

// index lists the turn as open, before its first fact: a stored turn that is missing
// there would lose its timers when its owner changes.
func (g *Gateway) index(ctx context.Context, t subjects.Turn) error {
	wait := openRetryMin
	for {
		err := g.cfg.Turns.MarkOpen(ctx, t)
		if err == nil || errors.Is(err, jet.ErrRejected) || errors.Is(err, jet.ErrClosed) || errors.Is(err, jet.ErrFull) {
			return err
		}
		if pause(ctx, wait) != nil {
			return err
		}
		wait = min(2*wait, openRetryMax)
	}
}

// unindexDone takes a turn out of the index again that had ended before it was put
// there by a late repeat of its post. The turn is stored whether this succeeds or not.
func (g *Gateway) unindexDone(ctx context.Context, t subjects.Turn) {
	s, err := g.cfg.Turns.Load(ctx, t, 0)
	if err == nil && s.Done() {
		err = g.cfg.Turns.MarkDone(ctx, t)
	}
	if err != nil {
		g.cfg.Log.Warn().Err(err).Str("turn", t.ID).Msg("index of open turns not looked after")
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
