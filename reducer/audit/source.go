package audit

import (
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/event"
)

// place is an attempt of a step.
type place struct{ step, attempt int }

// opening is an attempt as the events tell of it, without the fold.
type opening struct {
	seq      uint64
	token    string
	text     []byte
	next     int
	gap      bool
	finished bool
	unsent   bool
}

// source looks at the events as a stranger would who has no fold: which attempts were
// opened, and what each one said.
type source struct {
	attempts map[place]*opening
	found    *offences
}

func (s *source) see(e event.Event, before fold.Status) {
	if started, ok := e.Body.(*event.AttemptStarted); ok {
		s.started(e.Seq, started, before)
		return
	}
	streamed, ok := e.Body.(event.Streamed)
	if !ok {
		return
	}
	at := streamed.Place()
	o := s.attempts[place{at.Step, at.Attempt}]
	if o == nil || o.token != at.Token || at.Ord < o.next || o.finished {
		return // of another opening, or a repeat
	}
	if at.Ord > o.next {
		o.gap = true
		return
	}
	o.next++
	switch b := e.Body.(type) {
	case *event.TextDelta:
		o.text = append(o.text, b.Text...)
	case *event.AttemptFinished:
		o.finished = true
	case *event.AttemptFailed:
		o.unsent = b.Unsent && b.Ord == 0
	}
}

// started notes an opening. An attempt is opened by compare-and-set, once: a second
// opening would be a second request (I10).
func (s *source) started(seq uint64, b *event.AttemptStarted, before fold.Status) {
	if before != fold.Running || b.Token == "" {
		return
	}
	p := place{b.Step, b.Attempt}
	if o := s.attempts[p]; o != nil {
		if o.token != b.Token {
			s.found.add("I10", streamEV, seq, "attempt %d of step %d is opened a second time", b.Attempt, b.Step)
		}
		return
	}
	if s.attempts == nil {
		s.attempts = map[place]*opening{}
	}
	s.attempts[p] = &opening{seq: seq, token: b.Token}
}

// judge holds the fold's account of the turn against the stranger's.
func (s *source) judge(state *fold.State) {
	for _, st := range state.Steps {
		for _, a := range st.Attempts {
			o := s.attempts[place{st.N, a.N}]
			if (o == nil) != (a.Started == nil) || o != nil && o.token != a.Started.Token {
				s.found.add("I1", streamEV, state.Seq, "attempt %d of step %d is not told by one opening", a.N, st.N)
			}
		}
		if st.Committed == 0 {
			continue
		}
		o := s.attempts[place{st.N, st.Committed}]
		switch {
		case o == nil:
			s.found.add("I2", streamEV, state.Seq, "step %d is committed to an attempt that nobody opened", st.N)
		case o.gap:
			s.found.add("I1", streamEV, o.seq, "the winner of step %d has a gap", st.N)
		case !o.finished:
			s.found.add("I5", streamEV, o.seq, "the winner of step %d never finished", st.N)
		case string(o.text) != st.Text:
			s.found.add("I2", streamEV, o.seq, "the winner of step %d said %.80q, the step says %.80q", st.N, o.text, st.Text)
		}
	}
}
