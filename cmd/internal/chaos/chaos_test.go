package chaos

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/subjects/jet"
)

var (
	chaosFor    = flag.Duration("chaos.for", 0, "how long things go wrong (default 35s; 20s with -race)")
	chaosSeed   = flag.Uint64("chaos.seed", 0, "seed of what goes wrong; 0 draws one")
	chaosLoad   = flag.Int("chaos.load", 6, "turns at the same time")
	chaosScript = flag.String("chaos.script", "", "what goes wrong, as a failing run prints it; instead of a seed")
	chaosShrink = flag.Duration("chaos.shrink", 3*time.Minute, "how long a failing script may be run again in parts, to find what it needs")
	chaosNet    = flag.String("chaos.net", "auto", "auto: networks of their own where this machine allows that; proxy: none")
)

// endTimeout is how long turns may take once nothing goes wrong any more: leases,
// elections and patience that had grown meanwhile.
const endTimeout = 3 * time.Minute

// turnsMin is how many turns a run must have had to mean anything.
const turnsMin = 20

// TestChaos lets everything go wrong that happens to hosts and networks, while turns
// with tools run. Afterwards every turn has ended, every effect was made once per key,
// every reader has the winner's text, and the whole log is what the fold makes of it.
//
// Clocks that jump are not among it: nothing reads one that could (archtest, "wall").
func TestChaos(t *testing.T) {
	c := &chaos{done: map[string]int{}}
	next := c.next(t)
	t.Cleanup(func() { c.explain(t) }) // the last thing, when nothing runs any more
	c.deployment = deploy(t, nil)
	c.conn = connect(t, urls(c.nodes))
	l := newLoad(c.deployment, *chaosLoad)
	for s, ok := next(); ok; s, ok = next() {
		c.script = append(c.script, s)
		c.strike(s)
		time.Sleep(s.then)
	}
	c.ready()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	l.atLeast(ctx, turnsMin)
	ended := l.finish(ctx)
	stale := 0
	for name, f := range ended {
		stale += c.check(f, name)
		if verdict := c.audit(name); verdict != "" {
			t.Errorf("%s: audit: %s", name, verdict)
		}
	}
	turns := len(ended) + l.lost
	duplicates := c.world(turns)
	clean := "clean"
	if err := c.auditAll(len(ended)); err != nil {
		clean = "not clean"
		t.Errorf("audit --all: %v", err)
	}
	fmt.Printf("kills %d, stops %d, turns %d, duplicate effects %d, lost turns %d, stale characters %d, audit %s (%s)\n",
		c.done["kill"], c.done["stop"], turns, duplicates, l.lost, stale, clean, c.rest())
	if turns < turnsMin {
		t.Errorf("only %d turns ran", turns)
	}
}

// next gives one strike after the other, of the script or of the seed.
func (c *chaos) next(t *testing.T) func() (strike, bool) {
	t.Helper()
	if *chaosScript != "" {
		script, err := parseScript(*chaosScript)
		if err != nil {
			t.Fatalf("-chaos.script: %v", err)
		}
		return func() (s strike, ok bool) {
			if len(script) > 0 {
				s, script, ok = script[0], script[1:], true
			}
			return s, ok
		}
	}
	length := *chaosFor
	switch {
	case length > 0:
	case raceEnabled:
		length = 20 * time.Second // the processes that are killed are not built for races
	default:
		length = 35 * time.Second
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Printf("TestChaos: seed %d (-chaos.seed), for %s (-chaos.for)\n", seed, length)
	rng, until := rand.New(rand.NewPCG(seed, 1)), time.Time{}
	return func() (strike, bool) {
		if until.IsZero() {
			until = time.Now().Add(length)
		}
		return draw(rng), time.Now().Before(until)
	}
}

// world counts the effects that were made beyond one per key.
func (d *deployment) world(turns int) (duplicates int) {
	if n := d.refunds.Effects(); n > turns {
		d.t.Errorf("%d refunds were made for %d turns", n, turns)
		duplicates += n - turns
	}
	if n := len(d.mail.Sent()); n > turns {
		d.t.Errorf("%d mails went out for %d turns", n, turns)
		duplicates += n - turns
	}
	return duplicates
}

// auditAll audits the whole log with the command that an operator would run.
func (d *deployment) auditAll(turns int) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "audit", "--all", "--config", "turnfold.yaml")
	cmd.Dir = d.procs["gateway"][0].Dir
	out, err := cmd.Output()
	n := 0
	for line := range strings.SplitSeq(string(out), "\n") {
		_, _ = fmt.Sscanf(line, "ok: %d turns, 0 mismatches", &n) // of the report's line
	}
	if err != nil || n < turns {
		return fmt.Errorf("%d turns are right, of %d: %w; it says: %s", n, turns, err, out[max(0, len(out)-2000):])
	}
	return nil
}

