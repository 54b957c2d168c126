package audit

import (
	"strings"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/feed"
)

// watcher follows a turn's outputs as a renderer does: as a stranger who has only what
// was said. Its zero value, with found set, has seen nothing.
type watcher struct {
	shown    map[int]*strings.Builder // by step
	resets   map[int]int              // by step
	calls    map[string]*heard
	order    []string // calls in order of their start
	noTools  map[int]bool
	asked    map[place]bool // attempts commanded
	ended    string
	saved    bool
	lastStep int
	retold   bool // by a rewind, which does not repeat commands that were answered
	found    *offences
}

// heard is what was said of one call.
type heard struct {
	step    int
	key     string
	started bool
	results int
}

func (w *watcher) offend(id string, seq uint64, format string, args ...any) {
	w.found.add(id, streamOUT, seq, format, args...)
}

func (w *watcher) see(seq uint64, o feed.Output) {
	switch b := o.Body.(type) {
	case *feed.TextDelta:
		w.content(seq, o)
		if w.shown == nil {
			w.shown = map[int]*strings.Builder{}
		}
		if w.shown[o.Step] == nil {
			w.shown[o.Step] = &strings.Builder{}
		}
		w.shown[o.Step].WriteString(b.Text)
		w.lastStep = max(w.lastStep, o.Step)
	case *feed.ReasoningDelta:
		w.content(seq, o)
	case *feed.Reset:
		w.reset(seq, o, b)
	case *feed.ToolStart:
		w.content(seq, o)
		w.start(seq, o.Step, b)
	case *feed.ToolResult:
		w.result(seq, o.Step, b)
	case *feed.StepCommand:
		w.step(seq, o, b)
	case *feed.CallCommand:
		w.command(seq, b)
	case *feed.Completion:
		w.end(seq, o)
		if text := w.text(); text != b.Text {
			w.offend("I2", seq, "completion says %.80q, its followers show %.80q", b.Text, text)
		}
		w.requests(seq, b.Attempts)
	case *feed.Error:
		w.end(seq, o)
		w.requests(seq, b.Attempts)
	case *feed.MessageSaved:
		if w.ended != "completion" || w.saved {
			w.offend("I13", seq, "message_saved without a completion before it, or twice")
		}
		w.saved = true
	}
}

func (w *watcher) reset(seq uint64, o feed.Output, b *feed.Reset) {
	if o.Step == 0 { // the whole turn is told again
		*w = watcher{found: w.found, retold: true}
		return
	}
	if w.resets == nil {
		w.resets = map[int]int{}
	}
	w.resets[o.Step]++
	if b.Abandoned != w.resets[o.Step] {
		w.offend("I3", seq, "reset %d of step %d abandons attempt %d", w.resets[o.Step], o.Step, b.Abandoned)
	}
	for id, c := range w.calls {
		if c.step == o.Step && c.started {
			w.offend("I5", seq, "step taken back after call %s was started", id)
		}
	}
	delete(w.shown, o.Step)
}

func (w *watcher) content(seq uint64, o feed.Output) {
	if w.ended != "" {
		w.offend("I2", seq, "%s after %s", o.Body.Type(), w.ended)
	}
	if o.Attempt != w.resets[o.Step]+1 {
		w.offend("I3", seq, "%s of step %d attempt %d after %d resets", o.Body.Type(), o.Step, o.Attempt, w.resets[o.Step])
	}
}

func (w *watcher) call(id string, step int) *heard {
	c := w.calls[id]
	if c == nil {
		if w.calls == nil {
			w.calls = map[string]*heard{}
		}
		c = &heard{step: step}
		w.calls[id] = c
	}
	return c
}

func (w *watcher) start(seq uint64, step int, b *feed.ToolStart) {
	c := w.call(b.Call, step)
	if c.started {
		w.offend("I9", seq, "call %s is started twice", b.Call)
	}
	if w.noTools[step] {
		w.offend("I12", seq, "call %s is started in a step whose request offered no tools", b.Call)
	}
	c.started, c.key = true, b.Key
	w.order = append(w.order, b.Call)
}

// result: each call has exactly one, and no step begins before the last one has all of
// its own (I11).
func (w *watcher) result(seq uint64, step int, b *feed.ToolResult) {
	c := w.call(b.Call, step)
	if c.results++; c.results > 1 {
		w.offend("I11", seq, "call %s has two results", b.Call)
	}
	if b.Outcome == string(effect.Unknown) && b.Replayed && !c.started {
		w.offend("I11", seq, "call %s replays what is not known", b.Call)
	}
}

func (w *watcher) step(seq uint64, o feed.Output, b *feed.StepCommand) {
	if w.ended != "" {
		w.offend("I10", seq, "a model is asked after %s", w.ended)
	}
	w.settled(seq, o.Step, "before step "+o.ID)
	if !b.Tools {
		if w.noTools == nil {
			w.noTools = map[int]bool{}
		}
		w.noTools[o.Step] = true
	}
	if w.asked == nil {
		w.asked = map[place]bool{}
	}
	w.asked[place{o.Step, o.Attempt}] = true
}

func (w *watcher) command(seq uint64, b *feed.CallCommand) {
	if _, err := effect.Canonical(b.Args); err != nil {
		w.offend("I4", seq, "call %s runs with arguments that are not one JSON object", b.Call)
	}
	c := w.calls[b.Call]
	switch {
	case c == nil || !c.started:
		w.offend("I5", seq, "call %s is commanded before it was started", b.Call)
	case c.key != b.Key:
		w.offend("I6", seq, "call %s starts under key %s and is commanded under %s", b.Call, c.key, b.Key)
	case c.results > 0:
		w.offend("I11", seq, "call %s is commanded after its result", b.Call)
	}
}

// settled checks that every started call of the steps before one has its result.
func (w *watcher) settled(seq uint64, before int, when string) {
	for _, id := range w.order {
		if c := w.calls[id]; c.step < before && c.results == 0 {
			w.offend("I11", seq, "call %s has no result %s", id, when)
		}
	}
}

func (w *watcher) end(seq uint64, o feed.Output) {
	if w.ended != "" {
		w.offend("I2", seq, "%s after %s", o.Body.Type(), w.ended)
	}
	w.ended = o.Body.Type()
	w.settled(seq, 1<<30, "at the end")
}

// requests: no more can have been made than were commanded (I10).
func (w *watcher) requests(seq uint64, attempts int) {
	if attempts > len(w.asked) && !w.retold {
		w.offend("I10", seq, "%d requests are counted, %d attempts were commanded", attempts, len(w.asked))
	}
}

func (w *watcher) text() string {
	var out strings.Builder
	for step := 1; step <= w.lastStep; step++ {
		if b := w.shown[step]; b != nil {
			out.WriteString(b.String())
		}
	}
	return out.String()
}
