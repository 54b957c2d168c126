package streamer

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/feed"
)

const (
	// resumeParallel bounds the turns that are read at a time after a start.
	resumeParallel = 8
	resumeRetry    = time.Second
)

// resume takes up what an earlier incarnation of this host has left, so that a crash
// and a restart cost no waiting: its attempts are declared lost, and commands that
// nobody has opened are taken without waiting for their delivery.
func (sh *shift) resume() {
	var attempts sync.WaitGroup
	defer attempts.Wait()
	var open []subjects.Turn
	for {
		var err error
		if open, err = sh.cfg.Turns.Open(sh.stop, -1); err == nil {
			break
		}
		if sh.stop.Err() == nil {
			sh.cfg.Log.Warn().Err(err).Msg("open turns")
		}
		if !sleep(sh.stop, resumeRetry) {
			return
		}
	}
	var g errgroup.Group
	g.SetLimit(resumeParallel)
	for _, t := range open {
		if sh.stop.Err() != nil {
			break
		}
		g.Go(func() error {
			c, delay, err := sh.left(sh.stop, t)
			switch {
			case err != nil && sh.stop.Err() == nil:
				// Its delivery, or the owner's timer, comes later.
				sh.cfg.Log.Warn().Err(err).Str("turn", t.String()).Msg("turn not resumed")
			case err == nil && c != nil:
				attempts.Go(func() { sh.pickUp(*c, delay) })
			}
			return nil
		})
	}
	_ = g.Wait() // errors are logged
}

// left sees to an open turn: it declares an attempt lost that this host has left open,
// or returns the step command that nobody has taken.
func (sh *shift) left(ctx context.Context, t subjects.Turn) (*command, time.Duration, error) {
	s, err := sh.cfg.Turns.Load(ctx, t, 0)
	if err != nil {
		return nil, 0, err
	}
	step, a := s.Running()
	switch {
	case a == nil:
		return nil, 0, nil
	case a.Started != nil:
		if a.Started.Instance != sh.cfg.Instance || a.Started.Incarnation == sh.cfg.Incarnation {
			return nil, 0, nil
		}
		return nil, 0, sh.declareLost(ctx, place{t, step, a.N}, a.Started)
	}
	for _, o := range s.Pending() {
		if b, ok := o.Body.(*feed.StepCommand); ok {
			c := &command{place{t, o.Step, o.Attempt}, t.Partition(sh.cfg.Partitions), b}
			return c, time.Duration(b.DelayMS) * time.Millisecond, nil
		}
	}
	return nil, 0, nil
}

// pickUp is deliver for a command without a delivery. If it does not get anywhere, the
// delivery comes later.
func (sh *shift) pickUp(c command, delay time.Duration) {
	if delay > 0 && !sleep(sh.stop, delay) {
		return
	}
	if _, err := sh.attempt(c); err != nil {
		c.log(sh.cfg.Log.Warn()).Err(err).Msg("step command")
	}
}