// chaos does what happens to hosts.
type chaos struct {
	*deployment
	conn   *jet.Conn
	done   map[string]int
	script []strike // what was done, in order
}

// strike does one thing and makes good for it, except for what it did.
func (c *chaos) strike(s strike) {
	c.done[s.what]++
	switch s.what {
	case "kill":
		p := c.process(s.whom)
		p.Kill()
		time.Sleep(s.down)
		if err := p.Launch(); err != nil {
			c.t.Fatal(err)
		}
	case "stop":
		resume := c.process(s.whom).Pause()
		time.Sleep(leaseTTL + 500*time.Millisecond + s.down)
		resume()
	case "silence":
		mend := c.net.silence(s.whom)
		time.Sleep(leaseTTL + s.down)
		mend()
	case "step-down":
		stepDown(c.conn, s.whom)
	case "cut":
		n := c.node(s.whom)
		n.proxy.set(broken)
		time.Sleep(s.down)
		n.proxy.set(whole)
	case "nats":
		n := c.node(s.whom)
		n.kill()
		time.Sleep(s.down)
		n.start(c.t)
	case "cluster":
		for _, n := range c.nodes {
			n.kill()
		}
		time.Sleep(s.down)
		for _, n := range c.nodes {
			n.start(c.t)
		}
		time.Sleep(5 * time.Second) // an election; more of the same would only wait for it
	}
}

func (c *chaos) process(name string) *stage.Product {
	role, n, _ := strings.Cut(name, "-")
	for i, p := range c.procs[role] {
		if fmt.Sprint(i) == n {
			return p
		}
	}
	c.t.Fatalf("there is no process %s", name)
	return nil
}

func (c *chaos) node(name string) *node {
	for i, n := range c.nodes {
		if fmt.Sprint(i) == name {
			return n
		}
	}
	c.t.Fatalf("there is no NATS server %s", name)
	return nil
}

// rest counts what the line of figures does not name.
func (c *chaos) rest() string {
	var out []string
	for _, k := range strikes[2:] {
		out = append(out, fmt.Sprintf("%s %d", k.what, c.done[k.what]))
	}
	return strings.Join(out, ", ") + "; " + c.net.name()
}

// explain shrinks the script of a run that failed, with runs in processes of their own,
// and prints what is left of it.
func (c *chaos) explain(t *testing.T) {
	if !t.Failed() || len(c.script) == 0 {
		return
	}
	fmt.Printf("TestChaos failed; again with:\n  -chaos.script '%s'\n", printScript(c.script))
	until, runs := time.Now().Add(*chaosShrink), 0
	short := shrink(c.script, func() bool { return time.Now().Before(until) }, func(script []strike) bool {
		runs++
		return len(script) > 0 && failsAgain(script, until)
	})
	if runs > 0 {
		fmt.Printf("of %d strikes %d were enough, as %d runs have shown:\n  -chaos.script '%s'\n", len(c.script), len(short), runs, printScript(short))
	}
}

// failsAgain runs a script in a process of its own. One that is cut short has not failed.
func failsAgain(script []strike, until time.Time) bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestChaos$", "-chaos.shrink=0", "-chaos.script="+printScript(script),
		fmt.Sprint("-chaos.load=", *chaosLoad), "-chaos.net="+*chaosNet)
	out, err := cmd.CombinedOutput()
	return err != nil && ctx.Err() == nil && bytes.Contains(out, []byte("--- FAIL: TestChaos"))
}
