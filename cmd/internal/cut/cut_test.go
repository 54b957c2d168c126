package cut

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/streamer/provider/replay"
)

// job is one cut: the first attempt of a turn ends so after n bytes.
type job struct {
	dialect string
	end     replay.End
	n       int
}

func (j job) turn() string { return fmt.Sprintf("%s-%s-%d", j.dialect, j.end, j.n) }

// tally is what the cuts came to.
type tally struct {
	mu                                 sync.Mutex
	cuts, duplicates, stale, missing   int
	wholeDespiteCut, retried, complete int
	takenBack                          int // whole bodies of which a reset took bytes back
	faults                             []string
	keys                               map[string]string // turn by key
}

func (y *tally) fault(j job, format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.faults = append(y.faults, fmt.Sprintf("%s after byte %d, %s: ", j.dialect, j.n, j.end)+fmt.Sprintf(format, args...))
}

// TestCutEverywhere ends the first attempt of a turn after every byte of its body, by a
// TCP reset and by a clean end, in all dialects. The second attempt is whole and words
// everything anew. What the reader is left with, what was done under which keys, what
// was asked of the provider and what was billed is held against the bytes.
func TestCutEverywhere(t *testing.T) {
	w := newWorld(t, map[string]any{"backoff": map[string]any{"base": "1ms", "max": "5ms"}, "budget": unlimited}, nil,
		func(w *world, a asked) replay.Play {
			b := w.bodies[a.dialect]
			switch {
			case a.step == 2:
				return replay.Play{Recording: b[2]}
			case a.request == 1:
				return replay.Play{Recording: b[0], Fault: replay.Fault{Cut: replay.AfterByte(a.n), End: replay.End(a.end)}}
			}
			return replay.Play{Recording: b[1]}
		})
	y := &tally{keys: map[string]string{}}
	var g errgroup.Group
	g.SetLimit(*inFlight)
	stride := *every
	switch {
	case stride > 0:
	case raceEnabled:
		stride = 16 // the process that is fed is not built for races
	default:
		stride = 1
	}
	fmt.Printf("TestCutEverywhere: a cut after every %d bytes (-cut.every)\n", stride)
	for _, j := range jobs(w, chosen(t), stride) {
		g.Go(func() error {
			y.check(t, w, j)
			return nil
		})
	}
	_ = g.Wait() // no job returns an error
	y.duplicates += w.ledger.Effects() - 2*y.complete
	fmt.Printf("cuts %d, duplicate effects %d, stale characters %d, missing resets %d\n", y.cuts, y.duplicates, y.stale, y.missing)
	t.Logf("%d turns retried (%d because a reset took bytes back), %d whole despite their cut; %d requests at the provider, %d at the tool",
		y.retried, y.takenBack, y.wholeDespiteCut, w.server.Requests(), len(w.ledger.Sent()))
	slices.Sort(y.faults)
	for _, f := range y.faults[:min(40, len(y.faults))] {
		t.Error(f)
	}
	if n := len(y.faults); n > 40 || n == 0 && y.duplicates+y.stale+y.missing > 0 {
		t.Errorf("%d faults in all", n)
	}
}

// jobs lists the cuts, one dialect after the other byte by byte, so that all dialects
// are in flight at once.
func jobs(w *world, dialects []string, stride int) []job {
	var out []job
	for _, d := range dialects {
		size := len(w.bodies[d][0].Response.Body)
		for n := 0; n <= size; n++ {
			if n%stride == 0 || n == size {
				out = append(out, job{d, replay.EndReset, n}, job{d, replay.EndEOF, n})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b job) int { return cmp.Compare(a.n, b.n) })
	return out
}

// check runs one turn and holds it against the bytes of its first attempt.
func (y *tally) check(t *testing.T, w *world, j job) {
	o, err := w.run(t.Context(), j.turn(), j.dialect, mark(j.dialect, string(j.end), j.n))
	y.mu.Lock()
	y.cuts++
	y.mu.Unlock()
	if err != nil {
		y.fault(j, "%v", err)
		return
	}
	first, late, err := j.readings(w)
	whole, err2 := read(j.dialect, w.bodies[j.dialect][1].Response.Body)
	last, err3 := read(j.dialect, w.bodies[j.dialect][2].Response.Body)
	if err := cmp.Or(err, err2, err3); err != nil {
		y.fault(j, "%v", err)
		return
	}
	resets := o.items("reset")
	winner := whole
	switch {
	case first.finished && !j.mayLose(first, late) && len(resets) > 0:
		y.fault(j, "the content was whole, and it was reset: %+v", resets)
	case !first.finished && !late.finished && len(resets) == 0:
		y.mu.Lock()
		y.missing++
		y.mu.Unlock()
		y.fault(j, "no reset")
	}
	if len(resets) == 0 {
		if winner = first; !winner.finished {
			winner = late
		}
	}
	y.count(len(resets) > 0, first.finished)
	y.feed(j, o, winner.text+last.text, first.text, whole.text+last.text)
	y.effects(j, w, o, winner)
	y.attempts(j, o, []reading{first, late}, whole, last)
	if j.n%128 == 0 {
		if verdict, err := w.p.Audit(t.Context(), j.turn()); err != nil || verdict != "" {
			y.fault(j, "audit: %q %v", verdict, err)
		}
	}
}

func (y *tally) count(retried, finished bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case !retried:
		y.wholeDespiteCut++
	case finished:
		y.takenBack++
		fallthrough
	default:
		y.retried++
	}
}

