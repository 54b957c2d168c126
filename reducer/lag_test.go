package reducer

import (
	"testing"
	"time"
)

// What counts as late, and how late that is: nothing that was caught up with, what waits
// at the pace of the last look, and what stands still.
func TestLag(t *testing.T) {
	const look = 100 * time.Millisecond
	arrive := func(n int, behind uint64) func(*lag) {
		return func(l *lag) {
			for i := range n {
				l.arrived(behind + uint64(n-1-i))
			}
		}
	}
	fold := func(n int) func(*lag) {
		return func(l *lag) {
			for range n {
				l.done()
			}
		}
	}
	for name, c := range map[string]struct {
		steps [][]func(*lag) // between looks
		want  []time.Duration
	}{
		"quiet":                          {[][]func(*lag){{}, {}}, []time.Duration{0, 0}},
		"keeps up":                       {[][]func(*lag){{arrive(3, 0), fold(3), arrive(1, 0)}}, []time.Duration{0}},
		"one is left, again and again":   {[][]func(*lag){{arrive(2, 0), fold(1)}, {arrive(1, 0), fold(1)}}, []time.Duration{look, look}},
		"a backlog here":                 {[][]func(*lag){{arrive(50, 0), fold(10)}, {fold(40)}}, []time.Duration{4 * look, 0}},
		"a backlog on the log":           {[][]func(*lag){{arrive(10, 990), fold(10)}}, []time.Duration{99 * look}},
		"stuck with an event":            {[][]func(*lag){{arrive(1, 0)}, {}, {fold(1)}}, []time.Duration{look, 2 * look, 0}},
		"waiting for the log's answer":   {[][]func(*lag){{arrive(1, 5), fold(1)}, {}}, []time.Duration{5 * look, 5 * look}},
		"what was to come is gone":       {[][]func(*lag){{arrive(1, 5), fold(1)}, {arrive(1, 0), fold(1)}}, []time.Duration{5 * look, 0}},
		"caught up, then late once more": {[][]func(*lag){{arrive(9, 0), fold(3)}, {fold(6)}, {arrive(9, 0), fold(3)}}, []time.Duration{2 * look, 0, 4 * look / 3}},
	} {
		var l lag
		for i, steps := range c.steps {
			for _, f := range steps {
				f(&l)
			}
			if got := l.look(look); got.Round(time.Millisecond) != c.want[i].Round(time.Millisecond) {
				t.Errorf("%s: look %d says %s, want %s", name, i, got, c.want[i])
			}
		}
	}
}
