package streamer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/turnfold/turnfold/subjects"
)

var (
	// errWithdrawn: the fold has closed the attempt. Nothing more of it counts.
	errWithdrawn = errors.New("streamer: attempt withdrawn")
	// errStopped: the process ends before the attempt did.
	errStopped = errors.New("streamer: stopped")
	// errUnstorable: an event that the log will not take.
	errUnstorable = errors.New("streamer: event cannot be stored")
)

// place names an attempt.
type place struct {
	turn          subjects.Turn
	step, attempt int
}

// attempts are those that this process works on, from before their opening until
// their last event is stored.
type attempts struct {
	mu      sync.Mutex
	running map[place]context.CancelCauseFunc
}

// enter takes a place, or reports false if this process works on it already.
func (a *attempts) enter(life context.Context, at place) (context.Context, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[at] != nil {
		return nil, false
	}
	if a.running == nil {
		a.running = map[place]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(life)
	a.running[at] = cancel
	return ctx, true
}

func (a *attempts) leave(at place) {
	a.mu.Lock()
	cancel := a.running[at]
	delete(a.running, at)
	a.mu.Unlock()
	if cancel != nil {
		cancel(nil)
	}
}

// places lists what is worked on.
func (a *attempts) places() []place {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.running))
}

// cancel ends an attempt's context, if it runs here.
func (a *attempts) cancel(at place, why error) {
	a.mu.Lock()
	cancel := a.running[at]
	a.mu.Unlock()
	if cancel != nil {
		cancel(why)
	}
}