// readings gives what surely came, and what came if the last byte, the CR of a CR LF,
// already counts as the end of its line.
func (j job) readings(w *world) (sure, late reading, err error) {
	body := w.bodies[j.dialect][0].Response.Body
	late, err = read(j.dialect, body[:j.n])
	if err != nil || j.n == 0 || j.n == len(body) || body[j.n-1] != '\r' {
		return late, late, err
	}
	sure, err = read(j.dialect, body[:j.n-1])
	return sure, late, err
}

// mayLose: a reset may take back bytes that were sent before it, so that the other side
// may see less than what was sent.
func (j job) mayLose(sure, late reading) bool {
	return j.end == replay.EndReset || sure.finished != late.finished
}

// feed checks what the reader was told, and what he is left with.
func (y *tally) feed(j job, o told, text, abandoned, other string) {
	for _, f := range o.feed.Faults() {
		y.fault(j, "%s", f)
	}
	resets := o.items("reset")
	if len(resets) > 1 || len(resets) == 1 && (resets[0].Step != 1 || resets[0].Abandoned != 1) {
		y.fault(j, "resets %+v", resets)
	}
	done := o.items("completion")
	if len(done) != 1 || len(o.items("error")) > 0 {
		y.fault(j, "ended with %+v %+v", done, o.items("error"))
		return
	}
	shown := o.feed.Text()
	if shown != text || done[0].Text != text || o.state.Text != text || o.state.Salvaged {
		y.fault(j, "the reader sees %q, completion says %q, state %q; want %q", shown, done[0].Text, o.state.Text, text)
	}
	if len(resets) == 0 {
		return
	}
	stale := 0
	for _, c := range shown {
		if strings.ContainsRune(abandoned, c) && !strings.ContainsRune(other, c) {
			stale++
		}
	}
	y.mu.Lock()
	y.stale += stale
	y.mu.Unlock()
}

// effects checks that the winner's calls were run, each once, and nobody else's.
func (y *tally) effects(j job, w *world, o told, winner reading) {
	y.mu.Lock()
	y.complete++
	y.mu.Unlock()
	if len(o.state.Steps) != 2 || len(o.state.Steps[0].Calls) != len(winner.args) || len(o.state.Steps[1].Calls) > 0 {
		y.fault(j, "steps %+v; the winner has the calls %q", o.state.Steps, winner.args)
		return
	}
	for i, c := range o.state.Steps[0].Calls {
		if c.Args != winner.args[i] || c.Outcome != "succeeded" || c.Replayed {
			y.fault(j, "call %+v; want %s", c, winner.args[i])
		}
		if ran := w.ledger.Under(c.Key); !slices.Equal(ran, winner.args[i:i+1]) {
			y.fault(j, "under key %s the tool got %q; want %q once", c.Key, ran, winner.args[i])
		}
		y.mu.Lock()
		other := y.keys[c.Key]
		y.keys[c.Key] = j.turn()
		y.mu.Unlock()
		if other != "" {
			y.fault(j, "key %s is also of %s", c.Key, other)
		}
	}
}

// attempts checks their numbers, ends and bills.
func (y *tally) attempts(j job, o told, first []reading, whole, last reading) {
	for _, f := range o.accounts() {
		y.fault(j, "%s", f)
	}
	resets := len(o.items("reset"))
	if want := [2]int{1 + resets, 1}; o.requests != want {
		y.fault(j, "%v requests by step; want %v", o.requests, want)
		return
	}
	if len(o.state.Steps) != 2 {
		return // told already
	}
	one := o.state.Steps[0].Attempts
	billed := func(a attempt, outcome string, may ...reading) {
		if a.Outcome != outcome {
			y.fault(j, "attempt %d is %s; want %s", a.Attempt, a.Outcome, outcome)
		}
		for _, r := range may {
			if a.Usage.Input == r.input && a.Usage.Output == r.output && a.Usage.Partial == !r.finalUsage {
				return
			}
		}
		y.fault(j, "attempt %d is billed %+v; its bytes say %+v", a.Attempt, a.Usage, may)
	}
	if resets == 0 {
		billed(one[0], "finished", first...)
	} else {
		billed(one[0], "failed", first...)
		class := map[replay.End]string{replay.EndEOF: "truncated", replay.EndReset: "connection"}[j.end]
		if one[0].Class != class {
			y.fault(j, "the first attempt's class is %s; want %s", one[0].Class, class)
		}
		billed(one[1], "finished", whole)
	}
	billed(o.state.Steps[1].Attempts[0], "finished", last)
}
