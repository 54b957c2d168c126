package fold_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// lawProblems holds events against the laws that are true of every input. Each law is
// a line of docs/invariants.md, named in the message.
func lawProblems(events []event.Event) []string {
	whole, out, err := run(events)
	if err != nil {
		return []string{fmt.Sprintf("I8: the fold gave up: %v", err)}
	}
	problems := feedLaw(whole, out)
	problems = append(problems, partsLaw(events, whole, out)...)
	problems = append(problems, redeliveryLaw(events, whole, out)...)
	problems = append(problems, repeatLaw(events, whole, out)...)
	return append(problems, walkLaw(events)...)
}

func feedLaw(s fold.State, out []feed.Output) []string {
	w := newWatcher()
	for _, o := range out {
		w.see(o)
		data, err := feed.Encode(o)
		if err != nil {
			w.failf("I8: %v", err)
			continue
		}
		back, err := feed.Decode(data)
		if err != nil || !reflect.DeepEqual(back, o) {
			w.failf("I8: %s is read back as %+v, %v", data, back, err)
			continue
		}
		if again, _ := feed.Encode(back); !bytes.Equal(again, data) {
			w.failf("I8: %s is written again as %s", data, again)
		}
	}
	return w.end(&s)
}

// partsLaw: a process that folds a prefix without telling anybody, and goes on from
// there, says the rest of what one process says.
func partsLaw(events []event.Event, whole fold.State, out []feed.Output) []string {
	cuts := []int{1, len(events) / 3, len(events) / 2, len(events) - 1}
	for _, cut := range cuts {
		if cut < 0 || cut > len(events) {
			continue
		}
		_, first, _ := run(events[:cut])
		state, _, _ := run(events[:cut])
		second := []feed.Output{}
		for _, e := range events[cut:] {
			var o []feed.Output
			state, o, _ = fold.Guarded(state, e)
			second = append(second, o...)
		}
		if joined := append(first, second...); !sameOutputs(joined, out) || !sameView(state, whole) {
			return []string{fmt.Sprintf("I8: folding in two parts at %d differs from folding once", cut)}
		}
	}
	return nil
}

func sameOutputs(a, b []feed.Output) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// redeliveryLaw: the log hands over twice, now or long after; nothing changes (I9).
func redeliveryLaw(events []event.Event, whole fold.State, out []feed.Output) []string {
	var twice []event.Event
	for i, e := range events {
		twice = append(twice, e, e, events[i/2])
	}
	if state, o, err := run(twice); err != nil || !sameOutputs(o, out) || !sameView(state, whole) {
		return []string{fmt.Sprintf("I9: delivering twice changes what is said (%v)", err)}
	}
	return nil
}

// repeatLaw: a writer that stores a fact twice, at two places, changes nothing but the
// places and what is counted as skipped; progress may be shown twice.
func repeatLaw(events []event.Event, whole fold.State, out []feed.Output) []string {
	var twice []event.Event
	for _, e := range events {
		e.Body = later(e.Body)
		twice = append(twice, event.Event{Turn: e.Turn, Seq: 2 * e.Seq, Body: e.Body}, event.Event{Turn: e.Turn, Seq: 2*e.Seq + 1, Body: e.Body})
	}
	state, o, err := run(twice)
	a, b := state.View(), whole.View()
	a.Seq, a.Skipped, b.Seq, b.Skipped = 0, 0, 0, 0
	if err != nil || !reflect.DeepEqual(a, b) {
		return []string{fmt.Sprintf("I9: a fact stored twice changes the state (%v)\n%+v\n%+v", err, a, b)}
	}
	if x, y := placeless(o), placeless(out); x != y {
		return []string{"I9: a fact stored twice changes what is said:\n" + x + "instead of\n" + y}
	}
	return nil
}

