package reducer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// ownership is what other goroutines may know of a partition.
type ownership struct {
	ready       atomic.Bool
	reconnected chan struct{}
}

var errReconnected = errors.New("reconnected: the log may have lost its end")

// inputsWaiting bounds the events between the tail and the fold.
const inputsWaiting = 1024

// session is one stretch of owning a partition, from reading the position to the
// first error. It is used by one goroutine; tasks is for those that it starts.
type session struct {
	r       *Reducer
	p       int
	log     zerolog.Logger
	pos     position
	rewinds Rewinds
	out     *jet.FencedWriter
	turns   map[subjects.Turn]*live
	rest    resting
	lag     lag
	due     dueHeap
	clock   logClock
	tasks   sync.WaitGroup
	ctx     context.Context // ends with the session; for its tasks
	// buried are the erased turns of the partition. What comes of one is told to the
	// eraser, which has things done between two events.
	buried  map[subjects.Turn]Tombstone
	between chan func()
	lateMu  sync.Mutex
	lateOf  map[subjects.Turn]bool
}

// live is a turn in memory.
type live struct {
	turn  subjects.Turn
	state fold.State
	armed map[timerKey]armed
	next  time.Time // when it comes up in due; zero = not in there
	// rested: it had written its last output before this event came.
	rested bool
}

func newSession(r *Reducer, p int, log zerolog.Logger) *session {
	return &session{r: r, p: p, log: log, turns: map[subjects.Turn]*live{},
		lateOf: map[subjects.Turn]bool{}, between: make(chan func())}
}

func (s *session) conn() *jet.Conn { return s.r.cfg.Conn }

// run takes the partition over and folds until ctx ends (nil) or something breaks.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	defer s.tasks.Wait() // third: they end with ctx
	defer cancel()       // second: a task may wait for the writer
	reconnected := s.r.owned[s.p].reconnected
	select {
	case <-reconnected: // from before the position was read
	default:
	}
	defer s.closeWriter() // first
	if err := s.takeOver(ctx); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	s.r.owned[s.p].ready.Store(true)
	s.task(s.erasures)
	inputs := make(chan jet.Msg, inputsWaiting)
	tailed := make(chan error, 1)
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		tailed <- s.conn().TailBehind(ctx, subjects.EventsStream(s.p), nil, s.pos.in+1, func(m jet.Msg, behind uint64) error {
			s.lag.arrived(behind)
			select {
			case inputs <- m:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	s.task(s.watchLag)
	return s.loop(ctx, inputs, tailed, reconnected)
}

func (s *session) loop(ctx context.Context, inputs <-chan jet.Msg, tailed <-chan error, reconnected <-chan struct{}) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case m := <-inputs:
			if err := s.apply(ctx, m, 0); err != nil {
				return err
			}
			s.lag.done()
			s.fire(time.Now())
		case now := <-tick.C:
			if err := s.out.Err(); err != nil {
				return err
			}
			s.fire(now)
		case f := <-s.between:
			f()
		case <-sweep.C:
			s.sweep()
		case err := <-tailed:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("tail: %w", err)
		case <-reconnected:
			return errReconnected
		case <-ctx.Done():
			return nil
		}
	}
}

// closeWriter waits for the outputs that are under way, so that a planned stop leaves a
// position that needs no work. After a fault there is nothing to wait for.
func (s *session) closeWriter() {
	if s.out == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
	defer cancel()
	if err := s.out.Close(ctx); err != nil {
		s.log.Debug().Err(err).Msg("outputs under way were not confirmed")
	}
}

