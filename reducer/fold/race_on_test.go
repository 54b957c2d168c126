//go:build race

package fold_test

import "flag"

// The race detector makes the fold ten times as slow, and the fold has no goroutines:
// fewer random scripts and the narrow bounds of the exploration will do in this run.
// Flags that are given on the command line come later and stand.
func init() {
	for name, value := range map[string]string{"rapid.checks": "40", "explore.wide": "false"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}
