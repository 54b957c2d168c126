package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
)

// What turnfold asks of Go's runtime, and what it was measured to be worth (ADR 6). Where
// GOMAXPROCS, GOGC or GOMEMLIMIT are set, they are obeyed instead.
const (
	// threadsEach is how many threads run Go for each processor, threadsMax how many at
	// most where the processors are fewer. A thread that waits for the disk's sync keeps its
	// place for a moment, and of two places both are often kept so.
	threadsEach = 2
	threadsMax  = 8

	// gcPercentViewers is GOGC where feeds are served: what lives is small, there may be
	// thousands of viewers, and a host of turns should fit beside other services. Elsewhere
	// gcPercentWork trades memory for fewer collections in the way of events. Where nothing
	// but effects are run, gcPercentEffects does so for more: little lives there, and a
	// caller waits for each.
	gcPercentViewers = 60
	gcPercentWork    = 200
	gcPercentEffects = 800

	// memoryLimit makes the collector work harder before the process grows further. It
	// is no bound: a load that needs more gets more. Beside the log's server, whose subjects
	// live long, a process that only runs effects has twice as much, or it would collect as
	// often as the others do.
	memoryLimit        = 1 << 30
	memoryLimitEffects = 2 << 30
)

// tuneRuntime prepares the process for turns in these roles.
func tuneRuntime(roles []string) {
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" { // of the machine, or of the container
		runtime.GOMAXPROCS(max(n, min(threadsEach*n, threadsMax)))
	}
	percent, limit := gcPercentWork, int64(memoryLimit)
	switch {
	case slices.Contains(roles, roleGateway):
		percent = gcPercentViewers
	case slices.Equal(roles, []string{roleExecutor}):
		percent, limit = gcPercentEffects, memoryLimitEffects
	}
	tuneCollector(percent, limit)
}

const (
	// scanGCPercent and scanMemoryLimit are for verbs that read a whole log once and end:
	// nearly all that they allocate is gone a moment later, so they collect seldom, as
	// long as they stay well under half a gigabyte.
	scanGCPercent   = 400
	scanMemoryLimit = 384 << 20
)

func tuneScan() { tuneCollector(scanGCPercent, scanMemoryLimit) }

func tuneCollector(percent int, limit int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}
