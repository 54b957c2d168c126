package fold

import (
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// settlement is the end of a call as it becomes known.
type settlement struct {
	outcome  event.Outcome
	class    string
	result   string
	replayed bool
	by, why  string // who decided, if it was not the run
	reworded bool   // replayed for arguments that differ in more than spelling
}

func (f *folder) callSettled(b *event.CallSettled) {
	c := f.State.Call(b.Call)
	if c == nil || c.Key == "" || b.Key != "" && b.Key != c.Key || c.leader != nil || !valid(b.Outcome) {
		f.Skipped++
		return
	}
	if c.Settled() {
		if c.Outcome == event.OutcomeUnknown && b.Outcome.Known() {
			f.resolve(c, b) // what is known may still come; what was told stays told
		}
		return
	}
	f.settle(c, settlement{outcome: b.Outcome, class: b.ErrorClass, result: b.Result, replayed: b.Replayed, by: b.By, why: b.Why})
	f.advance()
}

func valid(o event.Outcome) bool {
	switch o {
	case event.OutcomeSucceeded, event.OutcomeFailed, event.OutcomeUnknown, event.OutcomeRefused, event.OutcomeNotRun:
		return true
	}
	return false
}

// settle records the one outcome of a call, lets the loop breaker judge it, tells the
// renderers, and shares it with equal calls of the step.
func (f *folder) settle(c *Call, s settlement) {
	c.parked = false // whatever becomes of it, nobody is waited for
	c.Outcome, c.ErrorClass, c.Result, c.Replayed = s.outcome, s.class, s.result, s.replayed
	c.ResolvedBy, c.Why = s.by, s.why
	c.Doubted = c.Outcome == event.OutcomeUnknown
	note := ""
	switch t, _ := f.tool(c.Tool); {
	case s.replayed && c.Outcome == event.OutcomeSucceeded && c.Scope != f.Turn.ID && t.Scope != "" && !s.reworded:
		note = otherTurnNote // whether the words differ is known to the other turn alone
	case s.replayed && s.reworded:
		note = "This call repeats an earlier one that already succeeded; it was not run again, " +
			"and its other arguments were ignored. The recorded result: "
	}
	verdict := f.judge(c)
	c.Terminal = verdict != ""
	var images []*feed.Image
	text := told(c)
	if f.Opened.Rules >= 3 && c.Outcome == event.OutcomeSucceeded {
		images, text = pictures(text)
	}
	c.Told = note + text + verdict
	f.emitResult(c, images)
	for _, e := range f.step().Calls {
		if e.leader == c {
			f.share(e)
		}
	}
}

// share gives a call the outcome of the equal call that it shares.
func (f *folder) share(c *Call) {
	l := c.leader
	c.Outcome, c.ErrorClass, c.Result, c.Replayed = l.Outcome, l.ErrorClass, l.Result, true
	c.Told, c.Doubted = l.Told, l.Doubted
	if l.Outcome == event.OutcomeSucceeded && l.canonical != c.canonical {
		c.Told = "This call is the same effect as another call of this reply; it was not run a second time. The result: " + l.Told
	}
	f.emitResult(c, nil) // what there is to see has been shown
}

func (f *folder) emitResult(c *Call, images []*feed.Image) {
	st := f.step()
	f.emit(st.N, st.Committed, &feed.ToolResult{Call: c.ID, Tool: c.Tool, Outcome: string(c.Outcome),
		ErrorClass: c.ErrorClass, Replayed: c.Replayed, Result: c.Result})
	if t, ok := f.tool(c.Tool); ok && t.Card != "" && c.Outcome == event.OutcomeSucceeded {
		f.emit(st.N, st.Committed, &feed.Card{Call: c.ID, Card: t.Card, Data: c.Result})
	}
	for _, image := range images {
		image.Call = c.ID
		f.emit(st.N, st.Committed, image)
	}
}

func (f *folder) resolve(c *Call, b *event.CallSettled) {
	c.Outcome, c.ErrorClass, c.Result = b.Outcome, b.ErrorClass, b.Result
	c.ResolvedBy, c.Why = b.By, b.Why
	for _, st := range f.Steps {
		for _, e := range st.Calls {
			if e.leader == c {
				e.Outcome, e.ErrorClass, e.Result = b.Outcome, b.ErrorClass, b.Result
				e.ResolvedBy, e.Why = b.By, b.Why
			}
		}
	}
}

// otherTurnNote goes before a result that may be of another turn.
const otherTurnNote = "This effect was already there, so it was not run again; arguments of this call that do not " +
	"name the effect were ignored. The recorded result: "

// unknownText is what the model is told of an effect that may have happened. It must
// claim neither more nor less (I7, I11).
const unknownText = "The outcome of this call is unknown: the request may have gone through. " +
	"Do not repeat it. Tell the user that it is being confirmed."

// told is the result text for the model: never more than is known (I11).
func told(c *Call) string {
	switch c.Outcome {
	case event.OutcomeSucceeded:
		return c.Result
	case event.OutcomeUnknown:
		return unknownText
	case event.OutcomeNotRun:
		return "This call was withdrawn before it began; it did not run."
	case event.OutcomeRefused:
		return "This call was refused and did not run (" + c.ErrorClass + "): " + c.Result
	}
	return "This call failed and had no effect (" + c.ErrorClass + "): " + c.Result
}
