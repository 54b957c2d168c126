package audit

import (
	"context"
	"fmt"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Notes is what a partition's owner wrote about the partition itself: rewinds, and
// turns that were erased. An audit needs it before it reads the first turn.
type Notes struct {
	Rewinds reducer.Rewinds
	Erased  map[string]reducer.Tombstone // by tenant/turn; the last one of each
	// Restored is the last record of a restore: up to there, gaps are of turns that the
	// archives did not have.
	Restored reducer.Restored
}

// Add takes in a message of the partition's own subject.
func (n *Notes) Add(m jet.Msg) error {
	var head struct {
		Type string `json:"type"`
		V    int    `json:"v"`
	}
	if err := subjects.Open(m.Data, &head); err != nil {
		return fmt.Errorf("note %d: %w", m.Seq, err)
	}
	if head.V > subjects.Version {
		return fmt.Errorf("note %d: %w (v %d, known %d)", m.Seq, subjects.ErrNewer, head.V, subjects.Version)
	}
	switch head.Type {
	case "rewind":
		var r reducer.Rewind
		if err := subjects.Open(m.Data, &r); err != nil {
			return fmt.Errorf("note %d: %w", m.Seq, err)
		}
		n.Rewinds = append(n.Rewinds, r)
	case reducer.TypeErased:
		var t reducer.Tombstone
		if err := subjects.Open(m.Data, &t); err != nil {
			return fmt.Errorf("note %d: %w", m.Seq, err)
		}
		if n.Erased == nil {
			n.Erased = map[string]reducer.Tombstone{}
		}
		n.Erased[t.Turn] = t
	case reducer.TypeRestored:
		if err := subjects.Open(m.Data, &n.Restored); err != nil {
			return fmt.Errorf("note %d: %w", m.Seq, err)
		}
	}
	return nil
}

// goneEvents and goneOutputs are how many messages erasures have taken out of the logs.
func (n *Notes) goneEvents() (sum int) {
	for _, t := range n.Erased {
		sum += t.Events
	}
	return sum
}

func (n *Notes) goneOutputs() (sum int) {
	for _, t := range n.Erased {
		sum += t.Outputs
	}
	return sum
}

// LoadNotes reads a partition's notes.
func LoadNotes(ctx context.Context, conn *jet.Conn, p int) (*Notes, error) {
	n := &Notes{}
	if _, err := conn.ReadSubject(ctx, subjects.OutputsStream(p), subjects.OutPosition(p), 1, 0, n.Add); err != nil {
		return nil, fmt.Errorf("notes of partition %d: %w", p, err)
	}
	return n, nil
}
