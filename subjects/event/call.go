package event

// Outcome is the recorded end of an effect.
type Outcome string

// The outcomes. Succeeded, failed, refused and not_run are known; unknown may still
// be resolved, and only to what is known (I7).
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"  // definite: it did not happen
	OutcomeUnknown   Outcome = "unknown" // it may have happened
	OutcomeRefused   Outcome = "refused" // bad arguments, not allowed, loop cap
	OutcomeNotRun    Outcome = "not_run" // withdrawn before it ran
)

// Known reports whether an outcome is final.
func (o Outcome) Known() bool { return o != "" && o != OutcomeUnknown }

// CallSettled is the outcome of a call.
type CallSettled struct {
	Call       string  `json:"call"` // "<step>.<index>"
	Key        string  `json:"key"`
	Outcome    Outcome `json:"outcome"`
	ErrorClass string  `json:"error_class,omitzero"`
	Result     string  `json:"result,omitzero"` // the tool's answer as it came; for refused and failed, why
	// Replayed: the result is of an earlier run of this key.
	Replayed bool   `json:"replayed,omitzero"`
	By       string `json:"by,omitzero"`  // who resolved it, if a person or a verify did
	Why      string `json:"why,omitzero"` // what that person said
}

// Kind is "call.settled".
func (*CallSettled) Kind() string { return "call.settled" }

// CallProgress says that a call is still running.
type CallProgress struct {
	Call    string `json:"call"`
	Message string `json:"message,omitzero"`
	Percent int    `json:"percent,omitzero"`
}

// Kind is "call.progress".
func (*CallProgress) Kind() string { return "call.progress" }

// CallApproved lets a parked call run. Digest is the SHA-256 (hex) of the argument
// text that the approver saw; another text is not approved, and from rules 2 on neither
// is one that is not named.
type CallApproved struct {
	Call   string `json:"call"`
	Digest string `json:"digest,omitzero"`
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Kind is "call.approved".
func (*CallApproved) Kind() string { return "call.approved" }

// CallDenied refuses a parked call.
type CallDenied struct {
	Call   string `json:"call"`
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Kind is "call.denied".
func (*CallDenied) Kind() string { return "call.denied" }

// ApprovalExpired says that nobody has decided about a parked call within the time that
// its tool allows, on the owner's clock, counted from the event at Seen.
type ApprovalExpired struct {
	Call string `json:"call"`
	Seen uint64 `json:"seen"`
}

// Kind is "approval.expired".
func (*ApprovalExpired) Kind() string { return "approval.expired" }