// later moves the sequence that a body names to where repeatLaw puts it.
func later(b event.Body) event.Body {
	switch b := b.(type) {
	case *event.AttemptLost:
		c := *b
		if c.Seen > 0 {
			c.Seen = 2*c.Seen + 1
		}
		return &c
	case *event.ApprovalExpired:
		c := *b
		c.Seen = 2*c.Seen + 1
		return &c
	case *event.CommandOverdue:
		c := *b
		c.Seen = 2*c.Seen + 1
		return &c
	}
	return b
}

func placeless(out []feed.Output) string {
	p := &printer{keys: map[string]string{}}
	for _, o := range out {
		switch b := o.Body.(type) {
		case *feed.ToolProgress:
			continue
		case *feed.StepCommand:
			c := *b
			c.In = 0
			o.Body = &c
		}
		p.output(o)
	}
	return p.String()
}

// walker looks at the state after every event.
type walker struct {
	committed map[int]string           // what a committed step says for good
	told      map[string]string        // what the model is told of a call for good
	known     map[string]event.Outcome // known outcomes never change
	open      map[string]feed.Output   // commands that nothing has answered
	problems  []string
}

func walkLaw(events []event.Event) []string {
	w := &walker{committed: map[int]string{}, told: map[string]string{}, known: map[string]event.Outcome{}, open: map[string]feed.Output{}}
	state := absent()
	for _, e := range events {
		var out []feed.Output
		state, out, _ = fold.Guarded(state, e)
		w.steps(&state)
		w.commands(&state, out)
		w.timers(&state)
		if _, a := state.Running(); a != nil {
			w.conversation(state.Conversation())
		}
		if len(w.problems) > 0 {
			return []string{fmt.Sprintf("after %d (%s): %s", e.Seq, e.Body.Kind(), w.problems[0])}
		}
	}
	return nil
}

func (w *walker) failf(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *walker) steps(s *fold.State) {
	for _, st := range s.Steps {
		if st.Committed == 0 {
			continue
		}
		says := fmt.Sprintf("%d %q", st.Committed, st.Text)
		for _, c := range st.Calls {
			says += fmt.Sprintf(" %s %s %s %s %s", c.ID, c.Tool, c.Args, c.Key, c.ProviderID)
			if before, ok := w.told[c.ID]; ok && before != c.Told {
				w.failf("I11: call %s was told %q, now %q", c.ID, before, c.Told)
			}
			if before, ok := w.known[c.ID]; ok && before != c.Outcome {
				w.failf("I7: call %s was %s, now %s", c.ID, before, c.Outcome)
			}
			if c.Settled() {
				w.told[c.ID] = c.Told
			}
			if c.Outcome.Known() {
				w.known[c.ID] = c.Outcome
			}
		}
		if before, ok := w.committed[st.N]; ok && before != says {
			w.failf("I2: step %d was %s, now %s", st.N, before, says)
		}
		w.committed[st.N] = says
	}
}

// commands: what is asked for and not answered is exactly what Pending lists, and no
// key is asked for by two calls at once.
func (w *walker) commands(s *fold.State, out []feed.Output) {
	for _, o := range out {
		switch b := o.Body.(type) {
		case *feed.StepCommand:
			w.open[fmt.Sprintf("step %d.%d", o.Step, o.Attempt)] = o
		case *feed.CallCommand:
			w.open["call "+b.Call] = o
		case *feed.CallWithdraw:
			w.open["call "+b.Call] = o
		}
	}
	keys := map[string]string{}
	for name, o := range w.open { // whichever comes first, the set is the same
		if w.answered(s, o) {
			delete(w.open, name)
			continue
		}
		if c, ok := o.Body.(*feed.CallCommand); ok {
			if other := keys[c.Key]; other != "" {
				w.failf("I6: calls %s and %s are commanded at once under one key", other, c.Call)
			}
			keys[c.Key] = c.Call
		}
	}
	var pending []string
	for _, o := range s.Pending() {
		switch b := o.Body.(type) {
		case *feed.StepCommand:
			pending = append(pending, fmt.Sprintf("step %d.%d", o.Step, o.Attempt))
		case *feed.CallCommand:
			pending = append(pending, "call "+b.Call)
		case *feed.CallWithdraw:
			pending = append(pending, "call "+b.Call)
		}
	}
	slices.Sort(pending)
	if open := slices.Sorted(maps.Keys(w.open)); !slices.Equal(open, pending) {
		w.failf("pending lists %v, asked for and not answered are %v", pending, open)
	}
}

