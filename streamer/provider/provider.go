// Package provider asks a model for one reply.
//
// Invariant: one attempt is one HTTP request, whatever happens to it (I10), and its
// end is decided by what came, never by a label (I4). So nothing here retries,
// redirects, splices or repairs, and whatever is not proved whole has failed.
//
// The package is the port: a request free of any API's shape, the doer that sends it,
// and the parts that every adapter needs. Each API's dialect is a package beside it.
package provider

import (
	"net/http"
	"time"

	"github.com/turnfold/turnfold/subjects/event"
)

// Request is one model request, free of any API's shape.
type Request struct {
	Model           string
	MaxOutputTokens int // 0 leaves it to the provider
	System          string
	Messages        []Message
	Tools           []Tool
	ToolChoice      string // "auto" (also when empty), "none" or "required"
	// Params is a JSON object of members that the conversation's client sets itself, for
	// APIs that have them; the adapter's own members win. Empty means none.
	Params string
}

// Message is one message of the conversation. Which members count depends on Role.
type Message struct {
	Role    string   // system, user, assistant, tool
	Text    string   // system, user
	Parts   []Part   // assistant, in the order they came
	Results []Result // tool: every result of one step, in call order (I11)
}

// Part is one piece of an assistant message. Exactly one member is set.
type Part struct {
	Text   string
	Opaque *Opaque
	Call   *Call
}

// Opaque is provider content that goes back byte for byte, and only to its own API.
type Opaque struct{ API, Data string }

// Call is a tool call of an earlier step.
type Call struct {
	ID     string // the provider's label; may be empty or repeated
	Name   string
	Args   string // the argument text as it came; blank means {}
	Opaque string // goes back with the call, byte for byte
}

// Result is what the model is told about a call.
type Result struct {
	ID, Name, Text string
	Error          bool
}

// Tool is a tool on offer.
type Tool struct {
	Name, Description string
	Parameters        string // JSON Schema text; empty means no parameters
}

// Endpoint is where and how to ask. A zero duration or size means the default.
type Endpoint struct {
	BaseURL string // such as https://host/v1; a query is kept
	Key     string
	Headers map[string]string

	// ConnectTimeout bounds name lookup, TCP and TLS. Default 10s.
	ConnectTimeout time.Duration
	// HeaderTimeout bounds the wait for the response header, and for the body of an
	// answer that is no stream. Default 2m: some providers hold the header back until
	// the first token.
	HeaderTimeout time.Duration
	// StallTimeout bounds the time without content. Comments, pings and empty events
	// are no content: they keep a dead generation's socket alive for ever. Default 60s.
	StallTimeout time.Duration
	// TotalTimeout bounds the attempt. Zero means no bound but the context's.
	TotalTimeout time.Duration
	// EventBytesMax bounds one server-sent event. Default 16 MiB.
	EventBytesMax int
}

func (e Endpoint) withDefaults() Endpoint {
	if e.ConnectTimeout <= 0 {
		e.ConnectTimeout = 10 * time.Second
	}
	if e.HeaderTimeout <= 0 {
		e.HeaderTimeout = 2 * time.Minute
	}
	if e.StallTimeout <= 0 {
		e.StallTimeout = time.Minute
	}
	if e.EventBytesMax <= 0 {
		e.EventBytesMax = 16 << 20
	}
	return e
}

// Wire is a request in an API's own shape.
type Wire struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
}

// API is one dialect. It holds no state.
type API interface {
	Name() string
	Encode(Endpoint, Request) (*Wire, error)
	NewDecoder() Decoder
}

// Decoder turns the events of one response into pieces of an attempt. One decoder
// serves one attempt and one goroutine.
type Decoder interface {
	// Event takes one server-sent event. It emits *event.TextDelta,
	// *event.ReasoningDelta, *event.CallDelta and *event.OpaqueBlock with an empty
	// address, which the caller fills. Data is valid only during the call. Done means
	// that nothing further is wanted: the reply is whole, or it has failed. The only
	// error is that of emit.
	Event(name string, data []byte, emit func(event.Body) error) (done bool, err error)
	// End gives the verdict: *event.AttemptFinished or *event.AttemptFailed. Broken is
	// nil for a clean end of the stream. A reply that is whole stays finished however
	// the connection ended (I4).
	End(broken error) event.Body
	// Status judges an answer that is no stream.
	Status(status int, header http.Header, body []byte) *event.AttemptFailed
}

// Trailer is a decoder of an API whose finish is not the last event. Once Trailing
// reports true only usage is awaited, for a short time: a provider that forgets to
// close the stream holds no turn up.
type Trailer interface{ Trailing() bool }

// Identified is a decoder that knows the provider's own name for the answer, which
// counts where no header gives one.
type Identified interface{ ResponseID() string }
