package effect

import "slices"

// Class is how often a tool may be run for one effect, as declared beside it.
type Class string

const (
	Read  Class = "read"  // changes nothing: runs freely
	Keyed Class = "keyed" // the target deduplicates: may be sent again with the same key
	Once  Class = "once"  // one try, and then an honest unknown
)

// DecisionKind is what the executor of a call does next.
type DecisionKind uint8

const (
	// Wait: a claim is open. Wait for its report, or for its lease to run out.
	Wait DecisionKind = iota
	// Replay: the call's outcome is decided. Nothing runs.
	Replay
	// MayClaim: a claim may be attempted, by compare-and-set on exactly these facts.
	MayClaim
)

var decisionKinds = [...]string{Wait: "wait", Replay: "replay", MayClaim: "may_claim"}

func (k DecisionKind) String() string { return decisionKinds[k] }

// Decision is the answer of View.Decide.
type Decision struct {
	Kind    DecisionKind
	Outcome Outcome // of Replay
	// Token is the claim whose report and body are replayed. It is empty for
	// not_run.
	Token string
	// Open lists the claims without a report, sorted. Replay may have some, too.
	Open []string
	// FailedClaims counts the key's claims that reported failed.
	FailedClaims int
	// Unaccounted: some claim may have performed the effect without our knowing,
	// so a new run must send the same key.
	Unaccounted bool
}

// claimsMaxDefault bounds how often one call is started anew after interruptions.
// A call that brings down its executor must not do so for ever.
const claimsMaxDefault = 8

// Limits bound what Decide allows.
type Limits struct {
	// ClaimsMax is how many claims one call may have. Zero means 8.
	ClaimsMax int
	// Settled: the log has an outcome of this call, so that it never runs again.
	Settled bool
}

// Decide says what to do about a call with this key. Facts may be missing, then
// the compare-and-set of the claim fails and the caller decides again.
//
//   - A success anywhere is the key's success for good.
//   - A withdrawn call stays withdrawn.
//   - While a claim is open, nobody runs.
//   - A call is failed only if every claim made for it reported failed, otherwise
//     it is unknown. A decided call never runs again. Only keyed and read calls
//     whose claims were all interrupted, and so decided nothing, start anew.
//   - A call without a claim may run if its class bears that another call's run
//     of the effect is unaccounted for: once does not.
//
// Source: docs/invariants.md, I7.
func (v View) Decide(class Class, call string, limits Limits) Decision {
	t := v.tally(call)
	d := Decision{Open: t.open, FailedClaims: t.failed, Unaccounted: len(t.open) > 0 || t.unknown > 0}
	if s, ok := v.Succeeded(); ok {
		return d.replay(Succeeded, s.ID)
	}
	if slices.Contains(v.NotRun, call) {
		return d.replay(NotRun, "")
	}
	if len(t.open) > 0 {
		return d // Wait
	}
	again := class == Keyed || class == Read
	switch {
	case t.own == 0 && t.unknown > 0 && !again:
		return d.replay(Unknown, t.unknownToken)
	case t.own == 0 && limits.Settled:
		return d.replay(Unknown, "") // the outcome in the log stands; its facts are lost
	case t.own == 0:
		d.Kind = MayClaim
		return d
	case t.ownUnknown == 0:
		return d.replay(Failed, t.ownToken)
	case again && !limits.Settled && t.ownInterrupted == t.own && t.own < limits.claimsMax():
		d.Kind = MayClaim
		return d
	default:
		return d.replay(Unknown, t.ownToken)
	}
}

func (d Decision) replay(o Outcome, token string) Decision {
	d.Kind, d.Outcome, d.Token = Replay, o, token
	return d
}

func (l Limits) claimsMax() int {
	if l.ClaimsMax <= 0 {
		return claimsMaxDefault
	}
	return l.ClaimsMax
}

// tally counts the claims of a key from the standpoint of one call.
type tally struct {
	open                            []string
	failed, unknown                 int // of the whole key
	own, ownUnknown, ownInterrupted int
	unknownToken                    string // the first unknown one of the key
	ownToken                        string // of the call: the first unknown one that was observed, else unknown, else failed
}

func (v View) tally(call string) tally {
	var n tally
	best := Fact{}
	for _, t := range v.Tokens {
		own := t.Call == call
		if own {
			n.own++
		}
		switch {
		case t.Open():
			n.open = append(n.open, t.ID)
			continue
		case t.Report.Outcome == Failed:
			n.failed++
		case t.Report.Outcome != Succeeded:
			n.unknown++
			if n.unknownToken == "" {
				n.unknownToken = t.ID
			}
			if own {
				n.ownUnknown++
				n.ownInterrupted += 1 - observed(t.Report)
			}
		}
		if own && (n.ownToken == "" || outweighs(t.Report, best)) {
			n.ownToken, best = t.ID, t.Report
		}
	}
	return n
}

// outweighs tells which of two reports of one call's claims stands for the call:
// an unknown, and rather an observed one, because it says most about the doubt.
func outweighs(a, b Fact) bool {
	if x, y := a.Outcome == Failed, b.Outcome == Failed; x != y {
		return y
	}
	return observed(a) > observed(b)
}
