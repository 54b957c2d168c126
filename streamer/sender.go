package streamer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// holdLook is how often an attempt that holds text back looks whether it still must.
	holdLook = 50 * time.Millisecond

	// queueBytesMax bounds what an attempt keeps in memory while the log is away; then
	// the provider is read no further.
	queueBytesMax = 4 << 20
)

// sender stores the events of one attempt.
//
// Invariant: they are stored in the order of emit, each with the next ord, as long as
// the sender lives (docs/invariants.md, I1). The first event leaves at once, each further
// one at once if those before it are stored. Otherwise it gathers what comes meanwhile,
// for 25 ms at most, or longer while the partition is late: an idle log costs no time, a
// loaded one gets fewer and larger events.
type sender struct {
	lane    *lane
	subject string
	alive   time.Duration // a sign of life after so much silence
	spoil   func(error)   // told when an event cannot be stored

	mu    sync.Mutex
	queue []event.Body
	bytes int
	last  bool          // the queue ends with the attempt's last event
	room  chan struct{} // closed when the queue is taken; nil if nobody waits
	wake  chan struct{}

	// Of run; others read them after end.
	at      event.At // of the next event
	spoilt  error    // a part of the attempt is missing
	verdict event.Body
	err     error
	end     chan struct{}
}

func newSender(l *lane, subject string, at event.At, alive time.Duration, spoil func(error)) *sender {
	return &sender{lane: l, subject: subject, at: at, alive: alive, spoil: spoil,
		wake: make(chan struct{}, 1), end: make(chan struct{})}
}

// emit queues a body. It blocks only while far too much is waiting.
func (s *sender) emit(ctx context.Context, b event.Body) error {
	size := sizeOf(b)
	for {
		s.mu.Lock()
		if s.bytes == 0 || s.bytes+size <= queueBytesMax {
			break
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-s.end:
			return errUnstorable
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.queue = append(s.queue, b)
	s.bytes += size
	s.mu.Unlock()
	s.signal()
	return nil
}

// finish queues the attempt's last event, and returns when everything is stored, with
// the last event as it is.
func (s *sender) finish(ctx context.Context, b event.Body) (event.Body, error) {
	s.mu.Lock()
	s.queue = append(s.queue, b)
	s.last = true
	s.mu.Unlock()
	s.signal()
	<-s.end // run ends with ctx at the latest
	if s.err != nil {
		return b, s.err
	}
	return s.verdict, s.lane.writer.Flush(ctx)
}

func (s *sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (s *sender) take() (bodies []event.Body, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bodies, s.queue, s.bytes = s.queue, nil, 0
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
	return bodies, s.last
}

// run sends until the last event is appended or ctx ends.
func (s *sender) run(ctx context.Context) {
	defer close(s.end)
	quiet := time.NewTimer(s.alive)
	defer quiet.Stop()
	var sent time.Time
	for {
		var bodies []event.Body
		var last bool
		select {
		case <-ctx.Done():
			s.err = context.Cause(ctx)
			return
		case <-s.wake:
			s.settle(ctx, sent)
			if bodies, last = s.take(); len(bodies) == 0 {
				continue // taken with the ones before
			}
			s.err = s.send(ctx, bodies, last)
		case <-quiet.C:
			s.err = s.append(ctx, &event.AttemptAlive{Step: s.at.Step, Attempt: s.at.Attempt, Token: s.at.Token})
		}
		if s.err != nil || last {
			return
		}
		sent = time.Now()
		quiet.Reset(s.alive)
	}
}

// settle waits as long as the partition is late, and then until what was sent is stored,
// but not beyond the time to gather.
func (s *sender) settle(ctx context.Context, sent time.Time) {
	if sent.IsZero() {
		return
	}
	for now := time.Now(); ; now = time.Now() {
		rest := s.lane.pressure.hold(now) - now.Sub(sent)
		if rest <= 0 {
			break
		}
		if !sleep(ctx, min(rest, holdLook)) {
			return
		}
	}
	rest := s.lane.pressure.gather() - time.Since(sent)
	if rest <= 0 || s.lane.idle() {
		return
	}
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-s.lane.stored():
	case <-t.C:
	case <-ctx.Done():
	}
}

// send appends bodies.
func (s *sender) send(ctx context.Context, bodies []event.Body, last bool) error {
	bodies = merge(bodies)
	if last {
		s.verdict = bodies[len(bodies)-1]
		bodies = bodies[:len(bodies)-1]
	}
	for _, b := range bodies {
		for _, piece := range split(b, pieceBytesMax) {
			if s.spoilt != nil {
				return s.conclude(ctx, last) // what follows a gap has no place
			}
			err := s.put(ctx, piece)
			if errors.Is(err, errUnstorable) {
				s.spoilt = err
				s.spoil(err)
			} else if err != nil {
				return err
			}
		}
	}
	return s.conclude(ctx, last)
}

// conclude appends the last event, if it has come. An attempt of which a part could not
// be stored has failed, whatever its stream said.
func (s *sender) conclude(ctx context.Context, last bool) error {
	if !last {
		return nil
	}
	if s.spoilt == nil {
		err := s.put(ctx, s.verdict)
		if !errors.Is(err, errUnstorable) {
			return err
		}
		s.spoilt = err
	}
	failed := &event.AttemptFailed{Class: event.ServerError, Detail: s.spoilt.Error(), Retryable: true}
	switch b := s.verdict.(type) {
	case *event.AttemptFinished:
		failed.Usage = b.Usage
	case *event.AttemptFailed:
		failed.Usage = b.Usage
	}
	s.verdict = failed
	return s.put(ctx, failed)
}

// put appends an event of the model stream at the next ord.
func (s *sender) put(ctx context.Context, b event.Body) error {
	address(b, s.at)
	err := s.append(ctx, b)
	if err == nil {
		s.at.Ord++
	}
	return err
}

func (s *sender) append(ctx context.Context, b event.Body) error {
	data, err := event.Encode(b)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errUnstorable, b.Kind(), err)
	}
	if err = s.lane.writer.Append(ctx, s.subject, data); errors.Is(err, jet.ErrRejected) {
		return fmt.Errorf("%w: %s of %d bytes", errUnstorable, b.Kind(), len(data))
	}
	return err
}
