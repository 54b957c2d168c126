package fold

import (
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// nextStep commands the first attempt of the next step.
func (f *folder) nextStep() {
	f.Steps = append(f.Steps, &Step{N: len(f.Steps) + 1, ToolsOff: f.ToolsOff})
	if f.attempts >= f.Opened.Policy.AttemptsPerTurn {
		f.finish("attempts_per_turn", "The budget of model requests for this turn is used up.")
		return
	}
	if f.outOfTokens() {
		f.finish(tokensPerTurn, tokensApology)
		return
	}
	f.command(0)
}

// command asks for the next attempt of the current step. Attempt k uses entry k of
// the route; the last entry repeats.
func (f *folder) command(delayMS int64) {
	st := f.step()
	n := len(st.Attempts) + 1
	a := &Attempt{N: n, Entry: f.entry(n), DelayMS: delayMS, In: f.seq, last: f.seq}
	st.Attempts = append(st.Attempts, a)
	f.attempts++
	f.emitStep(st, a, delayMS)
}

func (f *folder) emitStep(st *Step, a *Attempt, delayMS int64) {
	f.emit(st.N, a.N, &feed.StepCommand{
		V: 1, In: a.In, DelayMS: delayMS, Provider: a.Entry.Provider, API: a.Entry.API,
		Model: a.Entry.Model, MaxOutputTokens: a.Entry.MaxOutputTokens, Tools: !st.ToolsOff,
	})
}

func (f *folder) entry(attempt int) event.Entry {
	return f.Opened.Entries[min(attempt, len(f.Opened.Entries))-1]
}

func (f *folder) attemptStarted(b *event.AttemptStarted) {
	a := f.attempt()
	if f.Status != Running || a == nil || a.Outcome != "" || a.Started != nil ||
		b.Step != f.step().N || b.Attempt != a.N || b.Token == "" {
		return // a repeat, or an opening that came too late
	}
	a.Started = b
	a.last = f.seq
}

// current finds the open attempt that a streamed event belongs to and takes the
// event's place in it. Repeats and strangers give nil; a gap means that a part of the
// stream is gone, so the attempt is closed as lost (I1).
func (f *folder) current(at event.At) *Attempt {
	a := f.attempt()
	if a == nil || !a.open() || at.Step != f.step().N || at.Attempt != a.N || at.Token != a.Started.Token {
		return nil
	}
	if at.Ord < a.next {
		return nil
	}
	if at.Ord > a.next {
		f.lose(a, "a part of the stream is missing")
		return nil
	}
	a.next++
	a.last = f.seq
	return a
}

func (f *folder) text(b *event.TextDelta) {
	a := f.current(b.At)
	if a == nil || b.Text == "" {
		return
	}
	if a.bulk += spelled(b.Text); f.bulk+a.bulk > bulkBytesMax {
		f.overflow(a, "the answer")
		return
	}
	if n := len(a.pieces); n > 0 && a.pieces[n-1].text != nil {
		a.pieces[n-1].text = append(a.pieces[n-1].text, b.Text...)
	} else {
		a.pieces = append(a.pieces, piece{text: []byte(b.Text)})
	}
	a.textLen += len(b.Text)
	f.emit(b.Step, b.Attempt, &feed.TextDelta{Text: b.Text})
}

func (f *folder) reasoning(b *event.ReasoningDelta) {
	if a := f.current(b.At); a != nil && b.Text != "" {
		f.emit(b.Step, b.Attempt, &feed.ReasoningDelta{Text: b.Text})
	}
}

func (f *folder) opaque(b *event.OpaqueBlock) {
	if a := f.current(b.At); a != nil {
		a.pieces = append(a.pieces, piece{opaque: b})
	}
}

func (f *folder) callDelta(b *event.CallDelta) {
	a := f.current(b.At)
	if a == nil {
		return
	}
	if b.Index < 0 || b.Index > len(a.slots) {
		f.lose(a, "a call's opening is missing")
		return
	}
	if b.Index == len(a.slots) {
		a.slots = append(a.slots, &slot{})
		a.pieces = append(a.pieces, piece{call: b.Index})
	}
	s := a.slots[b.Index]
	if s.id == "" {
		s.id = b.ID
	}
	if s.name == "" {
		s.name = b.Name
	}
	if s.opaque == "" {
		s.opaque = b.Opaque
	}
	if s.bulk += spelled(b.Args); s.bulk > bulkBytesMax {
		f.overflow(a, "the arguments of a call")
		return
	}
	s.args = append(s.args, b.Args...)
}

func (f *folder) alive(b *event.AttemptAlive) {
	a := f.attempt()
	if a != nil && a.open() && b.Step == f.step().N && b.Attempt == a.N && b.Token == a.Started.Token {
		a.last = f.seq
	}
}

// attemptFinished commits the step, unless the content does not bear out the word
// (I4): the streamer has looked, the fold decides.
func (f *folder) attemptFinished(b *event.AttemptFinished) {
	a := f.current(b.At)
	if a == nil {
		return
	}
	a.RequestID, a.Usage = b.RequestID, b.Usage
	if class, detail := a.fault(); class != "" {
		f.fail(a, AttemptFailed, failure{class: class, detail: detail, retryable: true})
		return
	}
	f.close(a, AttemptFinished, "", "")
	f.commit(a)
}

// fault says what keeps an attempt from being finished, by its content alone.
func (a *Attempt) fault() (event.Class, string) {
	for _, s := range a.slots {
		if s.name == "" {
			return event.MalformedCall, "a call has no name"
		}
		if _, err := effect.Canonical(string(s.args)); err != nil {
			return event.MalformedCall, "the arguments of " + s.name + " are not one JSON object"
		}
	}
	if len(a.slots) == 0 && a.textLen == 0 {
		return event.Truncated, "the reply is empty"
	}
	return "", ""
}

func (f *folder) attemptFailed(b *event.AttemptFailed) {
	a := f.current(b.At)
	if a == nil {
		return
	}
	a.RequestID, a.Usage = b.RequestID, b.Usage
	a.Unsent = b.Unsent && b.Ord == 0 // what has said something was asked
	class := b.Class
	if class == "" {
		class = event.UnknownFinish // every reset and every end says why
	}
	f.fail(a, AttemptFailed, failure{class, b.Detail, b.Length, b.Retryable, b.RetryAfterMS})
}

func (f *folder) attemptLost(b *event.AttemptLost) {
	a := f.attempt()
	if a == nil || !a.open() || b.Step != f.step().N || b.Attempt != a.N || b.Token != a.Started.Token {
		return
	}
	if b.Seen != 0 && a.last > b.Seen {
		return // it has spoken since
	}
	f.lose(a, b.Reason)
}

// lose gives an attempt up whose events are gone or have ceased. Whoever may still run
// it is told to stop: its tokens are billed and of no use any more.
func (f *folder) lose(a *Attempt, why string) {
	a.Usage.Partial = true
	f.emit(f.step().N, a.N, &feed.StepWithdraw{V: 1})
	f.fail(a, AttemptLost, failure{class: event.Lost, detail: why, retryable: true})
}

// close ends an attempt and tells what it used.
func (f *folder) close(a *Attempt, o AttemptOutcome, class event.Class, detail string) {
	a.Outcome, a.Class, a.Detail = o, class, detail
	if !a.requested() {
		return
	}
	b := &feed.Usage{Tokens: a.tokens(), Outcome: string(o), Class: string(class), RequestID: a.RequestID}
	if f.Opened.Rules >= 1 {
		b.Source = string(a.Usage.Source())
	}
	f.emit(f.step().N, a.N, b)
}
