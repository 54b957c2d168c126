package fold

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// approvalTimeoutMS is how long a call waits for a person if its tool does not say.
const approvalTimeoutMS = 72 * 3600 * 1000

// ArgsDigest names the exact argument text that an approval is for.
func ArgsDigest(args string) string {
	sum := sha256.Sum256([]byte(args))
	return hex.EncodeToString(sum[:])
}

// Parked reports whether the call waits for a person.
func (c *Call) Parked() bool { return c.parked && !c.Settled() }

// park has a call wait for a person. The item is read by whoever follows the turn, so
// that declared redactions hold in it; the approver reads the call itself
// (docs/effects.md, "Approval").
func (f *folder) park(c *Call, t event.Tool) {
	c.parked, c.parkedMS = true, f.nowMS
	b := &feed.ApprovalRequest{Call: c.ID, Tool: c.Tool, Args: effect.Redact(c.Args, t.Redact), Key: c.Key, Digest: ArgsDigest(c.Args)}
	if f.Opened.Rules >= 2 {
		b.TimeoutMS = approvalTimeout(t)
	}
	f.emit(f.step().N, f.step().Committed, b)
}

func approvalTimeout(t event.Tool) int64 {
	if t.ApprovalTimeoutMS > 0 {
		return t.ApprovalTimeoutMS
	}
	return approvalTimeoutMS
}

// Approval is what a person decides by: the arguments exactly as they would run.
type Approval struct {
	Turn     string   `json:"turn"`
	Call     string   `json:"call"`
	Tool     string   `json:"tool"`
	About    string   `json:"description,omitzero"`
	Effect   string   `json:"effect"`
	Args     string   `json:"args"`              // as they would run, nothing redacted
	Redacted []string `json:"redacted,omitzero"` // what others are not shown
	Key      string   `json:"key"`
	Digest   string   `json:"digest"` // of Args; an approval must name it
	// ExpiresMS is when the call is refused if nobody decides, in milliseconds since
	// 1970; 0 = never.
	ExpiresMS int64 `json:"expires_ms,omitzero"`
}

// Approval describes a call that waits for a person; false if it does not.
func (s *State) Approval(call string) (Approval, bool) {
	c := s.Call(call)
	if c == nil || !c.Parked() || s.Over() {
		return Approval{}, false
	}
	t, _ := s.tool(c.Tool)
	a := Approval{Turn: s.Turn.ID, Call: c.ID, Tool: c.Tool, About: t.Description, Effect: t.Effect, Args: c.Args,
		Redacted: t.Redact, Key: c.Key, Digest: ArgsDigest(c.Args)}
	if s.Opened.Rules >= 2 && c.parkedMS > 0 {
		a.ExpiresMS = c.parkedMS + approvalTimeout(t)
	}
	return a, true
}

// approved lets a parked call run. An approval is consumed once, and only for the
// arguments that were shown; from rules 2 on it must say which those were.
func (f *folder) approved(b *event.CallApproved) {
	c := f.State.Call(b.Call)
	named := b.Digest != "" || f.Opened.Rules < 2
	if f.Status != Running || c == nil || !c.Parked() || !named || b.Digest != "" && b.Digest != ArgsDigest(c.Args) {
		return
	}
	t, _ := f.tool(c.Tool)
	c.ApprovedBy = b.By
	f.run(c, t)
}

func (f *folder) denied(b *event.CallDenied) {
	why := "A person refused this call."
	if b.Reason != "" {
		why += " Reason: " + b.Reason
	}
	if c := f.State.Call(b.Call); c != nil && f.Status == Running && c.Parked() {
		f.settle(c, settlement{outcome: event.OutcomeRefused, class: "denied", result: why, by: b.By, why: b.Reason})
		f.advance()
	}
}

// approvalExpired refuses a call that nobody has decided about in time.
func (f *folder) approvalExpired(b *event.ApprovalExpired) {
	c := f.State.Call(b.Call)
	if f.Status != Running || c == nil || !c.Parked() || c.last > b.Seen {
		return
	}
	f.settle(c, settlement{outcome: event.OutcomeRefused, class: "approval_expired",
		result: "Nobody agreed to this call within the time allowed."})
	f.advance()
}

// onlyParked reports whether the turn waits for nothing but a person: some call is
// parked, and every other one of the step is settled or shares a parked one's outcome.
func (s *State) onlyParked() bool {
	st := s.step()
	if s.Status != Running || st == nil || st.Committed == 0 {
		return false
	}
	parked := false
	for _, c := range st.Calls {
		switch {
		case c.Settled():
		case c.parked:
			parked = true
		case c.leader == nil || !c.leader.parked:
			return false
		}
	}
	return parked
}

// clock takes the time of an event and counts how long the turn has waited for nothing
// but a person. Its deadline does not run then: a person may take days, and what the
// turn itself may take is still left when the answer comes. Time is the log's own, the
// same for every reader, and moves only forward.
func (f *folder) clock(atMS int64) {
	before := f.nowMS
	f.nowMS = max(f.nowMS, atMS)
	if before > 0 && f.onlyParked() {
		f.stoodMS += f.nowMS - before
	}
}
