package reducer

import (
	"testing"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
)

// A deadline and an approval count from when the log stored their event, as the log's
// clock says, whatever this host's says.
func TestDeadlineIsOfTheLogsClock(t *testing.T) {
	now := time.Now()
	for _, off := range []time.Duration{0, time.Hour, -24 * time.Hour} { // of the log's clock, by this host's
		s := &session{clock: logClock{there: now.Add(off), mono: now}}
		opened := now.Add(off - 4*time.Minute)
		due := s.dueAt(fold.Timer{Kind: fold.TimerDeadline, AfterMS: 10 * 60_000, SinceMS: opened.UnixMilli()}, now)
		if left := due.Sub(now); left < 6*time.Minute-time.Second || left > 6*time.Minute {
			t.Errorf("the log's clock is %s ahead: the deadline is %s away, want 6m", off, left)
		}
	}
}
