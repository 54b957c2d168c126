package executor

import (
	"context"
	"time"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// The protocol of a call does all its I/O through these ports, and every call of one
// of them is a point at which a process may die. So the real code can be driven
// through every interleaving with I/O in memory.

// effects is what all hosts know of a key: its facts on the log.
type effects interface {
	// Facts gives the key's facts, and the sequence of the last one (0: none).
	Facts(ctx context.Context, key string) ([]effect.Fact, uint64, error)
	// Last gives the sequence of the key's last fact.
	Last(ctx context.Context, key string) (uint64, error)
	// Append stores a fact, after the result body that it names, if that is given; it
	// tries until both are stored or ctx ends.
	Append(ctx context.Context, key string, f effect.Fact, body []byte) error
	// Claim stores a fact if the key's last one is still at last. Any error means
	// "look": the fact may be stored.
	Claim(ctx context.Context, key string, f effect.Fact, last uint64) (uint64, error)
}

// bodies are the results that facts name by their digest.
type bodies interface {
	Body(ctx context.Context, key, token string) ([]byte, bool, error)
}

// memory is what this host knows of a key, whatever the log has lost.
type memory interface {
	Facts(key string) ([]effect.Fact, error)
	Glance(key string) (keystore.Glance, error)
	Reported(key, token string) (effect.Fact, bool, error)
	Body(key, token string) ([]byte, bool, error)
}

// journal writes this host's memory; all but MarkSettled are synced when they return.
type journal interface {
	Intent(ctx context.Context, in keystore.Intent) error
	Abandon(ctx context.Context, key, token string) error
	Report(ctx context.Context, rep keystore.Report) error
	NotRun(ctx context.Context, key, call string) error
	MarkSettled(ctx context.Context, done []keystore.Settled, marks map[int]keystore.Mark) error
}

// settler speaks to the turn that a call belongs to.
type settler interface {
	// Settle tells the fold; it tries until that is stored or ctx ends.
	Settle(ctx context.Context, t subjects.Turn, b *event.CallSettled) error
	// Progress is a courtesy: it may get lost.
	Progress(ctx context.Context, t subjects.Turn, b *event.CallProgress)
	// Standing asks the log whether the turn still waits for the call.
	Standing(ctx context.Context, t subjects.Turn, call string) (standing, error)
}

// standing is how a call stands in its turn's events.
type standing uint8

const (
	standingAsked standing = iota // the turn waits for it
	standingSettled
	standingAbsent // no event has this call: the log has lost its end
)

// passage is the gate as a call sees it: what it lets through has been read in one
// epoch of the log, and is worth nothing in the next.
type passage interface {
	wait(ctx context.Context) (epoch uint64, err error)
	current(epoch uint64) bool
}

// past is what the process before has left in this host's memory.
type past interface {
	Interrupted() ([]keystore.Intent, error)
	Report(ctx context.Context, rep keystore.Report) error
}

// clock is this process's monotonic clock.
type clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	// AfterFunc calls f in its own goroutine after d, unless stop is called before.
	AfterFunc(d time.Duration, f func()) (stop func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
