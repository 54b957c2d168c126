package executor

import (
	"slices"

	"github.com/turnfold/turnfold/subjects/effect"
)

// act is what is to be done next about a call.
type act uint8

const (
	actWait    act = iota // a claim is open
	actSettle             // the outcome is decided
	actClaim              // a claim may be attempted
	actNotRun             // the call may be withdrawn by compare-and-set
	actRefuse             // it may not run, and certainly has not
	actDropped            // nobody asks for it any more
)

// question is what the next act depends on, beside the facts.
type question struct {
	call      string // as it stands in facts
	class     effect.Class
	withdrawn bool
	unfit     bool // bad arguments, or no such tool here
	standing  standing
}

// verdict is the answer.
type verdict struct {
	act      act
	decision effect.Decision // of actSettle and actWait
}

// judge decides the next act from the joined facts. It is the only place where the
// executor decides. Source: docs/effects.md, "Claims"; docs/invariants.md, I7.
func judge(v effect.View, q question) verdict {
	class := q.class
	settled := q.standing != standingAsked
	own := ownClaims(v, q.call)
	if q.withdrawn || q.unfit && own > 0 {
		// It never runs (again): what is known of its own claims is its outcome.
		class, settled = effect.Once, true
	}
	d := v.Decide(class, q.call, effect.Limits{Settled: settled})
	decidedEver := d.Kind == effect.Replay && (d.Outcome == effect.Succeeded || d.Outcome == effect.NotRun)
	switch {
	case q.standing == standingAbsent && !decidedEver:
		return verdict{act: actDropped} // whoever asks again meets what the facts say then
	case q.standing == standingSettled && q.withdrawn && own == 0 && !decidedEver:
		return verdict{act: actDropped}
	case q.withdrawn && own == 0 && !decidedEver:
		return verdict{act: actNotRun} // also beside another call's open claim
	case d.Kind == effect.Wait:
		return verdict{actWait, d}
	case d.Kind == effect.Replay && d.Token == "" && d.Outcome == effect.Unknown:
		return verdict{act: actDropped} // the log has its outcome, and we know no better
	case d.Kind == effect.Replay:
		return verdict{actSettle, d}
	case q.unfit:
		return verdict{act: actRefuse}
	}
	return verdict{actClaim, d}
}

func ownClaims(v effect.View, call string) int {
	n := 0
	for _, t := range v.Tokens {
		if t.Call == call {
			n++
		}
	}
	return n
}

// missing lists the facts of own that are not among known: what the log has lost, or
// never got. A report that says less than a known one of its claim is not missing.
func missing(known, own []effect.Fact) []effect.Fact {
	var out []effect.Fact
	for _, f := range own {
		if !slices.ContainsFunc(known, func(k effect.Fact) bool { return covers(k, f) }) {
			out = append(out, f)
		}
	}
	return out
}

func covers(k, f effect.Fact) bool {
	if k.Kind != f.Kind || k.Token != f.Token || k.Call != f.Call {
		return false
	}
	if f.Kind != effect.KindReport {
		return true
	}
	if k.Outcome.Known() || f.Outcome.Known() {
		return k.Outcome == f.Outcome && (k.BodyDigest == f.BodyDigest || f.BodyDigest == "")
	}
	// Two unknowns: one that somebody observed says more than an interruption.
	return k.ErrorClass == f.ErrorClass || f.ErrorClass == effect.Interrupted
}
