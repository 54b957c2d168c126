package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Source hands over recorded events, each partition's in order. Effects are never run
// again: their outcomes are among the events.
type Source func(ctx context.Context, fn func(jet.Msg) error) error

// EventsOf is the source of one turn on the log.
func (l Log) EventsOf(t subjects.Turn) Source {
	return func(ctx context.Context, fn func(jet.Msg) error) error {
		p := t.Partition(l.Partitions)
		_, err := l.Conn.ReadSubject(ctx, subjects.EventsStream(p), subjects.Events(p, t), 1, 0, fn)
		return err
	}
}

// EventsSince is the source of all turns that were opened since.
func (l Log) EventsSince(since time.Time) Source {
	return func(ctx context.Context, fn func(jet.Msg) error) error {
		s := &scanning{log: l, opts: Scan{Since: since}}
		for p := range l.Partitions {
			from, err := s.begin(ctx, subjects.EventsStream(p))
			if err == nil {
				err = l.Conn.Scan(ctx, subjects.EventsStream(p), from, 0, fn)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// EventsIn is the source of the turns in a bundle. It fails at a byte that does not
// belong there.
func EventsIn(r io.Reader) Source {
	return func(_ context.Context, fn func(jet.Msg) error) error {
		b, err := NewReader(r)
		if err != nil {
			return err
		}
		for {
			_, m, err := b.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil && strings.HasPrefix(m.Subject, "tf.ev.") {
				err = fn(m)
			}
			if err != nil {
				return err
			}
		}
	}
}

// Replayed is a turn that was folded again.
type Replayed struct {
	State  fold.State
	Opened time.Time // when its opening was stored
	events []event.Event
}

// Replay folds recorded events again, in memory.
type Replay struct {
	// AsOf stops each turn after this sequence of its partition; 0 goes to the end.
	AsOf uint64
	// Output gets what is said, as it is said, if set.
	Output func(subjects.Turn, feed.Output) error
	// Turn gets every turn when it is over, or at the end, if set.
	Turn func(*Replayed) error
	// Progress is called every thousand events, if set.
	Progress func(events, turns uint64)
	// keep holds on to the events, for folding them under other settings.
	keep bool
}

// Run reads the source to its end. Turns whose opening it lacks are left out.
func (r Replay) Run(ctx context.Context, src Source) error {
	open := map[subjects.Turn]*Replayed{}
	var order []subjects.Turn
	var events, count uint64
	done := func(t subjects.Turn) error {
		x := open[t]
		delete(open, t)
		count++
		if r.Turn == nil {
			return nil
		}
		return r.Turn(x)
	}
	err := src(ctx, func(m jet.Msg) error {
		if events++; r.Progress != nil && events%1000 == 0 {
			r.Progress(events, count)
		}
		if r.AsOf > 0 && m.Seq > r.AsOf {
			return nil
		}
		_, t, err := subjects.ParseEvents(m.Subject)
		if err != nil {
			return nil
		}
		e, err := turns.Decode(t, m)
		if errors.Is(err, subjects.ErrNewer) {
			return fmt.Errorf("event %d of %s: %w", m.Seq, t, err)
		}
		x := open[t]
		if x == nil {
			if _, opens := e.Body.(*event.TurnOpened); !opens {
				return nil // opened before the range, or over: what comes late changes nothing told
			}
			x = &Replayed{State: fold.State{Turn: t}, Opened: m.Time}
			open[t] = x
			order = append(order, t)
		}
		if err := r.fold(x, t, e); err != nil {
			return err
		}
		if x.State.Done() {
			return done(t)
		}
		return nil
	})
	for _, t := range order {
		if open[t] != nil && err == nil {
			err = done(t)
		}
	}
	if r.Progress != nil {
		r.Progress(events, count)
	}
	return err
}

func (r Replay) fold(x *Replayed, t subjects.Turn, e event.Event) error {
	if r.keep {
		x.events = append(x.events, e)
	}
	next, outputs, _ := fold.Guarded(x.State, e)
	x.State = next
	if r.Output == nil {
		return nil
	}
	for _, o := range outputs {
		if err := r.Output(t, o); err != nil {
			return err
		}
	}
	return nil
}
