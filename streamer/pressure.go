package streamer

import (
	"cmp"
	"sync"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// gatherMin bounds how long text waits for the text before it to be stored, as long
	// as the log keeps up.
	gatherMin = 25 * time.Millisecond
	// gatherMax bounds what it waits for a log, or an owner, that does not.
	gatherMax = time.Second
	// pressureHalves is how fast a word about lateness loses its weight: half of it in
	// each of these. The owner repeats it more often.
	pressureHalves = 250 * time.Millisecond
)

// pressure is how late a partition is: storing, or folding what is stored. The later, the
// longer attempts gather text, so that it comes in fewer events: what is late catches up
// instead of falling behind, and text waits no longer than it would have in the queue.
type pressure struct {
	mu    sync.Mutex
	late  time.Duration // of the fold, as its owner said
	heard time.Time
	store time.Duration // that storing took lately
	most  time.Duration // zero means gatherMax
}

// hear takes an owner's word.
func (p *pressure) hear(late time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// What is left of the words before counts too, or it would be taken back at the first
	// success, and come again.
	p.late, p.heard = max(min(late, cmp.Or(p.most, gatherMax)), p.left(now)), now
}

// left is what remains of the last word.
func (p *pressure) left(now time.Time) time.Duration {
	return p.late >> min(max(now.Sub(p.heard)/pressureHalves, 0), 62)
}

// stored notes how long storing took.
func (p *pressure) stored(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store += (took - p.store) / 4
}

// hold is how far apart an attempt's events shall be, whatever is stored.
func (p *pressure) hold(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.left(now); left >= gatherMin {
		return left
	}
	return 0
}

// gather is how long text waits at most for the text before it to be stored.
func (p *pressure) gather() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(p.store/2, gatherMin), cmp.Or(p.most, gatherMax))
}

// overhearLag takes what a partition's owner tells; what is no such message is left alone.
func (l *lane) overhearLag(m jet.Msg) {
	var lag subjects.Lag
	if subjects.Open(m.Data, &lag) == nil && lag.V >= 1 && lag.MS >= 0 {
		l.pressure.hear(min(time.Duration(lag.MS), gatherMax/time.Millisecond)*time.Millisecond, time.Now())
	}
}
