package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// TestRollingRestart stops and starts every process of every role, one after the other,
// under load: every turn completes, nobody is told of an error, and no reader has text
// taken back that need not be: a streamer that is stopped finishes what it streams, and
// whatever else is stopped needs no attempt anew.
func TestRollingRestart(t *testing.T) {
	// What is slow here is the machine, and no reason to take anybody for dead.
	d := deploy(t, map[string]any{"alive": "10s", "patience": "30s", "lease": map[string]any{"ttl": "10s"}, "shutdown_grace": "30s"})
	d.pace = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	load := newLoad(d, 4)
	met := 0
	for _, role := range roles {
		for _, p := range d.procs[role] {
			met += d.busy()
			if err := p.Stop(); err != nil {
				t.Errorf("%s did not stop cleanly: %v", role, err)
			}
			if err := p.Launch(); err != nil {
				t.Fatal(err)
			}
			if role == "gateway" {
				d.ready()
			} else {
				time.Sleep(1500 * time.Millisecond)
			}
		}
	}
	ended := load.finish(ctx)
	errors, resets, completions := 0, 0, 0
	for name, f := range ended {
		d.check(f, name)
		for _, i := range f.Items {
			switch i.Type {
			case "error":
				errors++
			case "reset":
				resets++
			case "completion":
				completions++
				if i.Attempts != 2 { // one for each step
					t.Errorf("%s took %d attempts", name, i.Attempts)
				}
			}
		}
	}
	fmt.Printf("rolling restart: %d turns, errors %d, resets %d, lost %d (%d processes stopped in the midst of %d replies)\n",
		len(ended), errors, resets, load.lost, len(roles)*instances, met)
	if errors != 0 || resets != 0 || load.lost != 0 || completions != len(ended) {
		t.Errorf("errors %d, resets %d, lost %d, %d completions of %d turns", errors, resets, load.lost, completions, len(ended))
	}
	if n := d.model.Requests(); n != 2*len(ended) {
		t.Errorf("the model was asked %d times for %d turns of two steps", n, len(ended))
	}
}

// busy waits until the model is in the midst of replies, and says of how many.
func (d *deployment) busy() int {
	d.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if n := d.model.Requests() - len(d.model.Tokens()); n > 1 {
			return n
		}
		if time.Now().After(until) {
			d.t.Fatal("the model has nothing to do")
		}
	}
}

// load is turns one after the other, several at a time, until it is told to finish.
type load struct {
	d     *deployment
	stop  chan struct{}
	work  sync.WaitGroup
	ctx   context.Context
	end   context.CancelFunc
	mu    sync.Mutex
	ended map[string]*stage.Follower
	lost  int
}

func newLoad(d *deployment, workers int) *load {
	l := &load{d: d, stop: make(chan struct{}), ended: map[string]*stage.Follower{}}
	l.ctx, l.end = context.WithCancel(context.Background())
	for w := range workers {
		l.work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				name := fmt.Sprintf("load-%d-%d", w, n)
				f := d.turn(l.ctx, name)
				l.mu.Lock()
				if f.Over {
					l.ended[name] = f
				} else {
					l.lost++
					d.t.Errorf("%s has not ended; last items %+v", name, f.Items[max(0, len(f.Items)-3):])
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// atLeast waits until so many turns have ended, or ctx ends.
func (l *load) atLeast(ctx context.Context, n int) {
	for ctx.Err() == nil {
		l.mu.Lock()
		done := len(l.ended) + l.lost
		l.mu.Unlock()
		if done >= n {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// finish begins no more turns, and waits for those that run until ctx ends.
func (l *load) finish(ctx context.Context) map[string]*stage.Follower {
	close(l.stop)
	defer context.AfterFunc(ctx, l.end)()
	l.work.Wait()
	l.end()
	return l.ended
}
