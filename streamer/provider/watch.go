package provider

import (
	"context"
	"sync"
	"time"
)

// watch ends an attempt that is too slow in what it is doing now. It costs a clock
// reading per piece, not a timer: the timer looks at the time when it fires.
type watch struct {
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	timer  *time.Timer // nil until the first phase
	limit  time.Duration
	fault  error // what it means to be over the limit
	since  time.Time
	paused bool
	over   bool
}

// enter starts a phase.
func (w *watch) enter(limit time.Duration, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.limit, w.fault, w.since = limit, fault, time.Now()
	if w.timer == nil {
		w.timer = time.AfterFunc(limit, w.fire)
		return
	}
	w.timer.Reset(limit)
}

// pause stops the clock while the reader is busy with what it has got: a slow log is
// not a stall of the provider.
func (w *watch) pause() {
	w.mu.Lock()
	w.paused = true
	w.mu.Unlock()
}

// progress restarts the phase.
func (w *watch) progress() {
	w.mu.Lock()
	w.paused, w.since = false, time.Now()
	w.mu.Unlock()
}

func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.limit - time.Since(w.since)
	switch {
	case w.over:
	case w.paused:
		w.timer.Reset(w.limit)
	case left > 0:
		w.timer.Reset(left)
	default:
		w.over = true
		w.cancel(w.fault)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
