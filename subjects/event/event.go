// Package event is the closed set of facts on EV, the only input of the fold.
//
// Invariant: a fact that was written can be read by every later binary. Kinds and
// members are only added, never reused; an unknown kind is kept byte for byte and
// skipped (docs/invariants.md, I8 and I9).
package event

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/turnfold/turnfold/subjects"
)

// Event is a fact at its place.
type Event struct {
	Turn subjects.Turn
	Seq  uint64 // position on the partition's EV stream, 1-based; not part of the bytes
	Sum  Sum    // of the bytes as they were stored; zero where nobody asks for it
	// AtMS is when the log stored it, in milliseconds since 1970, as every later reader
	// of the log finds it too; 0 if nobody knows. Not part of the bytes.
	AtMS int64
	Body Body
}

// Sum names an event by its subject and its bytes.
type Sum [16]byte

// sumBytes is how much is summed in one piece, without a place on the heap; most events
// are smaller by far.
const sumBytes = 1024

// SumOf is the sum of a stored event.
func SumOf(subject string, data []byte) Sum {
	if len(subject)+1+len(data) <= sumBytes {
		var room [sumBytes]byte
		whole := append(append(append(room[:0], subject...), 0), data...)
		full := sha256.Sum256(whole)
		return Sum(full[:len(Sum{})])
	}
	h := sha256.New()
	h.Write([]byte(subject))
	h.Write([]byte{0})
	h.Write(data)
	var full [sha256.Size]byte
	return Sum(h.Sum(full[:0])[:len(Sum{})])
}

// Then chains the sum of the next event of a turn to those before it, so that the last
// link proves every byte of them (I8).
func (s Sum) Then(next Sum) Sum {
	var both [2 * len(Sum{})]byte
	copy(both[:], s[:])
	copy(both[len(s):], next[:])
	full := sha256.Sum256(both[:])
	return Sum(full[:len(Sum{})])
}

// Spells reports whether text is the sum as String spells it.
func (s Sum) Spells(text string) bool {
	var spelled [2 * len(Sum{})]byte
	hex.Encode(spelled[:], s[:])
	return string(spelled[:]) == text
}

// String is the sum in hex.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Body is what happened. Only this package adds to the set.
type Body interface{ Kind() string }

// At is the address of one event of a model stream (I1).
type At struct {
	Step    int    `json:"step"`    // 1-based within the turn
	Attempt int    `json:"attempt"` // 1-based within the step
	Token   string `json:"token"`   // of the attempt.started that opened it
	Ord     int    `json:"ord"`     // 0-based within the attempt, no gaps
}

// Place gives the address; every body of a model stream has it by embedding At.
func (a At) Place() At { return a }

// Streamed is a body that belongs to a model stream.
type Streamed interface {
	Body
	Place() At
}

type head struct {
	V    int    `json:"v"`
	Kind string `json:"kind"`
}

// kinds makes an empty body of each kind. A kind is never reused for another meaning.
var kinds = map[string]func() Body{
	"turn.opened":      func() Body { return new(TurnOpened) },
	"turn.cancelled":   func() Body { return new(TurnCancelled) },
	"turn.expired":     func() Body { return new(TurnExpired) },
	"turn.erased":      func() Body { return new(TurnErased) },
	"message.saved":    func() Body { return new(MessageSaved) },
	"attempt.started":  func() Body { return new(AttemptStarted) },
	"text.delta":       func() Body { return new(TextDelta) },
	"reasoning.delta":  func() Body { return new(ReasoningDelta) },
	"call.delta":       func() Body { return new(CallDelta) },
	"opaque.block":     func() Body { return new(OpaqueBlock) },
	"attempt.alive":    func() Body { return new(AttemptAlive) },
	"attempt.finished": func() Body { return new(AttemptFinished) },
	"attempt.failed":   func() Body { return new(AttemptFailed) },
	"attempt.lost":     func() Body { return new(AttemptLost) },
	"command.overdue":  func() Body { return new(CommandOverdue) },
	"call.progress":    func() Body { return new(CallProgress) },
	"call.settled":     func() Body { return new(CallSettled) },
	"call.approved":    func() Body { return new(CallApproved) },
	"call.denied":      func() Body { return new(CallDenied) },
	"approval.expired": func() Body { return new(ApprovalExpired) },
}

// Kinds lists the set in alphabetical order.
func Kinds() []string {
	out := make([]string, 0, len(kinds))
	for k := range kinds {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// New makes an empty body of a kind, or false for a kind outside the set.
func New(kind string) (Body, bool) {
	make, ok := kinds[kind]
	if !ok {
		return nil, false
	}
	return make(), true
}

// Unknown keeps a fact whose kind this binary does not know, byte for byte.
type Unknown struct {
	Name string
	Raw  []byte
}

// Kind is the kind that the writer gave it.
func (u *Unknown) Kind() string { return u.Name }

// Encode gives the bytes of a body, equal for equal bodies.
func Encode(b Body) ([]byte, error) {
	if u, ok := b.(*Unknown); ok {
		return u.Raw, nil
	}
	data, err := subjects.Seal(head{subjects.Version, b.Kind()}, b)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.Kind(), err)
	}
	return data, nil
}

// Decode reads a body. Unknown kinds become *Unknown; bytes that are no fact are
// subjects.ErrMalformed, facts of a newer format subjects.ErrNewer.
func Decode(data []byte) (Body, error) {
	if b := ownDelta(data); b != nil {
		return b, nil
	}
	if b := ownKind(data); b != nil {
		if err := subjects.Open(data, b); err != nil {
			return nil, fmt.Errorf("decode event %s: %w", b.Kind(), err)
		}
		return b, nil
	}
	var h head
	if err := subjects.Open(data, &h); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	if h.V > subjects.Version {
		return nil, fmt.Errorf("decode event %q: %w (v %d, known %d)", h.Kind, subjects.ErrNewer, h.V, subjects.Version)
	}
	if h.V < 1 || h.Kind == "" {
		return nil, fmt.Errorf("decode event: %w: no v or kind in %.80q", subjects.ErrMalformed, data)
	}
	b, ok := New(h.Kind)
	if !ok {
		return &Unknown{Name: h.Kind, Raw: slices.Clone(data)}, nil
	}
	if err := subjects.Open(data, b); err != nil {
		return nil, fmt.Errorf("decode event %s: %w", h.Kind, err)
	}
	return b, nil
}
