package executor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects/effect"
)

// TestExploreFindsBrokenRules breaks the rules one by one, to see that the explorer
// would tell: a search that finds nothing in a broken protocol proves nothing.
func TestExploreFindsBrokenRules(t *testing.T) {
	for _, c := range []struct {
		name         string
		class        effect.Class
		hosts, calls int
		rules        xrules
		left         xfaults
		says         string
	}{
		{"the last record decides", effect.Keyed, 2, 1, xrules{lastRecord: true}, xfaults{redeliver: 1, pause: 1}, "claimed after a known success"},
		{"a claim without compare-and-set", effect.Once, 2, 1, xrules{noCompare: true}, xfaults{redeliver: 1}, "claimed after a known success"},
		{"a withdrawal without compare-and-set", effect.Once, 2, 1, xrules{noCompare: true}, xfaults{withdraw: 1}, "not_run and happened"},
		{"no intent is remembered", effect.Once, 1, 1, xrules{noIntent: true}, xfaults{crash: 1, fx: 1}, "happened twice"},
		{"no report is remembered", effect.Once, 1, 1, xrules{noReport: true, noIntent: true}, xfaults{redeliver: 1, fx: 1, ev: 1}, "happened twice"},
		{"nothing is held up after a loss", effect.Once, 2, 1, xrules{noGate: true}, xfaults{redeliver: 1, fx: 1}, "happened twice"},
		{"nobody waits for what the other has to state", effect.Once, 2, 1, xrules{noBarrier: true}, xfaults{redeliver: 1, fx: 1}, "happened twice"},
		{"a loss goes unnoticed", effect.Once, 2, 1, xrules{noNotice: true}, xfaults{redeliver: 1, fx: 1}, "happened twice"},
		{"facts are not stated again", effect.Once, 2, 1, xrules{noRestate: true}, xfaults{redeliver: 1, fx: 1}, "happened twice"},
		{"what was read before a loss still counts", effect.Once, 2, 1, xrules{noEpochs: true}, xfaults{redeliver: 1, fx: 1}, "happened twice"},
		{"a lease that ran out is a failure", effect.Once, 2, 2, xrules{takeoverFails: true}, xfaults{pause: 1}, "happened twice"},
		{"a timeout is a failure", effect.Once, 1, 1, xrules{timeoutFails: true}, xfaults{}, "was told failed and happened"},
		{"once is taken for keyed", effect.Once, 1, 1, xrules{onceAsKeyed: true}, xfaults{crash: 1}, "happened twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newExplorer(t, c.class)
			x.hosts, x.calls, x.rules = c.hosts, c.calls, c.rules
			g := x.explore(c.left, 100_000)
			fmt.Printf("%s: states explored %d, %d steps to: %s\n", c.name, g.states, strings.Count(g.violation, "\n"), strings.SplitN(g.violation+"nothing\n", "\n", 2)[0])
			if g.violation == "" || !strings.Contains(g.violation, c.says) {
				t.Errorf("the explorer says %q, not %q", g.violation, c.says)
			}
		})
	}
}
