// Package audit proves turns: it derives their outputs again from their events and
// compares them with what was said, byte for byte, and checks the invariants over EV,
// OUT and FX. One turn, a whole log and a bundle of evidence go through the same eyes.
//
// Invariant: a verdict rests on what the logs hold, never on what a running process
// has in memory.
package audit

import (
	"fmt"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
)

// Verdict is what an audit of a turn found.
type Verdict struct {
	OK         bool    `json:"ok"`
	Turn       string  `json:"turn"`
	Tenant     string  `json:"tenant"`
	Status     string  `json:"status"` // of the turn; erased if its content was taken away
	Events     int     `json:"events"`
	Outputs    int     `json:"outputs"`
	UnderWay   int     `json:"under_way"` // outputs that the owner has not written yet
	Rewinds    int     `json:"rewinds"`   // times this turn was taken back
	Invariants []Check `json:"invariants"`
}

// Check is the verdict on one invariant, with the first offence.
type Check struct {
	ID     string `json:"id"`
	OK     bool   `json:"ok"`
	Stream string `json:"stream,omitzero"` // EV, OUT or FX: where Seq is
	Seq    uint64 `json:"seq,omitzero"`    // of the offending message on its stream
	Detail string `json:"detail,omitzero"`
}

// statusErased is the status of a turn whose content was taken away on purpose.
const statusErased = "erased"

// invariants are the ids of a verdict, in order (docs/invariants.md).
var invariants = [...]string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12", "I13"}

// offences keeps the first offence against each invariant.
type offences map[string]Check

func (o *offences) add(id, stream string, seq uint64, format string, args ...any) {
	if _, have := (*o)[id]; have {
		return
	}
	if *o == nil {
		*o = offences{}
	}
	(*o)[id] = Check{ID: id, Stream: stream, Seq: seq, Detail: fmt.Sprintf(format, args...)}
}

// list is every invariant with its verdict.
func (o offences) list() []Check {
	out := make([]Check, len(invariants))
	for i, id := range invariants {
		out[i] = Check{ID: id, OK: true}
		if c, bad := o[id]; bad {
			out[i] = c
		}
	}
	return out
}

// erased is the verdict on a turn whose content was taken away: nothing of it can be
// proven any more, and nothing of it is broken.
func erased(t subjects.Turn) Verdict {
	return Verdict{OK: true, Turn: t.ID, Tenant: t.Tenant, Status: statusErased, Invariants: offences(nil).list()}
}

func verdictOf(t subjects.Turn, s *fold.State, o offences) Verdict {
	return Verdict{OK: len(o) == 0, Turn: t.ID, Tenant: t.Tenant, Status: string(s.Status), Invariants: o.list()}
}