// takeOver finds the position, repairs the log's past if EV has lost some of it, and
// brings every open turn into memory, so that a quiet one keeps its timers.
func (s *session) takeOver(ctx context.Context) error {
	stream := subjects.OutputsStream(s.p)
	last, ok, err := s.conn().LastOf(ctx, stream, "tf.out.>")
	if err != nil {
		return err
	}
	if ok {
		if s.pos, err = readPosition(last); err != nil {
			return err
		}
	} else {
		s.pos.whole = true
	}
	s.out = s.conn().NewFencedWriter(stream, last.Seq)
	state, err := s.conn().State(ctx, subjects.EventsStream(s.p))
	if err != nil {
		return err
	}
	s.clock = logClock{state.Now, time.Now()}
	if s.rewinds, err = LoadRewinds(ctx, s.conn(), s.p); err != nil {
		return err
	}
	if s.buried, err = loadTombstones(ctx, s.conn(), s.p); err != nil {
		return err
	}
	behind, err := s.behind(ctx)
	if err != nil {
		return err
	}
	if behind || s.pos.rewind == rewindOpen {
		if err := s.rewind(ctx, last.Seq); err != nil {
			return fmt.Errorf("rewind: %w", err)
		}
	} else if err := s.remainder(ctx); err != nil {
		return fmt.Errorf("finish input %d: %w", s.pos.in, err)
	}
	return s.hydrateOpen(ctx)
}

// remainder publishes what is missing of the outputs of the last input.
func (s *session) remainder(ctx context.Context) error {
	if s.pos.whole {
		return nil
	}
	m, ok, err := s.conn().Get(ctx, subjects.EventsStream(s.p), s.pos.in)
	if err != nil {
		return err
	}
	if !ok {
		return nil // dropped by age: nobody waits for its outputs
	}
	written := s.pos.index
	return s.apply(ctx, m, written+1)
}

// apply folds an event and publishes its outputs from index `from` on.
func (s *session) apply(ctx context.Context, m jet.Msg, from int) error {
	_, t, err := subjects.ParseEvents(m.Subject)
	if err != nil {
		s.setAside(m, err)
		return nil
	}
	if _, gone := s.buried[t]; gone {
		s.late(t, m)
		return nil
	}
	l, err := s.turn(ctx, t, m)
	if err != nil {
		return err
	}
	e, err := turns.Decode(t, m)
	if errors.Is(err, subjects.ErrNewer) {
		return err
	}
	if err != nil {
		s.setAside(m, err)
	}
	l.state.Epoch = s.rewinds.Epoch(t, m.Seq)
	outputs, err := s.foldIn(l, e)
	if err != nil {
		s.setAside(m, err)
	}
	s.pos = position{in: m.Seq, epoch: s.rewinds.Latest()}
	if len(outputs) > 0 {
		s.pos.digest, s.pos.chain = e.Sum.String(), l.state.Chain.String()
	}
	for i, o := range outputs {
		if i < from {
			continue
		}
		s.pos.index = i
		if err := s.publish(t, o, s.pos); err != nil {
			return err
		}
	}
	if l.rested && len(outputs) == 0 && len(doubted(&l.state)) == 0 {
		s.lay(l) // nothing has changed for the indexes
		return nil
	}
	s.after(l)
	return nil
}

// late passes over what comes of an erased turn, and has it taken away.
func (s *session) late(t subjects.Turn, m jet.Msg) {
	s.drop(t)
	s.pos = position{in: m.Seq, whole: true, epoch: s.rewinds.Latest()}
	s.lateMu.Lock()
	s.lateOf[t] = true
	s.lateMu.Unlock()
}

func (s *session) foldIn(l *live, e event.Event) ([]feed.Output, error) {
	outputs, err := l.state.Take(e)
	s.r.metrics.events.Inc()
	for _, o := range outputs {
		s.r.metrics.output(o.Body)
		if o.Body.Type() == "completion" || o.Body.Type() == "error" {
			s.r.metrics.ended(&l.state)
		}
	}
	return outputs, err
}

func (s *session) publish(t subjects.Turn, o feed.Output, pos position) error {
	data, err := feed.Encode(o)
	if err != nil {
		return fmt.Errorf("output %s of %s: %w", o.ID, t, err)
	}
	_, err = s.out.Append(subjects.Out(s.p, t, o.Body.Lane()), pos.header(), data)
	return err
}

// setAside keeps a poisoned event from stopping its partition or its neighbours: it is
// counted, logged, and stays where it is on EV.
func (s *session) setAside(m jet.Msg, err error) {
	s.r.metrics.poisoned.Inc()
	s.log.Error().Err(err).Str("subject", m.Subject).Uint64("seq", m.Seq).Msg("event set aside")
}
