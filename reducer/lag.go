package reducer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects"
)

const (
	// lagEvery is how often a session looks how late it is.
	lagEvery = 100 * time.Millisecond
	// lagTold is the least lag that streamers are told of; less is no reason to make
	// anybody wait.
	lagTold = 50 * time.Millisecond
)

// lag is how far the fold is behind the events of its partition. Clocks of log and host
// are not compared: it counts what waits, and how fast that goes.
type lag struct {
	handed atomic.Uint64 // events handed over by the tail
	end    atomic.Uint64 // the same, and those known to wait behind them
	folded atomic.Uint64
	idle   atomic.Bool // at some time since the last look nothing waited

	seen uint64  // folded, at the last look
	rate float64 // events that are folded per second, if there are enough; 0: not known
	late time.Duration
}

// arrived notes an event that the tail hands over.
func (l *lag) arrived(behind uint64) { l.end.Store(l.handed.Add(1) + behind) }

// done notes an event that is folded, its outputs on their way.
func (l *lag) done() {
	if l.folded.Add(1) >= l.end.Load() {
		l.idle.Store(true)
	}
}

// look says how long an event that is stored now will wait, if things go on as at the
// last looks.
func (l *lag) look(passed time.Duration) time.Duration {
	handed, end, folded := l.handed.Load(), l.end.Load(), l.folded.Load()
	n := folded - l.seen
	l.seen = folded
	idle := l.idle.Swap(false) || end <= folded
	if n > 0 {
		switch rate := float64(n) / passed.Seconds(); {
		case !idle && l.rate > 0:
			l.rate += (rate - l.rate) / 2 // a pause of the process is soon over
		case rate > l.rate: // what came, if all of it was folded, is only a bound
			l.rate = rate
		}
	}
	switch {
	case idle:
		l.late = 0
	case n > 0:
		l.late = time.Duration(float64(end-folded) / l.rate * float64(time.Second))
	case handed > folded: // stuck with one that it has
		l.late += passed
	}
	return l.late
}

// watchLag tells the partition's streamers how late the fold is, while it is, and once
// that it is no longer.
func (s *session) watchLag(ctx context.Context) {
	t := time.NewTicker(s.r.lagEvery)
	defer t.Stop()
	gauge, forget := s.r.metrics.lagOf(s.p)
	defer forget()
	told := false
	before := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			late := s.lag.look(now.Sub(before))
			before = now
			gauge.Set(late.Seconds())
			if late < lagTold {
				late = 0
			}
			if late > 0 || told {
				s.tellLag(late)
			}
			told = late > 0
		}
	}
}

func (s *session) tellLag(late time.Duration) {
	data, err := json.Marshal(subjects.Lag{V: subjects.Version, MS: late.Milliseconds()})
	if err == nil {
		err = s.conn().Broadcast(subjects.LagSubject(s.p), data)
	}
	if err != nil { // the next word comes soon
		s.log.Debug().Err(err).Msg("lag not told")
	}
}
