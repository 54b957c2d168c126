package streamer

import (
	"context"
	"sync"
	"time"

	"github.com/turnfold/turnfold/subjects/jet"
)

// lane is a partition's way to the log, shared by all attempts of the process: one
// writer, and one goroutine that finds out for everybody when things are stored. Each
// attempt waiting by itself would be woken by every other one's messages.
type lane struct {
	writer   *jet.OrderedWriter
	pressure pressure

	mu   sync.Mutex
	next chan struct{} // closed once all that is appended now is stored; nil if nobody asked
	ask  chan struct{}
}

func newLane(w *jet.OrderedWriter) *lane {
	return &lane{writer: w, ask: make(chan struct{}, 1)}
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// idle reports whether everything appended is stored, without waiting.
func (l *lane) idle() bool { return l.writer.Flush(over) == nil }

// stored gives a channel that is closed when everything appended before is stored.
func (l *lane) stored() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = make(chan struct{})
		select {
		case l.ask <- struct{}{}:
		default:
		}
	}
	return l.next
}

// run answers until ctx ends.
func (l *lane) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ask:
		}
		l.mu.Lock()
		next := l.next
		l.next = nil
		l.mu.Unlock()
		// A fault of the writer is met by whoever appends; this is only about pace.
		began := time.Now()
		_ = l.writer.Flush(ctx)
		l.pressure.stored(time.Since(began))
		close(next)
	}
}
