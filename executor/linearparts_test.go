package executor

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

// claimOp is one operation on a key's claim register.
type claimOp struct {
	what       string // won, lost, released
	generation int
	token      string
}

// register is a key's claims: one owner at a time, a generation after the other. Who
// has lost was not needed: somebody had claimed before.
var register = porcupine.Model{
	Init: func() any { return claimOp{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(claimOp), input.(claimOp)
		switch op.what {
		case "won":
			return s.token == "" && s.generation == op.generation-1, claimOp{generation: op.generation, token: op.token}
		case "lost":
			return s.generation >= op.generation, s
		}
		return s == claimOp{generation: op.generation, token: op.token}, claimOp{generation: op.generation}
	},
}

// lookedBack counts the claims without a clear answer.
type lookedBack struct {
	effects
	n *atomic.Int64
}

func (l lookedBack) Claim(ctx context.Context, key string, f effect.Fact, last uint64) (uint64, error) {
	seq, err := l.effects.Claim(ctx, key, f, last)
	if err != nil && !errors.Is(err, jet.ErrConflict) {
		l.n.Add(1)
	}
	return seq, err
}

// noMemory and noJournal are those of a host without one.
type noMemory struct{}

func (noMemory) Facts(string) ([]effect.Fact, error)                { return nil, nil }
func (noMemory) Glance(string) (keystore.Glance, error)             { return keystore.Glance{}, nil }
func (noMemory) Reported(string, string) (effect.Fact, bool, error) { return effect.Fact{}, false, nil }
func (noMemory) Body(string, string) ([]byte, bool, error)          { return nil, false, nil }

type noJournal struct{}

func (noJournal) Intent(context.Context, keystore.Intent) error { return nil }
func (noJournal) Abandon(context.Context, string, string) error { return nil }
func (noJournal) Report(context.Context, keystore.Report) error { return nil }
func (noJournal) NotRun(context.Context, string, string) error  { return nil }
func (noJournal) MarkSettled(context.Context, []keystore.Settled, map[int]keystore.Mark) error {
	return nil
}
