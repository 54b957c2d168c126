package executor

import (
	"context"
	"slices"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Facts implements effects.
func (x *xports) Facts(context.Context, string) ([]effect.Fact, uint64, error) {
	v, err := ask(x, opFacts, func() (pair[[]effect.Fact, uint64], uint64) {
		facts := x.s.fx
		for i, f := range facts {
			x.marks.saw(0, uint64(i+1), factData(f))
		}
		out := facts
		if x.x.rules.lastRecord {
			out = lastReports(facts)
		}
		return pair[[]effect.Fact, uint64]{out, uint64(len(facts))}, sumFacts(facts)
	})
	return v.a, v.b, err
}

// lastReports lets a claim's last report decide, as if it were a register.
func lastReports(facts []effect.Fact) []effect.Fact {
	var out []effect.Fact
	for i, f := range facts {
		if f.Kind != effect.KindReport || !slices.ContainsFunc(facts[i+1:], func(g effect.Fact) bool { return g.Kind == f.Kind && g.Token == f.Token }) {
			out = append(out, f)
		}
	}
	return out
}

// factData stands for a fact's bytes on the log.
func factData(f effect.Fact) []byte {
	return []byte(string(f.Kind) + f.Token + f.Call + string(f.Outcome) + f.ErrorClass + f.Host + string(rune('0'+f.Epoch)))
}

// Last implements effects.
func (x *xports) Last(context.Context, string) (uint64, error) {
	return ask(x, 0, func() (uint64, uint64) { return uint64(len(x.s.fx)), uint64(len(x.s.fx)) })
}

// Append implements effects.
func (x *xports) Append(_ context.Context, _ string, f effect.Fact, _ []byte) error {
	_, err := ask(x, opAppend, func() (struct{}, uint64) {
		if x.x.rules.takeoverFails && f.Kind == effect.KindReport && f.Outcome == effect.Unknown {
			f.Outcome = effect.Failed
		}
		x.store(f)
		return struct{}{}, 0
	})
	return err
}

// store does what fxLog does around a stored message.
func (x *xports) store(f effect.Fact) {
	before := x.marks.get(0).Seq
	x.s.fx = grow(x.s.fx, f)
	seq := uint64(len(x.s.fx))
	if seq <= before {
		x.s.suspect(x.p.host)
	}
	x.marks.saw(0, seq, factData(f))
	if f.Kind == effect.KindReport || f.Kind == effect.KindNotRun {
		_ = x.marks.sync(context.Background(), 0, seq) // xmarker cannot fail
	}
}

// Claim implements effects.
func (x *xports) Claim(_ context.Context, _ string, f effect.Fact, last uint64) (uint64, error) {
	v, err := ask(x, opClaim, func() (pair[uint64, error], uint64) {
		if x.how == claimFlies { // neither stored nor answered, yet
			x.s.flight = &xflight{f, last}
			return pair[uint64, error]{0, jet.ErrUnclear}, 1
		}
		stored := last == uint64(len(x.s.fx)) || x.x.rules.noCompare
		if stored {
			if f.Kind == effect.KindClaim {
				x.watchSuccess()
			}
			x.store(f)
		}
		switch {
		case x.how == claimUnclear:
			return pair[uint64, error]{0, jet.ErrUnclear}, 1
		case !stored:
			return pair[uint64, error]{0, jet.ErrConflict}, 2
		}
		return pair[uint64, error]{uint64(len(x.s.fx)), nil}, 3 + uint64(len(x.s.fx))
	})
	if err == nil {
		err = v.b
	}
	return v.a, err
}

// watchSuccess: nobody claims what is known to have succeeded (I7). The log keeps that
// promise as long as it keeps its end. Where its end was lost it gives sequences anew,
// and takes a claim on a key that was looked at before: then it is who claimed that must
// see it, and not run.
func (x *xports) watchSuccess() {
	_, known := effect.Join(append(x.me().facts(""), x.s.fx...)).Succeeded()
	lost := x.s.left.fx < x.x.losses
	x.p.vain = known && lost
	if known && !lost {
		x.s.bad = "claimed after a known success"
	}
}
