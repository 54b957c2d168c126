//go:build race

package main

// raceEnabled: the race detector multiplies memory, so sizes are not judged.
const raceEnabled = true
