package event

// AttemptStarted opens an attempt. It is written by compare-and-set on the turn's
// subject, so that an attempt is opened at most once (docs/architecture.md, "Opening").
type AttemptStarted struct {
	Step        int    `json:"step"`
	Attempt     int    `json:"attempt"`
	Token       string `json:"token"` // fresh for this opening; the events of the stream repeat it
	Provider    string `json:"provider"`
	API         string `json:"api"`
	Model       string `json:"model"`
	Instance    string `json:"instance"`    // the streamer's host identity, kept across restarts
	Incarnation string `json:"incarnation"` // this process
}

// Kind is "attempt.started".
func (*AttemptStarted) Kind() string { return "attempt.started" }

// TextDelta is one piece of an attempt's answer text.
type TextDelta struct {
	At   `json:",inline"`
	Text string `json:"text"`
}

// Kind is "text.delta".
func (*TextDelta) Kind() string { return "text.delta" }

// ReasoningDelta is one piece of an attempt's reasoning, which is never answer text.
type ReasoningDelta struct {
	At   `json:",inline"`
	Text string `json:"text"`
}

// Kind is "reasoning.delta".
func (*ReasoningDelta) Kind() string { return "reasoning.delta" }

// CallDelta is one piece of a tool call. A call is identified by its place in the
// attempt; the provider's id is a label (cases R4).
type CallDelta struct {
	At    `json:",inline"`
	Index int    `json:"index"`         // place in the attempt, 0-based, in order of opening
	ID    string `json:"id,omitzero"`   // set once
	Name  string `json:"name,omitzero"` // set once
	Args  string `json:"args,omitzero"` // next piece of the argument text, as it came
	// Opaque goes back to the provider with this call, byte for byte.
	Opaque string `json:"opaque,omitzero"`
}

// Kind is "call.delta".
func (*CallDelta) Kind() string { return "call.delta" }

// OpaqueBlock is provider content that goes back byte for byte in later requests to
// the same API, and means nothing here (thinking signatures, encrypted reasoning).
type OpaqueBlock struct {
	At   `json:",inline"`
	API  string `json:"api"`
	Data string `json:"data"` // the block's JSON text
}

// Kind is "opaque.block".
func (*OpaqueBlock) Kind() string { return "opaque.block" }

// AttemptAlive says that a quiet stream is still open. It has no ord: nothing is
// lost when it is.
type AttemptAlive struct {
	Step    int    `json:"step"`
	Attempt int    `json:"attempt"`
	Token   string `json:"token"`
}

// Kind is "attempt.alive".
func (*AttemptAlive) Kind() string { return "attempt.alive" }

// Usage is a provider's last snapshot of what an attempt used, in tokens.
type Usage struct {
	Input     int64 `json:"input_tokens,omitzero"`
	Output    int64 `json:"output_tokens,omitzero"`
	CacheRead int64 `json:"cache_read_tokens,omitzero"`
	Reasoning int64 `json:"reasoning_tokens,omitzero"`
	// Partial: the stream ended before the provider's final count, or it gave none.
	Partial bool `json:"partial,omitzero"`
}

// Source says what is known of a usage: reported in full, in part, or not at all.
type Source string

// The sources of a usage.
const (
	SourceReported Source = "reported"
	SourcePartial  Source = "partial"
	SourceUnknown  Source = "unknown" // no count ever came; none is guessed
)

// Source follows from the counts alone.
func (u Usage) Source() Source {
	switch {
	case u.Input == 0 && u.Output == 0 && u.CacheRead == 0 && u.Reasoning == 0:
		return SourceUnknown
	case u.Partial:
		return SourcePartial
	}
	return SourceReported
}

// AttemptFinished ends a stream that is whole (I4).
type AttemptFinished struct {
	At        `json:",inline"`
	Finish    string `json:"finish"` // the provider's own word
	Usage     Usage  `json:"usage,omitzero"`
	RequestID string `json:"request_id,omitzero"`
}

// Kind is "attempt.finished".
func (*AttemptFinished) Kind() string { return "attempt.finished" }

// Class says why an attempt did not finish.
type Class string

// The classes of a failed attempt.
const (
	Connection     Class = "connection"
	Stall          Class = "stall"
	Timeout        Class = "timeout"
	ServerError    Class = "server_error"
	Overloaded     Class = "overloaded"
	RateLimited    Class = "rate_limited"
	Truncated      Class = "truncated"
	Filtered       Class = "filtered"
	MalformedCall  Class = "malformed_call"
	InvalidRequest Class = "invalid_request"
	Auth           Class = "auth"
	ContextLength  Class = "context_length"
	UnknownFinish  Class = "unknown_finish"
	Lost           Class = "lost"
	Cancelled      Class = "cancelled"
	Budget         Class = "budget" // the fleet's share of retries is used up: the request was not made
)

// Classes lists them in the order of the documentation.
func Classes() []Class {
	return []Class{Connection, Stall, Timeout, ServerError, Overloaded, RateLimited, Truncated, Filtered, MalformedCall,
		InvalidRequest, Auth, ContextLength, UnknownFinish, Lost, Cancelled, Budget}
}

// AttemptFailed ends a stream that is not whole.
type AttemptFailed struct {
	At     `json:",inline"`
	Class  Class  `json:"class"`
	Detail string `json:"detail,omitzero"` // for people; never an argument or a key
	// Length: cut by the output limit, so that the same budget would be cut again.
	Length bool `json:"length,omitzero"`
	// Retryable: another attempt may end otherwise, as far as the provider tells.
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms,omitzero"` // the provider asks to wait so long
	Status       int    `json:"status,omitzero"`         // HTTP status, if there was an answer
	Usage        Usage  `json:"usage,omitzero"`
	RequestID    string `json:"request_id,omitzero"`
	// Unsent: no HTTP request was made, so the attempt is none of the turn's requests.
	Unsent bool `json:"unsent,omitzero"`
}

// Kind is "attempt.failed".
func (*AttemptFailed) Kind() string { return "attempt.failed" }

// AttemptLost says that whoever opened the attempt is gone. The owner's timer or a
// restarted streamer writes it.
type AttemptLost struct {
	Step    int    `json:"step"`
	Attempt int    `json:"attempt"`
	Token   string `json:"token"`
	// Seen is the last sequence of this attempt that the writer knew. A later event of
	// the attempt means that it lives; then the fold ignores the loss. Zero: the writer
	// is the opener's own successor and needs no such proof.
	Seen   uint64 `json:"seen,omitzero"`
	Reason string `json:"reason"`
}

// Kind is "attempt.lost".
func (*AttemptLost) Kind() string { return "attempt.lost" }

// CommandOverdue says that a command was not answered within its patience; the fold
// issues it again (docs/architecture.md, "Patience").
type CommandOverdue struct {
	Step    int    `json:"step"`
	Attempt int    `json:"attempt,omitzero"` // set for a step command
	Call    string `json:"call,omitzero"`    // set for a call command
	Seen    uint64 `json:"seen"`             // last sequence of this attempt or call that the writer knew
}

// Kind is "command.overdue".
func (*CommandOverdue) Kind() string { return "command.overdue" }
