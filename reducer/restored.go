package reducer

import (
	"fmt"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Restored is the record that a partition was made of archives: what lies before it came
// from another deployment, with gaps where turns were not in them. It lies on
// subjects.OutPosition, and is the position from which the owner goes on.
type Restored struct {
	Type    string `json:"type"` // restored
	V       int    `json:"v"`
	At      string `json:"at"`   // RFC 3339, UTC
	From    string `json:"from"` // the deployment that the archives are of
	Events  uint64 `json:"ev"`   // last sequence of EV that was put back
	Outputs uint64 `json:"out"`  // last sequence of OUT that was put back
}

// TypeRestored is the type of a Restored.
const TypeRestored = "restored"

// Message is the record as it is written after everything that was put back: last is
// EV's last event, epoch the number of the partition's last rewind.
func (r Restored) Message(last jet.Msg, epoch uint64) (header map[string]string, data []byte, err error) {
	r.Type, r.V = TypeRestored, subjects.Version
	if data, err = subjects.Seal(struct{}{}, r); err != nil {
		return nil, nil, fmt.Errorf("note of a restore: %w", err)
	}
	return position{in: last.Seq, whole: true, digest: Digest(last.Subject, last.Data), epoch: epoch}.header(), data, nil
}
