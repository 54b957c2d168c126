package event

// TurnOpened is the first fact of a turn. It pins everything that the fold needs to
// decide, so that a change of configuration never changes a running turn or an audit.
type TurnOpened struct {
	At string `json:"at"` // wall clock of the gateway, RFC 3339, UTC; for display and the deadline
	// AtMS is the same as a whole number, in milliseconds since 1970: what windows of
	// keys are counted from.
	AtMS int64  `json:"at_ms,omitzero"`
	By   string `json:"by,omitzero"`
	// Conversation is what the turn belongs to, as the caller named it; keys of the
	// scope conversation hold it.
	Conversation string    `json:"conversation,omitzero"`
	Digest       string    `json:"digest"` // of the request's body: the same turn posted again must have the same
	System       string    `json:"system,omitzero"`
	Messages     []Message `json:"messages"`
	Route        string    `json:"route"`
	Entries      []Entry   `json:"entries"` // attempt k uses entry k; the last one repeats
	Tools        []Tool    `json:"tools,omitzero"`
	Policy       Policy    `json:"policy"`
	// ClientTools: the tools are the client's. Calls of them are handed over instead of
	// being run, and the step that makes any is the turn's last.
	ClientTools bool `json:"client_tools,omitzero"`
	// ToolChoice is auto if empty, or none or required.
	ToolChoice string `json:"tool_choice,omitzero"`
	// Params is a JSON object whose members go into every request of the turn, for
	// providers whose API has them.
	Params string `json:"params,omitzero"`
	// Rules is the version of the fold's rules that the turn is folded by, to its end and
	// in every audit. Whoever opens a turn writes event.Rules.
	Rules int `json:"rules,omitzero"`
}

// Rules is the newest version of the fold's rules. 1: the same rows over and over are a
// loop, usage says its source and what was wasted, a salvaged message says why. 2: an
// approval names what was shown, and may expire; the deadline stands still while only a
// person is waited for; a command names the identity that its key stands for; a turn may
// offer the client's own tools. 3: the pictures of a result are shown, and the model is
// told of them.
const Rules = 3

// Kind is "turn.opened".
func (*TurnOpened) Kind() string { return "turn.opened" }

// Message is one message of the conversation that the turn answers.
type Message struct {
	Role    string `json:"role"` // system, user, assistant; tool in conversations with the client's tools
	Content string `json:"content"`
	// Calls are those that an assistant message made, CallID is the call that a tool
	// message answers.
	Calls  []MessageCall `json:"calls,omitzero"`
	CallID string        `json:"call_id,omitzero"`
}

// MessageCall is a call of the conversation that the turn answers.
type MessageCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"` // as it came
}

// Entry is one entry of a route: which provider serves an attempt, with which budget.
type Entry struct {
	Provider        string `json:"provider"` // name in the configuration
	API             string `json:"api"`
	Model           string `json:"model"`
	MaxOutputTokens int    `json:"max_output_tokens,omitzero"`
	Price           Price  `json:"price,omitzero"`
}

// Price is what an entry's tokens cost, in trillionths of the currency's unit (picos)
// per token: a price per million tokens is exact in them up to its sixth decimal.
type Price struct {
	Currency  string `json:"currency,omitzero"` // empty: no price is known
	Input     int64  `json:"input_picos,omitzero"`
	CacheRead int64  `json:"cache_read_picos,omitzero"`
	Output    int64  `json:"output_picos,omitzero"`
}

// Policy is the part of the configuration that the fold decides by. Durations are in
// milliseconds.
type Policy struct {
	AttemptsPerStep int    `json:"attempts_per_step"`
	AttemptsPerTurn int    `json:"attempts_per_turn"`
	BackoffBaseMS   int64  `json:"backoff_base_ms"`
	BackoffMaxMS    int64  `json:"backoff_max_ms"`
	RetryAfterMaxMS int64  `json:"retry_after_max_ms"` // cap of a wait that a server asks for
	AfterText       string `json:"after_text"`         // reset, or salvage: never retry once text was shown
	CallsPerTurn    int    `json:"calls_per_turn"`
	// TokensPerTurn caps the input and output tokens that the turn's attempts have
	// reported; no further attempt is made once it is reached. 0 = no cap.
	TokensPerTurn int64 `json:"tokens_per_turn,omitzero"`
	DeadlineMS    int64 `json:"deadline_ms"`
	AliveMS       int64 `json:"alive_ms"`    // a quiet attempt says so this often; lost after three
	PatienceMS    int64 `json:"patience_ms"` // a command that no event answers for so long is issued again
}

// Tool is a declared tool, as pinned.
type Tool struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	Parameters  string   `json:"parameters,omitzero"` // JSON Schema, as text; empty = no parameters
	Effect      string   `json:"effect"`              // read, keyed, once
	IdentityAll bool     `json:"identity_all,omitzero"`
	Identity    []string `json:"identity,omitzero"`
	Repeat      string   `json:"repeat"` // never, per_step, per_call
	TimeoutMS   int64    `json:"timeout_ms"`
	Cap         int      `json:"cap"`
	Rows        string   `json:"rows,omitzero"`
	Approval    string   `json:"approval,omitzero"` // never, always
	// ApprovalTimeoutMS is how long a call may wait for a person; 0 = three days.
	ApprovalTimeoutMS int64 `json:"approval_timeout_ms,omitzero"`
	// Scope is what equal calls are one effect within: turn (or empty), conversation,
	// tenant; WindowMS divides it into stretches of time, 0 = none.
	Scope    string   `json:"scope,omitzero"`
	WindowMS int64    `json:"window_ms,omitzero"`
	Redact   []string `json:"redact,omitzero"`
	Card     string   `json:"card,omitzero"`
}

// TurnCancelled asks for the end of the turn.
type TurnCancelled struct {
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Kind is "turn.cancelled".
func (*TurnCancelled) Kind() string { return "turn.cancelled" }

// TurnExpired says that the turn's deadline has passed on the owner's clock.
type TurnExpired struct{}

// Kind is "turn.expired".
func (*TurnExpired) Kind() string { return "turn.expired" }

// MessageSaved says that the finished message is in the message store.
type MessageSaved struct {
	MessageID string `json:"message_id"`
}

// Kind is "message.saved".
func (*MessageSaved) Kind() string { return "message.saved" }

// TurnErased says that the content of the turn was taken away on purpose. It is what
// remains of it on EV: the id stays taken, and readers are told why there is nothing.
type TurnErased struct {
	At     string `json:"at,omitzero"` // RFC 3339, UTC
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Kind is "turn.erased".
func (*TurnErased) Kind() string { return "turn.erased" }
