package reducer

import (
	"context"
	"fmt"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Tombstone is what remains of an erased turn on OUT: that it was there, how much of it
// there was, and that it was taken away on purpose. It lies on subjects.OutPosition,
// where it also keeps the owner's position: the last message of OUT is never one that
// is about to go. A later one of the same turn replaces it.
type Tombstone struct {
	Type    string             `json:"type"` // erased
	V       int                `json:"v"`
	Turn    string             `json:"turn"` // tenant/turn
	At      string             `json:"at"`
	By      string             `json:"by,omitzero"`
	Reason  string             `json:"reason,omitzero"`
	Events  int                `json:"events"`
	Outputs int                `json:"outputs"`
	Calls   []turns.ErasedCall `json:"calls,omitzero"` // their effects still deduplicate
}

// TypeErased is the type of a Tombstone.
const TypeErased = "erased"

// loadTombstones reads a partition's tombstones.
func loadTombstones(ctx context.Context, conn *jet.Conn, p int) (map[subjects.Turn]Tombstone, error) {
	out := map[subjects.Turn]Tombstone{}
	_, err := conn.ReadSubject(ctx, subjects.OutputsStream(p), subjects.OutPosition(p), 1, 0, func(m jet.Msg) error {
		var t Tombstone
		if err := subjects.Open(m.Data, &t); err != nil {
			return err
		}
		if t.Type != TypeErased {
			return nil
		}
		turn, err := subjects.ParseTurn(t.Turn)
		out[turn] = t
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tombstones of partition %d: %w", p, err)
	}
	return out, nil
}

// bury writes a tombstone and the position with it. From then on what comes of the turn
// is only taken away again. It is for the loop's goroutine.
func (s *session) bury(ctx context.Context, t subjects.Turn, tomb Tombstone) error {
	pos := position{in: s.pos.in, whole: true, epoch: s.rewinds.Latest()}
	m, ok, err := s.conn().Get(ctx, subjects.EventsStream(s.p), pos.in)
	if err != nil {
		return err
	}
	s.buried[t] = tomb
	s.drop(t)
	if _, of, err := subjects.ParseEvents(m.Subject); ok && err == nil {
		if _, gone := s.buried[of]; !gone {
			pos.digest = Digest(m.Subject, m.Data) // else there will be nothing to compare with
		}
	}
	data, err := subjects.Seal(struct{}{}, tomb)
	if err != nil {
		return err
	}
	if _, err = s.out.Append(subjects.OutPosition(s.p), pos.header(), data); err == nil {
		s.pos = pos
	}
	return err
}
