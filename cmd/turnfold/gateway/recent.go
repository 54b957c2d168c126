package gateway

import (
	"sync"
	"time"
)

const (
	// recentFor is how long a client may take to come back for what it has lost.
	recentFor = 10 * time.Minute
	recentMax = 20_000
)

// recent remembers turns by names that clients repeat. It is a convenience of this
// process: what it forgets costs a client a request with the turn's id.
type recent struct {
	mu    sync.Mutex
	turns map[string]recentTurn
}

type recentTurn struct {
	turn string
	at   time.Time
}

func newRecent() *recent { return &recent{turns: map[string]recentTurn{}} }

func (r *recent) put(name, turn string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.turns) >= recentMax {
		for name, t := range r.turns {
			if now.Sub(t.at) > recentFor || len(r.turns) >= recentMax {
				delete(r.turns, name)
			}
		}
	}
	r.turns[name] = recentTurn{turn, now}
}

func (r *recent) get(name string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.turns[name]
	if !ok || time.Since(t.at) > recentFor {
		return "", false
	}
	return t.turn, true
}
