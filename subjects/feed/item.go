package feed

import "github.com/turnfold/turnfold/subjects"

// item is embedded by everything that renderers see.
type item struct{}

func (item) Lane() subjects.Lane { return subjects.LaneFeed }

// TurnAccepted is the first item of every feed: the turn is stored.
type TurnAccepted struct{ item }

// Type is "turn_accepted".
func (*TurnAccepted) Type() string { return "turn_accepted" }

// TextDelta is one piece of answer text: append it to the text of its step.
type TextDelta struct {
	item
	Text string `json:"text"`
}

// Type is "text_delta".
func (*TextDelta) Type() string { return "text_delta" }

// ReasoningDelta is one piece of reasoning. It is not answer text.
type ReasoningDelta struct {
	item
	Text string `json:"text"`
}

// Type is "reasoning_delta".
func (*ReasoningDelta) Type() string { return "reasoning_delta" }

// Reset says: drop everything shown of this item's step; step 0 means of the whole
// turn. It comes once for every abandoned attempt that another follows (I3).
type Reset struct {
	item
	Abandoned int    `json:"abandoned"` // number of the abandoned attempt; 0 for the whole turn
	Reason    string `json:"reason"`    // class of the failure
}

// Type is "reset".
func (*Reset) Type() string { return "reset" }

// ToolStart says which tool runs. Args is the argument text as it came, as a string,
// so that no reader rounds its numbers; declared redactions are applied.
type ToolStart struct {
	item
	Call string `json:"call"` // "<step>.<index>"
	Tool string `json:"tool"`
	Args string `json:"args"`
	Key  string `json:"key"` // effect key
}

// Type is "tool_start".
func (*ToolStart) Type() string { return "tool_start" }

// ClientCall is a call that the client is to run itself: its turn offered the client's
// own tools, and the step that asked for it is the turn's last. It comes once the
// attempt has won, and is followed by completion with the finish tool_calls.
type ClientCall struct {
	item
	Call       string `json:"call"`
	Tool       string `json:"tool"`
	Args       string `json:"args"`
	ProviderID string `json:"provider_id,omitzero"` // unique in the conversation
}

// Type is "client_call".
func (*ClientCall) Type() string { return "client_call" }

// ToolProgress says that a tool is still running.
type ToolProgress struct {
	item
	Call    string `json:"call"`
	Tool    string `json:"tool"`
	Message string `json:"message,omitzero"`
	Percent int    `json:"percent,omitzero"`
}

// Type is "tool_progress".
func (*ToolProgress) Type() string { return "tool_progress" }

// ToolResult is the one outcome of a call.
type ToolResult struct {
	item
	Call       string `json:"call"`
	Tool       string `json:"tool"`
	Outcome    string `json:"outcome"` // succeeded, failed, unknown, refused, not_run
	ErrorClass string `json:"error_class,omitzero"`
	Replayed   bool   `json:"replayed"` // the result of an earlier run of the same key
	Result     string `json:"result"`   // the tool's answer as it came, as a string
}

// Type is "tool_result".
func (*ToolResult) Type() string { return "tool_result" }

// Image is a picture that a tool's result carries. One of URL and Data is set.
type Image struct {
	item
	Call string `json:"call"`
	Mime string `json:"mime"`
	URL  string `json:"url,omitzero"`
	Data string `json:"data,omitzero"` // base64
}

// Type is "image".
func (*Image) Type() string { return "image" }

// Card is a result that its tool declares to be shown as a card of some kind.
type Card struct {
	item
	Call string `json:"call"`
	Card string `json:"kind"`
	Data string `json:"data"` // the result's JSON text
}

// Type is "card".
func (*Card) Type() string { return "card" }

// ApprovalRequest says that a call waits for a person. Digest names the exact
// argument text that an approval is for.
type ApprovalRequest struct {
	item
	Call   string `json:"call"`
	Tool   string `json:"tool"`
	Args   string `json:"args"`
	Key    string `json:"key"`
	Digest string `json:"digest"`
	// TimeoutMS is how long it waits, from the item's event on; then it is refused.
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
}

// Type is "approval_request".
func (*ApprovalRequest) Type() string { return "approval_request" }

// Tokens counts what model requests used.
type Tokens struct {
	Input     int64 `json:"input_tokens"`
	Output    int64 `json:"output_tokens"`
	CacheRead int64 `json:"cache_read_tokens"`
	Reasoning int64 `json:"reasoning_tokens"`
	// Partial: the provider's final count of at least one attempt is missing.
	Partial bool `json:"partial"`
	// Cost in billionths of the currency's unit, as far as counts and prices are known.
	// Without a currency there was no price.
	Cost     int64  `json:"cost_nanos,omitzero"`
	Currency string `json:"currency,omitzero"`
}

// Totals adds up a turn's requests, those of abandoned attempts included: they are
// billed as well. Wasted is the part of the attempts that did not win.
type Totals struct {
	Tokens       `json:",inline"`
	WastedInput  int64 `json:"wasted_input_tokens,omitzero"`
	WastedOutput int64 `json:"wasted_output_tokens,omitzero"`
	WastedCost   int64 `json:"wasted_cost_nanos,omitzero"`
	// Unpriced counts the requests that the cost leaves out for want of a price.
	Unpriced int `json:"unpriced,omitzero"`
}

// Usage tells what one attempt used, and how it ended.
type Usage struct {
	item
	Tokens    `json:",inline"`
	Source    string `json:"source,omitzero"` // reported, partial, unknown
	Outcome   string `json:"outcome"`         // finished, failed, lost, cancelled, salvaged
	Class     string `json:"class,omitzero"`
	RequestID string `json:"request_id,omitzero"`
}

// Type is "usage".
func (*Usage) Type() string { return "usage" }

// Completion ends a turn that produced something. Text is the committed text of all
// steps, joined without a separator: what a client that follows the feed shows.
type Completion struct {
	item
	Text     string `json:"text"`
	Finish   string `json:"finish"`   // stop, cancelled, filtered, loop, deadline, a cap, or the class of the last failure
	Salvaged bool   `json:"salvaged"` // not the model's finished answer, but all that there is
	Attempts int    `json:"attempts"` // of the whole turn = provider requests made
	Usage    Totals `json:"usage"`
	// Message says to people why a salvaged text is all that there is, and which cap was
	// reached.
	Message string `json:"message,omitzero"`
}

// Type is "completion".
func (*Completion) Type() string { return "completion" }

// Error ends a turn that produced nothing to show.
type Error struct {
	item
	Message  string `json:"message"` // for people
	Class    string `json:"class"`
	Attempts int    `json:"attempts"`
	Usage    Totals `json:"usage"`
}

// Type is "error".
func (*Error) Type() string { return "error" }

// MessageSaved follows completion once the message is in the message store (I13).
type MessageSaved struct {
	item
	MessageID string `json:"message_id"`
}

// Type is "message_saved".
func (*MessageSaved) Type() string { return "message_saved" }

// Ping carries nothing but the news that the connection lives. It is never stored.
type Ping struct{ item }

// Type is "ping".
func (*Ping) Type() string { return "ping" }
