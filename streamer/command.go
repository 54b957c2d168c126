package streamer

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// commandVersion is the newest form of step commands that this binary knows.
	commandVersion = 1

	// again is when a command comes back after a fault that may pass.
	again = time.Second
	// againMax is how often that is tried before the command comes in no hurry: its
	// input may have been lost with the log's end, and never come.
	againMax = 10
	// patience is when a command comes back whose attempt runs elsewhere, or whose form
	// this binary does not know. The owner's silence timer decides about the attempt
	// (three signs of life missing); this only has to be in no hurry.
	patience = 15 * time.Second
)

// command is a step command at its place.
type command struct {
	place
	partition int
	*feed.StepCommand
}

// log adds the command's address to an entry; never text, arguments or keys.
func (c command) log(e *zerolog.Event) *zerolog.Event {
	return e.Str("turn", c.turn.String()).Int("step", c.step).Int("attempt", c.attempt).
		Uint64("in", c.In).Str("provider", c.Provider)
}

// deliver handles one message of the step lane and settles it with the consumer.
func (sh *shift) deliver(d jet.Delivery) {
	defer sh.pulse.keep(d)()
	wait, err := sh.handle(d)
	if wait == again && d.Delivered > againMax {
		wait = patience
	}
	if wait > 0 {
		err = errors.Join(err, d.NakAfter(wait))
	} else {
		err = errors.Join(err, d.Ack())
	}
	if err != nil {
		sh.cfg.Log.Warn().Err(err).Str("subject", d.Subject).Uint64("seq", d.Seq).
			Dur("again", wait).Msg("step command")
	}
}

// handle returns when the message shall come again; 0 for never.
func (sh *shift) handle(d jet.Delivery) (time.Duration, error) {
	p, turn, _, err := subjects.ParseOut(d.Subject)
	if err != nil {
		return 0, err
	}
	o, err := feed.Decode(d.Data)
	if err != nil {
		return 0, err // malformed for good; the fold issues the command again
	}
	at := place{turn, o.Step, o.Attempt}
	switch b := o.Body.(type) {
	case *feed.StepWithdraw:
		sh.open.cancel(at, errWithdrawn)
		return 0, nil
	case *feed.StepCommand:
		if b.V > commandVersion {
			return patience, subjects.ErrNewer
		}
		if rest := sh.due.rest(d, time.Duration(b.DelayMS)*time.Millisecond); rest > 0 {
			return rest, nil
		}
		return sh.attempt(command{at, p, b})
	default:
		return 0, nil // safe to ignore, as every new type must be
	}
}

// overhear stops a withdrawn attempt at once. The withdrawal also lies on the stream,
// but there it goes to any one streamer.
func (sh *shift) overhear(m jet.Msg) {
	if !bytes.Contains(m.Data, []byte(`"step_withdraw"`)) {
		return
	}
	_, turn, _, err := subjects.ParseOut(m.Subject)
	o, err2 := feed.Decode(m.Data)
	if errors.Join(err, err2) != nil {
		return // comes again by the consumer, which tells
	}
	if _, ok := o.Body.(*feed.StepWithdraw); ok {
		sh.open.cancel(place{turn, o.Step, o.Attempt}, errWithdrawn)
	}
}

// dues remembers when put-off commands are due on this process's monotonic clock, so
// that a wait is kept whatever the clocks of log and host say. Late is fine, early is
// not: providers ask for these waits.
type dues struct {
	mu sync.Mutex
	at map[due]time.Time
}

// due names a command's message.
type due struct {
	subject string
	seq     uint64
}

// dueKept is how long a command may be overdue before it is forgotten: by then another
// process has taken it.
const dueKept = time.Minute

// rest is how long the command has still to wait.
func (q *dues) rest(d jet.Delivery, delay time.Duration) time.Duration {
	if delay <= 0 {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now, k := time.Now(), due{d.Subject, d.Seq}
	at, known := q.at[k]
	switch {
	case known:
	case d.Delivered <= 1: // nobody has had it before, so it is new
		at = now.Add(delay)
	default: // another process knew; what is left is up to the clocks, within bounds
		at = now.Add(min(time.Until(d.Time.Add(delay)), delay))
	}
	if !at.After(now) {
		delete(q.at, k)
		return 0
	}
	if !known {
		q.prune(now)
		q.at[k] = at
	}
	return at.Sub(now)
}

func (q *dues) prune(now time.Time) {
	if q.at == nil {
		q.at = map[due]time.Time{}
	}
	for k, at := range q.at {
		if now.Sub(at) > dueKept {
			delete(q.at, k)
		}
	}
}
