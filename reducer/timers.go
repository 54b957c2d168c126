package reducer

import (
	"container/heap"
	"context"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

const (
	// tickEvery is how exactly timers fire; they bound silences of seconds.
	tickEvery = 50 * time.Millisecond
	// refireAfter is when a timer whose event has not come back is fired again.
	refireAfter = 3 * time.Second
	// resaveAfter is when a message is saved again whose fact has not come back. Saving
	// tries until it succeeds, so the fact is on the log, if behind a backlog.
	resaveAfter = 10 * time.Minute
	// sweepEvery is how often the open-turn index is compared with the log.
	sweepEvery = 30 * time.Second
)

// timerKey tells the timers of one turn apart.
type timerKey struct {
	kind          fold.TimerKind
	step, attempt int
	call          string
}

// armed is a timer that runs. The wait is measured on this process's own monotonic
// clock, from when it learned of the event that the timer counts from: clocks of
// different hosts are never compared. The turn's deadline and approvals outlive their
// owners and count from when the log stored their event; how long ago that was the
// log's clock says too, so that this host's may be wrong, or jump.
type armed struct {
	seen uint64
	due  time.Time
}

// after does what a turn needs once its state has changed: timers, its message, the
// end of its time in memory.
func (s *session) after(l *live) {
	if l.state.Done() {
		s.lay(l)
		state := parting(&l.state)
		s.task(func(ctx context.Context) { s.leave(ctx, state) })
		return
	}
	if l.state.Opened == nil {
		return
	}
	s.arm(l, l.state.Timers(), time.Now())
	s.schedule(l)
}

// arm has exactly these timers run. One that counts from the same event as before goes on.
func (s *session) arm(l *live, timers []fold.Timer, now time.Time) {
	known := 0
	for _, t := range timers {
		k := timerKey{t.Kind, t.Step, t.Attempt, t.Call}
		a, ok := l.armed[k]
		if ok {
			known++
		}
		if !ok || a.seen != t.Seen {
			l.armed[k] = armed{seen: t.Seen, due: s.dueAt(t, now)}
		}
	}
	if known == len(timers) && len(l.armed) == known {
		return // most events leave a turn waiting for what it waited for
	}
	running := make(map[timerKey]armed, len(timers))
	for _, t := range timers {
		k := timerKey{t.Kind, t.Step, t.Attempt, t.Call}
		running[k] = l.armed[k]
	}
	l.armed = running
}

func (s *session) dueAt(t fold.Timer, now time.Time) time.Time {
	wait := time.Duration(t.AfterMS) * time.Millisecond
	if t.SinceMS > 0 {
		return s.clock.here(t.SinceMS).Add(wait)
	}
	return now.Add(wait)
}

// logClock is the clock of the log's server at a moment of this process's monotonic one.
type logClock struct{ there, mono time.Time }

// here is a moment of the log's clock on this process's monotonic one.
func (c logClock) here(ms int64) time.Time { return c.mono.Add(time.UnixMilli(ms).Sub(c.there)) }

// fire publishes the events of timers that ran out.
func (s *session) fire(now time.Time) {
	for len(s.due) > 0 && !s.due[0].at.After(now) {
		e := heap.Pop(&s.due).(dueEntry)
		l := e.live
		if e.at.Equal(l.next) {
			l.next = time.Time{}
		}
		if s.turns[l.turn] != l {
			continue
		}
		for _, t := range l.state.Timers() {
			k := timerKey{t.Kind, t.Step, t.Attempt, t.Call}
			a, ok := l.armed[k]
			if !ok || a.due.After(now) {
				continue
			}
			a.due = now.Add(refireAfter)
			if t.Kind == fold.TimerUnsaved {
				a.due = now.Add(resaveAfter)
			}
			l.armed[k] = a
			s.expire(l, t)
		}
		s.schedule(l)
	}
}

func (s *session) expire(l *live, t fold.Timer) {
	if t.Kind == fold.TimerUnsaved {
		message := s.message(l)
		s.task(func(ctx context.Context) { s.save(ctx, l.turn, message) })
		return
	}
	s.r.metrics.timers.WithLabelValues(string(t.Kind)).Inc()
	s.log.Info().Str("turn", l.turn.String()).Int("step", t.Step).Int("attempt", t.Attempt).Str("call", t.Call).
		Str("timer", string(t.Kind)).Msg("timer fired")
	body := t.Fired()
	s.task(func(ctx context.Context) { s.tell(ctx, l.turn, body) })
}

// tell appends a fact of the owner to a turn. If it fails, the timer fires again.
func (s *session) tell(ctx context.Context, t subjects.Turn, b event.Body) {
	data, err := event.Encode(b)
	if err == nil {
		_, err = s.conn().Publish(ctx, subjects.Events(s.p, t), nil, data)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn().Err(err).Str("turn", t.String()).Str("kind", b.Kind()).Msg("fact not stored; it will be told again")
	}
}

func (s *session) task(f func(context.Context)) {
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		f(s.ctx)
	}()
}

// dueEntry is a turn in the order of its next timer.
type dueEntry struct {
	at   time.Time
	live *live
}

type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are container/heap's.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueEntry)) }

// Pop removes the last element, as container/heap asks.
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// schedule makes sure that the turn comes up by its next timer. An entry that comes up
// early finds nothing due.
func (s *session) schedule(l *live) {
	var next time.Time
	for _, a := range l.armed {
		if next.IsZero() || a.due.Before(next) {
			next = a.due
		}
	}
	if next.IsZero() || !l.next.IsZero() && !next.Before(l.next) {
		return
	}
	l.next = next
	heap.Push(&s.due, dueEntry{next, l})
}
