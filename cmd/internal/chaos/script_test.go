package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
)

// strike is one thing that goes wrong: what, with whom, how long it lasts, and how long
// nothing is done after it.
type strike struct {
	what, whom string
	down, then time.Duration
}

func (s strike) String() string { return fmt.Sprintf("%s:%s:%s:%s", s.what, s.whom, s.down, s.then) }

// strikes are all kinds of them, with their share in a hundred.
var strikes = []struct {
	what  string
	share int
	whom  func(rng *rand.Rand) string
}{
	{"kill", 52, someProcess},     // a process dies, and is started again
	{"stop", 14, someProcess},     // one stands still beyond the lease
	{"silence", 8, worker},        // nothing that it sends arrives, and nothing reaches it
	{"step-down", 10, someStream}, // a stream elects another leader
	{"cut", 7, someNode},          // every connection to a NATS server breaks
	{"nats", 6, someNode},         // a NATS server dies, and is started again
	{"cluster", 3, everybody},     // all of them at once
}

func someProcess(rng *rand.Rand) string {
	return fmt.Sprintf("%s-%d", roles[rng.IntN(len(roles))], rng.IntN(instances))
}

// worker is a process that listens to nobody: it may live in another network.
func worker(rng *rand.Rand) string {
	return fmt.Sprintf("%s-%d", roles[rng.IntN(len(roles)-1)], rng.IntN(instances))
}

func someNode(rng *rand.Rand) string { return fmt.Sprint(rng.IntN(natsNodes)) }
func everybody(*rand.Rand) string    { return "all" }

func someStream(rng *rand.Rand) string {
	p := rng.IntN(partitions)
	return []string{subjects.EventsStream(p), subjects.OutputsStream(p), subjects.EffectsStream(p), "KV_" + subjects.BucketLeases}[rng.IntN(4)]
}

// draw gives the next strike of a seed. It asks for the same numbers whatever it gives,
// so that a seed's strikes do not hang together.
func draw(rng *rand.Rand) strike {
	n := rng.IntN(100)
	s := strike{down: time.Duration(rng.IntN(1500)) * time.Millisecond, then: time.Duration(200+rng.IntN(600)) * time.Millisecond}
	for _, k := range strikes {
		if n -= k.share; n < 0 {
			s.what, s.whom = k.what, k.whom(rng)
			break
		}
	}
	return s
}

// parseScript reads strikes as a failing run has printed them.
func parseScript(text string) ([]strike, error) {
	var out []strike
	for _, word := range strings.Fields(text) {
		part := strings.Split(word, ":")
		if len(part) != 4 || !slices.ContainsFunc(strikes, func(k struct {
			what  string
			share int
			whom  func(rng *rand.Rand) string
		}) bool {
			return k.what == part[0]
		}) {
			return nil, fmt.Errorf("strike %q is not what:whom:down:then", word)
		}
		s := strike{what: part[0], whom: part[1]}
		var err error
		if s.down, err = time.ParseDuration(part[2]); err == nil {
			s.then, err = time.ParseDuration(part[3])
		}
		if err != nil {
			return nil, fmt.Errorf("strike %q: %w", word, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func printScript(script []strike) string {
	var out []string
	for _, s := range script {
		out = append(out, s.String())
	}
	return strings.Join(out, " ")
}

// shrink leaves out of a failing script what it fails without, as long as more may be
// tried: first large parts, then ever smaller ones (delta debugging).
func shrink(script []strike, more func() bool, fails func([]strike) bool) []strike {
	for size := (len(script) + 1) / 2; size >= 1; size /= 2 {
		for at := 0; at < len(script); {
			if !more() {
				return script
			}
			rest := slices.Concat(script[:at], script[min(at+size, len(script)):])
			if fails(rest) {
				script = rest
			} else {
				at += size
			}
		}
	}
	return script
}

// A script is read as it is printed, and shrinks to what its failure needs.
func TestShrink(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	var script []strike
	for range 60 {
		script = append(script, draw(rng))
	}
	read, err := parseScript(printScript(script))
	if err != nil || !slices.Equal(read, script) {
		t.Fatalf("read %v, %v; printed %v", read, err, script)
	}
	for _, bad := range []string{"kill", "kill:a:1s", "burn:a:1s:1s", "kill:a:x:1s", "kill:a:1s:x"} {
		if _, err := parseScript(bad); err == nil {
			t.Errorf("%q is read as a script", bad)
		}
	}
	needs := []strike{script[11], script[12], script[47]}
	runs := 0
	fails := func(s []strike) bool {
		runs++
		for _, n := range needs {
			if !slices.Contains(s, n) {
				return false
			}
		}
		return true
	}
	if got := shrink(script, func() bool { return true }, fails); !slices.Equal(got, needs) {
		t.Errorf("shrunk to %s, want %s", printScript(got), printScript(needs))
	}
	if runs > 60 {
		t.Errorf("it took %d runs to shrink 60 strikes to 3", runs)
	}
	left := 5
	got := shrink(script, func() bool { left--; return left >= 0 }, fails)
	if !fails(got) || len(got) == len(script) {
		t.Errorf("after 5 runs there are %d strikes", len(got))
	}
}
