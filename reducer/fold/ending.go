package fold

import (
	"slices"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// endings tells people why a turn without an answer was ended from outside.
var endings = map[string]string{
	"cancelled": "The turn was cancelled.",
	"deadline":  "The turn took longer than its deadline allows.",
}

// end stops the turn from outside: a running attempt is closed, calls that have not
// begun never begin, and calls that may have begun are waited for, so that each has
// one honest outcome.
func (f *folder) end(word string) {
	if f.Status != Running {
		return
	}
	st, a := f.step(), f.attempt()
	if a != nil && a.Outcome == "" {
		a.Usage.Partial = true
		f.close(a, AttemptCancelled, event.Cancelled, endings[word])
		f.emit(st.N, a.N, &feed.StepWithdraw{V: 1})
		f.finish(word, endings[word])
		return
	}
	f.Status, f.ending = Ending, word
	for _, c := range st.Calls {
		switch {
		case c.Settled() || c.leader != nil:
		case c.parked:
			f.settle(c, settlement{outcome: event.OutcomeNotRun})
		default:
			f.withdraw(c)
		}
	}
	f.advance()
}

// expire ends a turn at its deadline, also one that is being cancelled: it waits for
// nothing, and calls that have no outcome by now are unknown. What becomes known later
// changes the state shown.
func (f *folder) expire() {
	f.end("deadline")
	if f.Status != Ending {
		return
	}
	for _, c := range f.step().Calls {
		if !c.Settled() && c.leader == nil {
			f.settle(c, settlement{outcome: event.OutcomeUnknown, class: "deadline"})
		}
	}
	f.advance()
}

func (f *folder) withdraw(c *Call) {
	c.last = f.seq
	f.emit(f.step().N, f.step().Committed, &feed.CallWithdraw{V: 1, Call: c.ID, Key: c.Key})
}

// finish ends a turn that has no finished answer: as a salvaged message if there is
// anything to show, else as a plain apology. Text that a broken attempt has shown is
// kept, and shown again if a reset has taken it back.
func (f *folder) finish(word, apology string) {
	if st, a := f.step(), f.attempt(); st != nil && st.Committed == 0 && a != nil {
		st.Text = st.lastShown()
		if st.Text != "" && a.textLen == 0 {
			f.emit(st.N, a.N, &feed.TextDelta{Text: st.Text})
		}
	}
	if f.Text() != "" {
		f.Message = apology
		f.complete(word, true)
		return
	}
	f.Status, f.Finish, f.Message = Failed, word, apology
	f.emit(0, 0, &feed.Error{Message: apology, Class: word, Attempts: f.started(), Usage: f.said()})
}

// lastShown is the text of the latest attempt that has shown any.
func (st *Step) lastShown() string {
	for _, a := range slices.Backward(st.Attempts) {
		if a.textLen > 0 {
			return a.text()
		}
	}
	return ""
}

func (f *folder) complete(word string, salvaged bool) {
	f.Status, f.Finish, f.Salvaged = Completed, word, salvaged
	b := &feed.Completion{Text: f.Text(), Finish: word, Salvaged: salvaged, Attempts: f.started(), Usage: f.said()}
	if f.Opened.Rules >= 1 {
		b.Message = f.Message
	}
	f.emit(0, 0, b)
}
