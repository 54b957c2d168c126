package executor

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/feed"
)

var exploreDeep = flag.Bool("explore.deep", false, "explore the wide bounds too; takes minutes and some GiB")

// statesMax keeps a search that has become too wide from taking the machine's memory. It
// fails the search, unless the bounds are known to be wide: those are searched so far,
// nearest states first, and the test says that this is no proof.
const statesMax = 3_000_000

// TestExplore walks every state of two executors, one or two hosts, and one or two calls
// of one effect, with so many faults of each kind (I7, I9).
func TestExplore(t *testing.T) {
	const wide = true
	once, keyed, read := effect.Once, effect.Keyed, effect.Read
	all := []effect.Class{once, keyed, read}
	for _, c := range []struct {
		classes      []effect.Class
		hosts, calls int
		later, deep  bool
		left         xfaults
		wide         bool
	}{
		{all, 2, 2, false, false, xfaults{}, false},
		{all, 1, 1, false, false, xfaults{crash: 2, redeliver: 1, unclear: 1}, false},
		{all, 2, 1, false, false, xfaults{redeliver: 1, pause: 1, unclear: 1}, false},
		{all, 2, 1, false, false, xfaults{redeliver: 1, pause: 1, renew: 1}, false},
		{all, 2, 2, false, false, xfaults{pause: 1}, false},
		{all, 2, 2, false, false, xfaults{unclear: 1}, false},
		{[]effect.Class{once}, 1, 2, false, false, xfaults{crash: 1}, false},
		{[]effect.Class{once}, 2, 1, false, false, xfaults{crash: 1, pebble: 1}, false},
		{all, 1, 1, false, false, xfaults{crash: 1, pebble: 1, ev: 1}, false},
		{all, 2, 1, false, false, xfaults{redeliver: 1, ev: 1}, false},
		{all, 1, 1, false, false, xfaults{fx: 1, crash: 1}, false},
		{all, 2, 1, false, false, xfaults{fx: 1}, false},
		{all, 1, 2, false, false, xfaults{fx: 1}, false},
		{all, 1, 1, false, false, xfaults{fx: 1, ev: 1, withdraw: 1}, false},
		{all, 1, 1, false, false, xfaults{crash: 1, withdraw: 1, redeliver: 1}, false},
		{all, 2, 1, false, false, xfaults{pause: 1, withdraw: 1, redeliver: 1}, false},

		{all, 1, 2, true, true, xfaults{crash: 1, redeliver: 1}, false},
		{[]effect.Class{keyed, read}, 1, 2, false, true, xfaults{crash: 1}, false},
		{[]effect.Class{keyed, read}, 2, 1, false, true, xfaults{crash: 1, pebble: 1}, false},
		{all, 2, 1, false, true, xfaults{fx: 1, redeliver: 1}, false},
		{all, 2, 2, false, true, xfaults{withdraw: 1}, false},
		{all, 1, 1, false, true, xfaults{crash: 1, fx: 1, ev: 1}, false},
		{[]effect.Class{once}, 2, 1, false, true, xfaults{crash: 1, pause: 1, unclear: 1}, false},
		{[]effect.Class{keyed, read}, 2, 1, false, true, xfaults{crash: 1, pause: 1, unclear: 1}, wide},
		{all, 2, 2, false, true, xfaults{fx: 1}, wide},
		{all, 2, 1, false, true, xfaults{fx: 1, redeliver: 1, pause: 1}, wide},
	} {
		if c.deep && !*exploreDeep {
			continue
		}
		for _, class := range c.classes {
			if raceEnabled && (class != once || c.left.sum() > 1 || c.calls > 1 && c.left.sum() > 0) {
				continue // the same code, stepped one port call at a time: the small bounds will do
			}
			name := fmt.Sprintf("%s, hosts %d, calls %d, faults %s", class, c.hosts, c.calls, c.left)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x := newExplorer(t, class)
				x.hosts, x.calls, x.later = c.hosts, c.calls, c.later
				g := x.explore(c.left, statesMax)
				all := ""
				if !g.full {
					all = ", not all"
				}
				fmt.Printf("%s: states explored %d%s in %s\n", name, g.states, all, g.elapsed.Round(time.Millisecond))
				switch {
				case g.violation != "":
					t.Error(g.violation)
				case g.stuck != "":
					t.Errorf("no end can be reached after:\n%s", g.stuck)
				case !g.full && !c.wide:
					t.Errorf("not all states were explored")
				}
			})
		}
	}
}

// String lists the faults of a search.
func (f xfaults) String() string {
	all := strings.Fields(strings.Trim(fmt.Sprintf("%+v", struct {
		crash, pebble, redeliver, pause, unclear, fx, ev, withdraw, renew int
	}(f)), "{}"))
	some := slices.DeleteFunc(all, func(s string) bool { return strings.HasSuffix(s, ":0") })
	return strings.Join(append(some, "none")[:max(1, len(some))], " ")
}
func newExplorer(t testing.TB, class effect.Class) *explorer {
	t.Helper()
	set, err := tool.Parse("tools.yaml", fmt.Appendf(nil, "tools:\n  - name: %s\n    effect: %s\n    identity: \"*\"\n    timeout: 10s\n    run: {http: {url: \"http://127.0.0.1:1/x\"}}\n", class, class))
	check(t, err)
	x := &explorer{class: class, hosts: 1, calls: 1, tools: set, key: effect.FormatKey([32]byte{1}), metrics: newMetrics(func() (int, error) { return 0, nil })}
	for k := range x.raw {
		if x.raw[k], err = feed.Encode(feed.Output{Turn: "t", Step: 1, Attempt: 1, Body: &feed.CallCommand{V: 1, Call: callID(k), Key: x.key, Tool: string(class), Args: "{}", Effect: string(class)}}); err != nil {
			t.Fatal(err)
		}
	}
	return x
}
