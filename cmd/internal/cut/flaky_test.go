package cut

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/streamer/provider/replay"
)

var flakySeed = flag.Uint64("flaky.seed", 0, "seed of the faults; 0 draws one")

// attemptsMax is what a step may spend.
const attemptsMax = 30

// The kinds of turns, as their marker says.
const (
	flaky  = "flaky"  // nine streams of ten fail
	broken = "broken" // every stream breaks off after some text
	silent = "silent" // no stream gets as far as text
)

// TestFlakyProvider asks a provider that fails nine streams of ten, in every way that a
// transport can: each turn ends, with an answer, with what it has shown, or with the
// name of the cap, and the provider saw exactly as many requests as the turn has
// attempts.
func TestFlakyProvider(t *testing.T) {
	seed := *flakySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	w := newWorld(t, map[string]any{"attempts_per_step": attemptsMax, "attempts_per_turn": 2 * attemptsMax,
		"backoff": map[string]any{"base": "1ms", "max": "10ms", "retry_after_max": "20ms"}, "budget": unlimited},
		map[string]any{"stall_timeout": "150ms", "header_timeout": "2s"},
		func(w *world, a asked) replay.Play { return chance(seed, w, a) })
	var turns []asked
	for _, d := range chosen(t) {
		for n := range 4 {
			turns = append(turns, asked{dialect: d, end: flaky, n: n})
		}
		turns = append(turns, asked{dialect: d, end: broken}, asked{dialect: d, end: silent})
	}
	told := make([]string, len(turns))
	var g errgroup.Group
	for i, a := range turns {
		g.Go(func() (err error) {
			a.turn = fmt.Sprintf("%s-%s-%d", a.dialect, a.end, a.n)
			if told[i], err = w.flakyTurn(t, a); err != nil {
				err = fmt.Errorf("%s: %w", a.turn, err)
				t.Error(err)
			}
			return err
		})
	}
	err := g.Wait()
	slices.Sort(told)
	for _, line := range told {
		t.Log(line)
	}
	fmt.Printf("flaky turns %d, requests %d, seed %d (-flaky.seed)\n", len(turns), w.server.Requests(), seed)
	if err != nil {
		t.Logf("seed %d", seed)
	}
}

// chance draws what the n-th request of a turn's step gets. Equal seeds draw alike.
func chance(seed uint64, w *world, a asked) replay.Play {
	h := seed
	for _, c := range []byte(a.turn) {
		h = h*1099511628211 + uint64(c)
	}
	rng := rand.New(rand.NewPCG(h, uint64(a.step)<<32|uint64(a.request)))
	b := w.bodies[a.dialect]
	r := b[rng.IntN(2)]
	if a.step == 2 {
		r = b[2]
	}
	ends := replay.EventEnds(r.Response.Body)
	before := ends[len(ends)-1] // of the event that makes it whole: a cut before it fails
	for _, e := range slices.Backward(ends) {
		if got, err := read(a.dialect, r.Response.Body[:e]); err == nil && got.finished {
			before = e - 2
		}
	}
	from := 0
	switch {
	case a.end == broken:
		from = ends[len(ends)/2] // behind the text
	case a.end == silent:
		before = ends[0] / 2
	case rng.IntN(10) == 0:
		return replay.Play{Recording: r, Fault: replay.Fault{Split: replay.SplitEvent}}
	}
	f := replay.Fault{Cut: replay.AfterByte(from + rng.IntN(before-from)), Split: replay.SplitEvent}
	if rng.IntN(2) == 0 {
		f.Delay = time.Millisecond
	}
	kinds := []replay.End{replay.EndReset, replay.EndEOF, replay.EndClose, replay.EndHang, replay.EndBefore}
	n := rng.IntN(len(kinds) + 1)
	if a.end == broken {
		n %= 4 // its text is shown each time
	}
	if n < len(kinds) {
		f.End = kinds[n]
		return replay.Play{Recording: r, Fault: f}
	}
	status := []int{408, 429, 500, 503, 529}[rng.IntN(5)]
	return replay.Play{Recording: replay.Body("refusal", []byte(`{"error":{"message":"try again"}}`)), Fault: replay.Fault{Status: status}}
}

// flakyTurn runs a turn and says how it ended.
func (w *world) flakyTurn(t *testing.T, a asked) (string, error) {
	o, err := w.run(t.Context(), a.turn, a.dialect, mark(a.dialect, a.end, a.n))
	if err != nil {
		return "", err
	}
	faults := append(o.feed.Faults(), o.accounts()...)
	resets := len(o.items("reset"))
	done, failed := o.items("completion"), o.items("error")
	how := ""
	switch {
	case len(done) == 1 && len(failed) == 0 && !o.state.Salvaged:
		how = "answered"
		if o.feed.Text() != o.state.Text || !strings.HasSuffix(o.state.Text, "Both are refunded.") {
			faults = append(faults, fmt.Sprintf("the reader sees %q, the state says %q", o.feed.Text(), o.state.Text))
		}
	case len(done) == 1 && len(failed) == 0:
		how = "salvaged"
		if o.feed.Text() != o.state.Text || o.state.Text == "" || o.state.Finish == "" {
			faults = append(faults, fmt.Sprintf("the reader sees %q, the state says %q, finish %q", o.feed.Text(), o.state.Text, o.state.Finish))
		}
	case len(failed) == 1 && len(done) == 0:
		how = "gave up"
		if !strings.Contains(failed[0].Message, "attempts_per_step") {
			faults = append(faults, fmt.Sprintf("the error %+v names no cap", failed[0]))
		}
	default:
		faults = append(faults, fmt.Sprintf("ended with %+v and %+v", done, failed))
	}
	last := o.state.Steps[len(o.state.Steps)-1]
	if how != "answered" && len(last.Attempts) != attemptsMax {
		faults = append(faults, fmt.Sprintf("%s after %d attempts; the cap is %d", how, len(last.Attempts), attemptsMax))
	}
	if want := map[string]string{broken: "salvaged", silent: "gave up", flaky: how}[a.end]; how != want {
		faults = append(faults, how+"; want "+want)
	}
	if want := o.attempts() - len(o.state.Steps); resets != want {
		faults = append(faults, fmt.Sprintf("%d resets, want %d", resets, want))
	}
	faults = append(faults, w.ranOnce(o)...)
	if len(faults) > 0 {
		return "", fmt.Errorf("%s: %s", how, strings.Join(faults, "; "))
	}
	return fmt.Sprintf("%s: %s after %d attempts", a.turn, how, o.attempts()), nil
}

// ranOnce lists the calls of a turn that did not reach the tool exactly once.
func (w *world) ranOnce(o told) []string {
	var out []string
	for _, s := range o.state.Steps {
		for _, c := range s.Calls {
			if ran := w.ledger.Under(c.Key); !slices.Equal(ran, []string{c.Args}) {
				out = append(out, fmt.Sprintf("under key %s the tool got %q; want %q once", c.Key, ran, c.Args))
			}
		}
	}
	return out
}
