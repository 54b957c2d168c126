// Package fold turns the events of a turn into its state and its outputs.
//
// Invariant: equal events give equal states and outputs, in any process, in any
// year (docs/invariants.md, I8). So nothing here reads a clock, draws a random
// number, or touches a network, file or logger.
package fold

import (
	"fmt"
	"strconv"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// folder applies one event: it holds the state and collects the outputs.
type folder struct {
	*State
	seq uint64
	out []feed.Output
}

// Apply folds e into s and returns what it causes. Like append, it spends s: keep
// only the result.
func Apply(s State, e event.Event) (State, []feed.Output) {
	out := s.take(e)
	return s, out
}

// take folds e into the state where it lies: a state is large, and copying it for every
// piece of text costs more than folding the piece.
func (s *State) take(e event.Event) []feed.Output {
	if e.Seq <= s.Seq {
		return nil // delivered again
	}
	s.Seq, s.Chain = e.Seq, s.Chain.Then(e.Sum)
	f := folder{State: s, seq: e.Seq}
	f.clock(e.AtMS)
	f.apply(e.Body)
	return f.out
}

func (f *folder) apply(body event.Body) {
	if opened, ok := body.(*event.TurnOpened); ok {
		f.opened(opened)
		return
	}
	if _, ok := body.(*event.TurnErased); ok {
		f.Status = Erased // whether its opening is still there or not
	}
	if f.Opened == nil {
		f.Skipped++ // a fact of a turn whose opening is lost
		return
	}
	switch b := body.(type) {
	case *event.AttemptStarted:
		f.attemptStarted(b)
	case *event.TextDelta:
		f.text(b)
	case *event.ReasoningDelta:
		f.reasoning(b)
	case *event.CallDelta:
		f.callDelta(b)
	case *event.OpaqueBlock:
		f.opaque(b)
	case *event.AttemptAlive:
		f.alive(b)
	case *event.AttemptFinished:
		f.attemptFinished(b)
	case *event.AttemptFailed:
		f.attemptFailed(b)
	case *event.AttemptLost:
		f.attemptLost(b)
	case *event.CommandOverdue:
		f.overdue(b)
	case *event.CallSettled:
		f.callSettled(b)
	case *event.CallProgress:
		f.progress(b)
	case *event.CallApproved:
		f.approved(b)
	case *event.CallDenied:
		f.denied(b)
	case *event.ApprovalExpired:
		f.approvalExpired(b)
	case *event.TurnCancelled:
		f.end("cancelled")
	case *event.TurnExpired:
		f.expire()
	case *event.MessageSaved:
		f.saved(b)
	case *event.TurnErased: // above
	case *event.Unknown:
		f.Skipped++
	default: // Body is closed: our bug, not bad input
		panic(fmt.Sprintf("fold: no case for %T", body))
	}
}

// Guarded is Apply for input that nobody has looked at: what would panic is skipped
// and returned as an error, the same in every process. State after an error is as far
// as the event got; later events go on from there.
func Guarded(s State, e event.Event) (next State, out []feed.Output, err error) {
	out, err = s.Take(e)
	return s, out, err
}

// Take is Guarded for whoever keeps one state and needs no other.
func (s *State) Take(e event.Event) (out []feed.Output, err error) {
	before := *s
	defer func() {
		if r := recover(); r != nil {
			*s = before
			if e.Seq > s.Seq {
				s.Seq, s.Chain = e.Seq, s.Chain.Then(e.Sum)
			}
			s.Skipped++
			out, err = nil, fmt.Errorf("fold %s at %d: %v", e.Turn, e.Seq, r)
		}
	}()
	return s.take(e), nil
}

// emit adds an output of a step and attempt; both 0 for the whole turn.
func (f *folder) emit(step, attempt int, b feed.Body) {
	f.out = append(f.out, feed.Output{
		ID: ID(f.seq, len(f.out), f.Epoch), Turn: f.Turn.ID, Step: step, Attempt: attempt, Body: b,
	})
}

// ID names an output by its place: the input that caused it, its index among that
// input's outputs, and the rewind since which it stands, if there was one. Clients
// take it as opaque.
func ID(seq uint64, index int, epoch uint64) string {
	id := strconv.FormatUint(seq, 10) + "." + strconv.Itoa(index)
	if epoch > 0 {
		id += "." + strconv.FormatUint(epoch, 10)
	}
	return id
}

func (f *folder) opened(b *event.TurnOpened) {
	if f.Opened != nil {
		return // the gateway opens by compare-and-set; a second opening is a repeat
	}
	f.Opened, f.openedMS = b, f.nowMS
	f.Status = Running
	f.failures, f.empties, f.rows = map[string]int{}, map[string]int{}, map[string]int{}
	f.emit(0, 0, &feed.TurnAccepted{})
	if len(b.Entries) == 0 {
		f.finish(string(event.InvalidRequest), "The request names no model to ask.")
		return
	}
	f.nextStep()
}

func (f *folder) saved(b *event.MessageSaved) {
	if f.Status != Completed || f.MessageID != "" || b.MessageID == "" {
		return
	}
	f.MessageID = b.MessageID
	f.emit(0, 0, &feed.MessageSaved{MessageID: b.MessageID})
}
