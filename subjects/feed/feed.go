// Package feed is the closed set of outputs on OUT: items for renderers, commands for
// streamers and executors, and the owner's notes about its partition.
//
// Invariant: an output's bytes are decided by the fold alone, so an audit can derive
// them again (docs/invariants.md, I8). Clients skip types that they do not know.
package feed

import (
	"fmt"
	"slices"

	"github.com/turnfold/turnfold/subjects"
)

// Output is one output at its place.
type Output struct {
	ID      string // unique in the turn, opaque to clients; the resume position of feed items
	Turn    string
	Step    int // 1-based; 0 = of the whole turn
	Attempt int // 1-based; 0 = of no attempt
	Body    Body
}

// Body is what is said. Only this package adds to the set.
type Body interface {
	Type() string
	Lane() subjects.Lane
}

type head struct {
	Type    string `json:"type"`
	ID      string `json:"id,omitzero"`
	Turn    string `json:"turn,omitzero"`
	Step    int    `json:"step"`
	Attempt int    `json:"attempt"`
}

// types makes an empty body of each type. A type is never reused for another meaning.
var types = map[string]func() Body{
	"turn_accepted":    func() Body { return new(TurnAccepted) },
	"text_delta":       func() Body { return new(TextDelta) },
	"reasoning_delta":  func() Body { return new(ReasoningDelta) },
	"reset":            func() Body { return new(Reset) },
	"tool_start":       func() Body { return new(ToolStart) },
	"client_call":      func() Body { return new(ClientCall) },
	"tool_progress":    func() Body { return new(ToolProgress) },
	"tool_result":      func() Body { return new(ToolResult) },
	"image":            func() Body { return new(Image) },
	"card":             func() Body { return new(Card) },
	"approval_request": func() Body { return new(ApprovalRequest) },
	"usage":            func() Body { return new(Usage) },
	"completion":       func() Body { return new(Completion) },
	"error":            func() Body { return new(Error) },
	"message_saved":    func() Body { return new(MessageSaved) },
	"ping":             func() Body { return new(Ping) },
	"step":             func() Body { return new(StepCommand) },
	"step_withdraw":    func() Body { return new(StepWithdraw) },
	"call":             func() Body { return new(CallCommand) },
	"call_withdraw":    func() Body { return new(CallWithdraw) },
}

// Types lists the set in alphabetical order.
func Types() []string {
	out := make([]string, 0, len(types))
	for k := range types {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// New makes an empty body of a type, or false for a type outside the set.
func New(typ string) (Body, bool) {
	make, ok := types[typ]
	if !ok {
		return nil, false
	}
	return make(), true
}

// Unknown keeps an output whose type this binary does not know, byte for byte.
type Unknown struct {
	Name string
	Raw  []byte
}

// Type is the type that the writer gave it.
func (u *Unknown) Type() string { return u.Name }

// Lane is the feed's: commands of unknown types are for newer binaries.
func (u *Unknown) Lane() subjects.Lane { return subjects.LaneFeed }

// Encode gives the bytes of an output, equal for equal outputs: the members of its head
// and then those of its body, as subjects.Seal joins them.
func Encode(o Output) ([]byte, error) {
	if u, ok := o.Body.(*Unknown); ok {
		return u.Raw, nil
	}
	data, err := spell(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.Body.Type(), err)
	}
	return data, nil
}

// Decode reads an output. Unknown types become *Unknown; bytes that are no output are
// subjects.ErrMalformed.
func Decode(data []byte) (Output, error) {
	var h head
	if err := subjects.Open(data, &h); err != nil {
		return Output{}, fmt.Errorf("decode output: %w", err)
	}
	if h.Type == "" {
		return Output{}, fmt.Errorf("decode output: %w: no type in %.80q", subjects.ErrMalformed, data)
	}
	o := Output{ID: h.ID, Turn: h.Turn, Step: h.Step, Attempt: h.Attempt}
	b, ok := New(h.Type)
	if !ok {
		o.Body = &Unknown{Name: h.Type, Raw: slices.Clone(data)}
		return o, nil
	}
	if err := subjects.Open(data, b); err != nil {
		return Output{}, fmt.Errorf("decode output %s: %w", h.Type, err)
	}
	o.Body = b
	return o, nil
}
