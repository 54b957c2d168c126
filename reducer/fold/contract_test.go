package fold_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/feed"
)

// screen is the most naive renderer there is: it appends text and drops on reset.
type screen map[int]string

func (s screen) show(o feed.Output) {
	switch b := o.Body.(type) {
	case *feed.TextDelta:
		s[o.Step] += b.Text
	case *feed.Reset:
		if o.Step == 0 {
			clear(s)
			return
		}
		delete(s, o.Step)
	}
}

func (s screen) text() string {
	var out strings.Builder
	for _, step := range slices.Sorted(maps.Keys(s)) {
		out.WriteString(s[step])
	}
	return out.String()
}

// watcher checks what any reader may expect of one whole feed, seen only as its reader
// sees it.
type watcher struct {
	ids      map[string]bool
	resets   map[int]int
	current  map[int]int // latest attempt of each step that showed content
	started  map[string]int
	settled  map[string]bool
	commands map[string]bool
	screen   screen
	ended    string
	top      int // latest step that showed content
	saved    int
	usages   int         // requests that were accounted for
	sum      feed.Tokens // of them
	n        int
	problems []string
}

func newWatcher() *watcher {
	return &watcher{ids: map[string]bool{}, resets: map[int]int{}, current: map[int]int{}, started: map[string]int{},
		settled: map[string]bool{}, commands: map[string]bool{}, screen: screen{}}
}

func (w *watcher) failf(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf("item %d: ", w.n)+fmt.Sprintf(format, args...))
}

func (w *watcher) see(o feed.Output) {
	if o.Turn != address.ID {
		w.failf("is of turn %q", o.Turn)
	}
	if o.ID == "" || w.ids[o.ID] {
		w.failf("id %q is empty or repeated", o.ID)
	}
	w.ids[o.ID] = true
	if o.Body.Lane() != subjects.LaneFeed {
		w.command(o)
		return
	}
	if _, ok := o.Body.(*feed.TurnAccepted); ok != (w.n == 0) {
		w.failf("turn_accepted must be first and only first, not %s", o.Body.Type())
	}
	w.n++
	if w.ended != "" && o.Body.Type() != "message_saved" {
		w.failf("%s comes after %s", o.Body.Type(), w.ended)
	}
	w.screen.show(o)
	switch b := o.Body.(type) {
	case *feed.Reset:
		w.reset(o, b)
	case *feed.TextDelta, *feed.ReasoningDelta, *feed.ToolProgress:
		w.content(o)
	case *feed.ToolStart:
		w.content(o)
		if _, again := w.started[b.Call]; again || w.settled[b.Call] {
			w.failf("call %s is started a second time, or after its result", b.Call)
		}
		w.started[b.Call] = o.Step
	case *feed.ClientCall: // the client's from here on
		w.settled[b.Call] = true
	case *feed.ToolResult:
		if w.settled[b.Call] {
			w.failf("call %s is settled a second time", b.Call)
		}
		w.settled[b.Call] = true
	case *feed.Usage:
		w.usages++
		w.sum.Input += b.Input
		w.sum.Output += b.Output
		if w.sum.Cost += b.Cost; w.sum.Cost < 0 {
			w.sum.Cost = math.MaxInt64
		}
		w.sum.Partial = w.sum.Partial || b.Partial
	case *feed.Completion:
		w.ended = "completion"
		w.totals(b.Attempts, b.Usage)
		if shown := w.screen.text(); shown != b.Text {
			w.failf("completion says %q, a reader of the feed shows %q", b.Text, shown)
		}
		if b.Text == "" && b.Salvaged {
			w.failf("a message is salvaged out of nothing")
		}
	case *feed.Error:
		w.ended = "error"
		w.totals(b.Attempts, b.Usage)
		if shown := w.screen.text(); shown != "" {
			w.failf("an apology follows the text %q", shown)
		}
	case *feed.MessageSaved:
		if w.saved++; w.ended != "completion" || w.saved > 1 {
			w.failf("message_saved comes before completion or twice")
		}
	}
}

// totals: the end tells neither more nor less than the requests did, each of which was
// accounted for once, and no more is wasted than was used.
func (w *watcher) totals(attempts int, t feed.Totals) {
	if attempts != w.usages {
		w.failf("I10: the end speaks of %d requests, %d were accounted for", attempts, w.usages)
	}
	if t.Input != w.sum.Input || t.Output != w.sum.Output || t.Cost != w.sum.Cost || t.Partial != w.sum.Partial {
		w.failf("the totals are %+v, the sum is %+v", t, w.sum)
	}
	if t.WastedInput > t.Input || t.WastedOutput > t.Output || t.WastedCost > t.Cost {
		w.failf("more is wasted than used: %+v", t)
	}
}

func (w *watcher) reset(o feed.Output, b *feed.Reset) {
	w.resets[o.Step]++
	if b.Reason == "" || b.Abandoned != w.resets[o.Step] {
		w.failf("reset %d of step %d abandons %d for reason %q", w.resets[o.Step], o.Step, b.Abandoned, b.Reason)
	}
	for call, step := range w.started {
		if step == o.Step {
			w.failf("step %d is taken back after its call %s was started", step, call)
		}
	}
}

func (w *watcher) content(o feed.Output) {
	if o.Step < w.top || o.Attempt < w.current[o.Step] {
		w.failf("%s of step %d attempt %d comes late", o.Body.Type(), o.Step, o.Attempt)
	}
	if n := w.resets[o.Step]; n != o.Attempt-1 {
		w.failf("%s of step %d attempt %d comes after %d resets", o.Body.Type(), o.Step, o.Attempt, n)
	}
	w.top = max(w.top, o.Step)
	w.current[o.Step] = o.Attempt
}

// command: nothing is asked for twice, but by a later event, and nothing after the end.
func (w *watcher) command(o feed.Output) {
	if c, ok := o.Body.(*feed.CallCommand); ok {
		if _, started := w.started[c.Call]; !started || w.settled[c.Call] {
			w.failf("call %s is commanded before its start or after its result", c.Call)
		}
	}
	if w.ended != "" {
		w.failf("%s comes after %s", o.Body.Type(), w.ended)
	}
}

// end tells what is missing in a feed whose turn is over, and where state and feed
// differ.
func (w *watcher) end(s *fold.State) []string {
	if (w.ended != "") != s.Over() {
		w.failf("the feed's end is %q, the state is %q", w.ended, s.Status)
	}
	if !s.Over() {
		return w.problems
	}
	for call := range w.started {
		if !w.settled[call] {
			w.failf("call %s was started and has no result", call)
		}
	}
	if shown := w.screen.text(); shown != s.Text() {
		w.failf("the state's text is %q, the feed shows %q", s.Text(), shown)
	}
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if !w.settled[c.ID] || !c.Settled() {
				w.failf("call %s of an ended turn has no result", c.ID)
			}
		}
	}
	return w.problems
}
