package fold

import "github.com/turnfold/turnfold/subjects/feed"

// Pending lists the commands that the turn waits for, issued anew as of the last event.
// A process that starts uses it to go on at once instead of waiting for a redelivery.
func (s *State) Pending() []feed.Output {
	if s.Opened == nil || s.Over() {
		return nil
	}
	quiet := *s
	f := &folder{State: &quiet, seq: s.Seq}
	st, a := s.step(), s.attempt()
	if a != nil && a.Outcome == "" && a.Started == nil {
		f.emitStep(st, a, a.DelayMS)
	}
	if st == nil {
		return f.out
	}
	for _, c := range st.Calls {
		if c.Settled() || c.parked || c.leader != nil {
			continue
		}
		t, _ := s.tool(c.Tool)
		last := c.last // emitting a command counts as an event of its call; looking does not
		if s.Status == Ending {
			f.withdraw(c)
		} else {
			f.emitCall(c, t)
		}
		c.last = last
	}
	return f.out
}

// Running is the latest attempt of the current step while it has no outcome: commanded
// and, if Started is set, opened. Nil if there is none.
func (s *State) Running() (step int, a *Attempt) {
	a = s.attempt()
	if a == nil || a.Outcome != "" || s.Over() {
		return 0, nil
	}
	return s.step().N, a
}
