//go:build race

package executor

// raceEnabled: the race detector makes the exhaustive searches ten times as slow.
const raceEnabled = true
