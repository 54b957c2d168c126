package fold

import (
	"github.com/turnfold/turnfold/subjects/event"
)

// TimerKind says what silence a timer waits for.
type TimerKind string

// The kinds of timers.
const (
	TimerDeadline  TimerKind = "deadline"  // of the turn
	TimerUnopened  TimerKind = "unopened"  // a step command that nobody took
	TimerSilence   TimerKind = "silence"   // an open attempt without an event
	TimerUnsettled TimerKind = "unsettled" // a call command without an outcome
	TimerApproval  TimerKind = "approval"  // a call that waits for a person
	TimerUnsaved   TimerKind = "unsaved"   // a completion whose message is not stored yet
)

// Timer asks the owner of the turn for an event, should nothing happen for so long
// after the event at Seen. The fold itself knows no time.
type Timer struct {
	Kind    TimerKind
	Step    int
	Attempt int
	Call    string
	Token   string
	Seen    uint64
	AfterMS int64
	// SinceMS is when that event was stored, by the log's clock, for waits so long that
	// owners come and go meanwhile; 0: count from when the owner learned of it.
	SinceMS int64
}

// aliveMissed is how many signs of life an open attempt may miss before it counts as
// lost; one may be late, two unlucky.
const aliveMissed = 3

// callGraceMS is what an executor may take beyond a tool's timeout before its command
// is issued again: claiming, recording, and one takeover of a dead executor's lease.
const callGraceMS = 15_000

// patienceDoublings bounds the growth of patience for commands issued again and again.
const patienceDoublings = 6

// Timers lists what the turn waits for.
func (s *State) Timers() []Timer {
	var out []Timer
	if s.Opened == nil {
		return nil
	}
	p := s.Opened.Policy
	if s.Status == Completed && s.MessageID == "" {
		return []Timer{{Kind: TimerUnsaved}} // once: what comes after the end changes nothing about it
	}
	if s.Over() {
		return nil
	}
	if s.Opened.Rules < 2 {
		out = append(out, Timer{Kind: TimerDeadline, AfterMS: p.DeadlineMS, SinceMS: s.openedMS})
	} else if !s.onlyParked() {
		out = append(out, Timer{Kind: TimerDeadline, AfterMS: p.DeadlineMS + s.stoodMS, SinceMS: s.openedMS})
	}
	st, a := s.step(), s.attempt()
	if a != nil && a.Outcome == "" {
		t := Timer{Kind: TimerUnopened, Step: st.N, Attempt: a.N, Seen: a.last,
			AfterMS: a.DelayMS + p.PatienceMS<<min(a.reissued, patienceDoublings)}
		if a.open() {
			t.Kind, t.Token, t.AfterMS = TimerSilence, a.Started.Token, aliveMissed*p.AliveMS
		}
		return append(out, t)
	}
	if st == nil {
		return out
	}
	for _, c := range st.Calls {
		tool, _ := s.tool(c.Tool)
		if c.Parked() && s.Opened.Rules >= 2 {
			out = append(out, Timer{Kind: TimerApproval, Step: st.N, Call: c.ID, Seen: c.last,
				AfterMS: approvalTimeout(tool), SinceMS: c.parkedMS})
		}
		if c.Settled() || c.parked || c.leader != nil {
			continue
		}
		out = append(out, Timer{Kind: TimerUnsettled, Step: st.N, Call: c.ID, Seen: c.last,
			AfterMS: (tool.TimeoutMS + callGraceMS) << min(c.reissued, patienceDoublings)})
	}
	return out
}

// Fired is the event that a timer that ran out asks for; nil if the timer is a task of
// the owner rather than a fact.
func (t Timer) Fired() event.Body {
	switch t.Kind {
	case TimerDeadline:
		return &event.TurnExpired{}
	case TimerUnopened:
		return &event.CommandOverdue{Step: t.Step, Attempt: t.Attempt, Seen: t.Seen}
	case TimerSilence:
		return &event.AttemptLost{Step: t.Step, Attempt: t.Attempt, Token: t.Token, Seen: t.Seen,
			Reason: "no sign of life"}
	case TimerApproval:
		return &event.ApprovalExpired{Call: t.Call, Seen: t.Seen}
	case TimerUnsettled:
		return &event.CommandOverdue{Step: t.Step, Call: t.Call, Seen: t.Seen}
	}
	return nil
}

// overdue issues a command again, unless something has happened since the timer looked.
func (f *folder) overdue(b *event.CommandOverdue) {
	if f.Over() {
		return
	}
	if b.Call != "" {
		c := f.State.Call(b.Call)
		if c == nil || c.Settled() || c.parked || c.leader != nil || c.last > b.Seen {
			return
		}
		c.reissued++
		if f.Status == Ending {
			f.withdraw(c)
			return
		}
		t, _ := f.tool(c.Tool)
		f.emitCall(c, t)
		return
	}
	a := f.attempt()
	if a == nil || a.Outcome != "" || a.Started != nil || b.Step != f.step().N || b.Attempt != a.N || a.last > b.Seen {
		return
	}
	a.reissued++
	a.last = f.seq
	a.DelayMS = 0 // the wait is over
	f.emitStep(f.step(), a, 0)
}