func (w *walker) answered(s *fold.State, o feed.Output) bool {
	if s.Over() {
		return true
	}
	switch b := o.Body.(type) {
	case *feed.CallCommand:
		return s.Call(b.Call).Settled()
	case *feed.CallWithdraw:
		return s.Call(b.Call).Settled()
	}
	step, a := s.Running()
	return a == nil || step != o.Step || a.N != o.Attempt || a.Started != nil
}

// timers: a turn that is not over never waits without a timer, and one that waits for
// more than a person has a timer beside the deadline.
func (w *walker) timers(s *fold.State) {
	timers := s.Timers()
	if s.Status == fold.Absent || s.Done() {
		if len(timers) > 0 {
			w.failf("a turn that is %q waits for %+v", s.Status, timers)
		}
		return
	}
	work := len(s.Pending())
	if _, a := s.Running(); a != nil && a.Started != nil {
		work++
	}
	deadline, approvals, parked := 0, 0, 0
	for _, t := range timers {
		switch t.Kind {
		case fold.TimerDeadline, fold.TimerUnsaved:
			deadline++
		case fold.TimerApproval:
			approvals++
		}
	}
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.Parked() {
				parked++
			}
		}
	}
	end := 1
	if s.Opened.Rules < 2 || s.Over() {
		parked = 0 // an approval never expires
	} else if parked > 0 && work == 0 && s.Status == fold.Running {
		end = 0 // the deadline stands still
	}
	if deadline != end || approvals != parked || len(timers) != work+end+parked {
		w.failf("%d pieces of work and the end are outstanding, timers are %+v", work, timers)
	}
}

// TestMain asks for more scripts than rapid does by itself: most are short, and it is
// the long ones that tell something.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("400"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// conversation: when a request may be made, each call has one result, in call order,
// directly after its reply, and no id occurs twice (I11).
func (w *walker) conversation(c fold.Conversation) {
	ids := map[string]bool{}
	var open []string
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			if p.Call == nil {
				continue
			}
			if ids[p.Call.ID] {
				w.failf("I11: id %s occurs twice", p.Call.ID)
			}
			ids[p.Call.ID] = true
			open = append(open, p.Call.ID)
		}
		for i, r := range m.Results {
			if len(m.Results) != len(open) || r.ID != open[i] {
				w.failf("I11: calls %v are answered by %+v", open, m.Results)
				break
			}
		}
		if len(m.Results) > 0 {
			open = nil
		}
	}
	if len(open) > 0 {
		w.failf("I11: calls %v have no result", open)
	}
}

func TestLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newWorld(rt)
		g.play(rapid.IntRange(1, 90).Draw(rt, "events"))
		if g.err != nil {
			rt.Fatalf("%v\n%s", g.err, g.describe())
		}
		if p := lawProblems(g.events); len(p) > 0 {
			rt.Fatalf("%v\n%s", p, g.describe())
		}
	})
}

// TestTurnsEnd: from any state, if every command is answered, the turn ends in a number
// of events that its budgets bound (I12).
func TestTurnsEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newWorld(rt)
		g.play(rapid.IntRange(1, 40).Draw(rt, "events"))
		limit := g.opened.Policy.AttemptsPerTurn*(2+4*callsMax) + 4
		from := len(g.events)
		for !g.state.Over() {
			if len(g.events)-from > limit {
				rt.Fatalf("the turn has not ended %d events on\n%s", limit, g.describe())
			}
			g.answer()
		}
		if p := lawProblems(g.events); len(p) > 0 {
			rt.Fatalf("%v\n%s", p, g.describe())
		}
	})
}
