//go:build !race

package chaos

// raceEnabled: this run looks for races, and a turnfold that runs as a process has its
// own run for the rest.
const raceEnabled = false
