package reducer

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// hydrateParallel bounds the turns that a takeover reads at a time. Each takes two
	// answers of the log, and until the last has come the partition stands still.
	hydrateParallel = 8
	// hydrateTries is how often a turn is read before the takeover starts over: a log that
	// is late with one answer should not have all of them asked for again.
	hydrateTries = 3
	// restingMax is how many turns are kept after their last output. Events that come
	// later still (of a stream that was cut off, most of them) find them there, and need
	// not have the whole turn read again for each.
	restingMax = 32
)

// turn finds the turn of an event in memory, or brings it there as of the event before.
// All neighbours in the partition wait meanwhile, so the log is asked only if it may
// have something: a turn's first event says itself that there is nothing before it.
func (s *session) turn(ctx context.Context, t subjects.Turn, m jet.Msg) (*live, error) {
	if l, ok := s.turns[t]; ok {
		return l, nil
	}
	if l, ok := s.rest.take(t); ok {
		s.turns[t], l.rested = l, true
		return l, nil
	}
	if m.First() {
		return s.hydrate(ctx, t, 0)
	}
	s.r.metrics.hydrated.Inc()
	return s.hydrate(ctx, t, m.Seq-1)
}

// hydrate loads a turn as of a sequence; 0 is before its first event. Its outputs up to
// there are written.
func (s *session) hydrate(ctx context.Context, t subjects.Turn, until uint64) (*live, error) {
	l := &live{turn: t, state: fold.State{Turn: t}, armed: map[timerKey]armed{}}
	if until > 0 {
		var err error
		if l.state, err = s.r.turns.Load(ctx, t, until); err != nil {
			return nil, err
		}
	}
	s.turns[t] = l
	return l, nil
}

// hydrateOpen loads the open turns as of the position.
func (s *session) hydrateOpen(ctx context.Context) error {
	open, err := s.r.turns.Open(ctx, s.p)
	if err != nil {
		return err
	}
	if s.pos.in == 0 {
		return nil // every event is still to come
	}
	states := make([]fold.State, len(open))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(hydrateParallel)
	for i, t := range open {
		if _, ok := s.turns[t]; ok {
			continue
		}
		g.Go(func() (err error) {
			for range hydrateTries {
				if states[i], err = s.r.turns.Load(gctx, t, s.pos.in); err == nil || gctx.Err() != nil {
					break
				}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, t := range open {
		if _, ok := s.turns[t]; ok {
			continue
		}
		l := &live{turn: t, state: states[i], armed: map[timerKey]armed{}}
		s.turns[t] = l
		s.after(l)
	}
	return nil
}

// lay takes a turn out of memory that has written its last output, but for its rest.
func (s *session) lay(l *live) {
	if l.state.Status == fold.Erased {
		s.drop(l.turn)
		return
	}
	delete(s.turns, l.turn)
	s.rest.put(l)
}

// drop takes a turn out of memory with all that it said.
func (s *session) drop(t subjects.Turn) {
	delete(s.turns, t)
	s.rest.take(t)
}

// parting is what leaving needs of a state, because the state itself may go on.
func parting(s *fold.State) *fold.State {
	return &fold.State{Turn: s.Turn, Steps: []*fold.Step{{Calls: doubted(s)}}}
}

// doubted is what the list of unknown effects says of a turn's calls.
func doubted(s *fold.State) (out []*fold.Call) {
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.Doubted {
				out = append(out, &fold.Call{ID: c.ID, Key: c.Key, Outcome: c.Outcome, Doubted: true})
			}
		}
	}
	return out
}

// resting keeps the turns that ended last.
type resting struct {
	ring [restingMax]*live
	next int
}

func (r *resting) put(l *live) {
	r.ring[r.next] = l
	r.next = (r.next + 1) % restingMax
}

func (r *resting) take(t subjects.Turn) (*live, bool) {
	for i, l := range r.ring {
		if l != nil && l.turn == t {
			r.ring[i] = nil
			return l, true
		}
	}
	return nil, false
}
