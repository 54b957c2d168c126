package streamer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnfold/turnfold/subjects/jet"
)

// pulseGroups is in how many parts the commands at work are kept: a thousand at once
// would be a wave that text waits behind.
const pulseGroups = 16

// pulse keeps the commands at work with this process. It is one for all of them: a
// goroutine and a ticker for each would be most of the memory of an attempt.
type pulse struct {
	mu     sync.Mutex
	groups [pulseGroups]map[*jet.Delivery]struct{}
	next   int
}

// keep keeps a command until the returned function is called.
func (p *pulse) keep(d jet.Delivery) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next
	p.next = (n + 1) % pulseGroups
	if p.groups[n] == nil {
		p.groups[n] = map[*jet.Delivery]struct{}{}
	}
	p.groups[n][&d] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.groups[n], &d)
	}
}

// run shows for each command that it is worked on, once per `every`, until ctx ends.
func (p *pulse) run(ctx context.Context, every time.Duration) {
	t := time.NewTicker(max(every/pulseGroups, time.Millisecond))
	defer t.Stop()
	for n := 0; ; n = (n + 1) % pulseGroups {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.beat(n)
	}
}

func (p *pulse) beat(n int) {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.groups[n]))
	p.mu.Unlock()
	for _, d := range all {
		_ = d.InProgress() // a lost one brings the command again, one too late is ignored
	}
}
