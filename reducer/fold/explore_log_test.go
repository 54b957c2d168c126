package fold_test

import (
	"fmt"
	"strconv"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// The events that happen in an exploration.
const (
	opened = 1 + iota
	started
	spoke
	finished
	failed
	lost    // declared by a successor, or by the owner's timer (then seen is set)
	overdue // a command that nobody answered
	cancelled
	saved
)

// happened is one event on EV. Its uid stands for the digest: two events at the same
// sequence differ in it.
type happened struct{ kind, attempt, token, ord, seen, by, uid uint8 }

const (
	eventsMax  = 20
	outputsMax = 44
)

func (x *explorer) body(h happened) event.Body {
	token := tokenOf(h.token)
	if x.sabotage == "tokens" {
		token = "t"
	}
	at := event.At{Step: 1, Attempt: int(h.attempt), Token: token, Ord: int(h.ord)}
	switch h.kind {
	case opened:
		return &event.TurnOpened{At: "2026-01-01T00:00:00Z", Digest: "d", Route: "default", Rules: event.Rules,
			Messages: []event.Message{{Role: "user", Content: "hi"}},
			Entries:  []event.Entry{{Provider: "main", API: "openai-chat", Model: "m"}},
			Policy: event.Policy{AttemptsPerStep: int(h.ord), AttemptsPerTurn: int(h.ord), BackoffBaseMS: 10, BackoffMaxMS: 20,
				AfterText: "reset", CallsPerTurn: 8, DeadlineMS: 60_000, AliveMS: 5000, PatienceMS: 10_000}}
	case started:
		return &event.AttemptStarted{Step: 1, Attempt: int(h.attempt), Token: token, Provider: "main", API: "openai-chat",
			Model: "m", Instance: "s" + strconv.Itoa(int(h.by))}
	case spoke:
		return &event.TextDelta{At: at, Text: fmt.Sprintf("%s.%d ", tokenOf(h.token), h.ord)}
	case finished:
		return &event.AttemptFinished{At: at, Finish: "stop"}
	case failed:
		return &event.AttemptFailed{At: at, Class: event.Connection, Retryable: true}
	case lost:
		return &event.AttemptLost{Step: 1, Attempt: int(h.attempt), Token: token, Seen: uint64(h.seen)}
	case overdue:
		return &event.CommandOverdue{Step: 1, Attempt: int(h.attempt), Seen: uint64(h.seen)}
	case cancelled:
		return &event.TurnCancelled{}
	}
	return &event.MessageSaved{MessageID: "m"}
}

// output is what is interned of an output.
type output struct {
	typ      string
	lane     subjects.Lane
	attempt  uint8
	step     int
	text     string // of a piece, or of the completion
	in       uint64 // of a step command
	abandons int
}

// folded is the fold of a prefix of EV.
type folded struct {
	state   fold.State
	outputs [][]uint16 // codes, by input
	pending []uint16
	timers  []fold.Timer
	running *fold.Attempt // nil: nothing is commanded or open
	feed    []uint16      // all outputs of the feed's lane, in order
}

var exploredTurn = subjects.Turn{Tenant: "t", ID: "x"}

// fold gives what the real fold makes of the first n events.
func (x *explorer) fold(w *scene, n uint8) *folded {
	key := make([]byte, 0, 6*eventsMax)
	for _, h := range w.ev[:n] {
		key = append(key, h.kind, h.attempt, h.token, h.ord, h.seen, h.by)
	}
	if f, ok := x.memo[string(key)]; ok {
		return f
	}
	f := &folded{state: fold.State{Turn: exploredTurn}}
	for i, h := range w.ev[:n] {
		next, out, err := fold.Guarded(f.state, event.Event{Turn: exploredTurn, Seq: uint64(i + 1), Body: x.body(h)})
		if err != nil {
			panic(err)
		}
		f.state = next
		var codes []uint16
		for _, o := range out {
			c := x.code(o)
			codes = append(codes, c)
			if x.outputs[c].lane == subjects.LaneFeed {
				f.feed = append(f.feed, c)
			}
		}
		f.outputs = append(f.outputs, codes)
	}
	for _, o := range f.state.Pending() {
		f.pending = append(f.pending, x.code(o))
	}
	f.timers = f.state.Timers()
	_, f.running = f.state.Running()
	x.memo[string(key)] = f
	return f
}

func (x *explorer) code(o feed.Output) uint16 {
	v := output{typ: o.Body.Type(), lane: o.Body.Lane(), attempt: uint8(o.Attempt), step: o.Step}
	switch b := o.Body.(type) {
	case *feed.TextDelta:
		v.text = b.Text
	case *feed.Completion:
		v.text = b.Text
	case *feed.StepCommand:
		v.in = b.In
	case *feed.Reset:
		v.abandons = b.Abandoned
	}
	return x.intern(v)
}

func (x *explorer) intern(v output) uint16 {
	key := fmt.Sprintf("%+v", v)
	c, ok := x.codes[key]
	if !ok {
		c = uint16(len(x.outputs))
		x.codes[key] = c
		x.outputs = append(x.outputs, v)
	}
	return c
}

// rewound are the notes around a rewind, and the reset that begins it.
func (x *explorer) rewound() (open, reset, done uint16) {
	return x.intern(output{typ: "rewind"}), x.intern(output{typ: "reset", lane: subjects.LaneFeed}), x.intern(output{typ: "rewound"})
}
