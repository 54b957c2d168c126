package executor

import (
	"runtime"
	"sync"
	"testing"
)

// TestStaff: everything runs, at once if it must; of those who ran it few stay, and none
// after the end.
func TestStaff(t *testing.T) {
	s, before := newStaff(), runtime.NumGoroutine()
	const many = 10 * idleMax
	for round := range 3 {
		var here sync.WaitGroup
		here.Add(many)
		for range many {
			s.do(func() {
				here.Done()
				here.Wait() // for all the others
			})
		}
		here.Wait()
		s.work.Wait()
		eventually(t, "few are idle", func() bool { return runtime.NumGoroutine()-before <= idleMax })
		if n := runtime.NumGoroutine() - before; n == 0 {
			t.Errorf("round %d: nobody waits for more", round)
		}
	}
	s.do(func() {})
	s.end()
	s.end()
	eventually(t, "all have left", func() bool { return runtime.NumGoroutine() <= before })
}
