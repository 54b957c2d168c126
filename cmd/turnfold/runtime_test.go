package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTuneRuntime: what a process asks of Go's runtime depends on whether it serves feeds,
// and what the environment says comes first.
func TestTuneRuntime(t *testing.T) {
	threads, percent, limit := runtime.GOMAXPROCS(0), debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	debug.SetGCPercent(percent)
	restore := func() {
		runtime.GOMAXPROCS(threads)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
	t.Cleanup(restore)
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "")
	}
	check := func(name string, wantThreads, wantPercent int, wantLimit int64) {
		t.Helper()
		gotThreads, gotPercent, gotLimit := runtime.GOMAXPROCS(0), debug.SetGCPercent(percent), debug.SetMemoryLimit(-1)
		if gotThreads != wantThreads || gotPercent != wantPercent || gotLimit != wantLimit {
			t.Errorf("%s: %d threads, GOGC %d, limit %d; want %d, %d, %d", name, gotThreads, gotPercent, gotLimit, wantThreads, wantPercent, wantLimit)
		}
		restore()
	}
	for _, c := range []struct{ processors, want int }{{1, 2}, {2, 4}, {3, 6}, {6, 8}, {64, 64}} {
		runtime.GOMAXPROCS(c.processors)
		tuneRuntime(allRoles)
		check("all roles", c.want, 60, 1<<30)
	}
	runtime.GOMAXPROCS(2)
	tuneRuntime([]string{roleReducer, roleExecutor})
	check("no gateway", 4, 200, 1<<30)
	tuneRuntime([]string{roleExecutor})
	check("effects alone", 4, 800, 2<<30)
	tuneScan()
	check("a scan", threads, 400, 384<<20)
	t.Setenv("GOMAXPROCS", "3")
	t.Setenv("GOGC", "150")
	t.Setenv("GOMEMLIMIT", "1GiB")
	tuneRuntime(allRoles)
	check("the environment", threads, percent, limit)
}
