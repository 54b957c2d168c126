package effect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// facts reads a script such as "k1 c1 claim; k1 c1 unknown interrupted; c2 not_run".
func facts(script string) []Fact {
	var fs []Fact
	for line := range strings.SplitSeq(script, ";") {
		w := strings.Fields(line)
		switch {
		case len(w) == 0:
		case w[1] == "not_run":
			fs = append(fs, Fact{Kind: KindNotRun, Call: w[0]})
		case w[2] == "claim" || w[2] == "renew":
			fs = append(fs, Fact{Kind: FactKind(w[2]), Token: w[0], Call: w[1]})
		default:
			f := Fact{Kind: KindReport, Token: w[0], Call: w[1], Outcome: Outcome(w[2])}
			if len(w) > 3 {
				f.ErrorClass = w[3]
			}
			fs = append(fs, f)
		}
	}
	return fs
}

func TestDecide(t *testing.T) {
	interrupted := func(n int) (s string) {
		for i := range n {
			s += fmt.Sprintf("k%d c1 unknown interrupted;", i)
		}
		return s
	}
	for _, c := range []struct {
		name, facts, call string
		once, keyed       string
	}{
		{"first", "", "c1", "may_claim", "may_claim"},
		{"held", "k1 c1 claim", "c1", "wait", "wait"},
		{"held, only a renewal left", "k1 c1 renew", "c1", "wait", "wait"},
		{"held by another call", "k1 c2 claim", "c1", "wait", "wait"},
		{"succeeded", "k1 c1 claim; k1 c1 succeeded", "c1", "succeeded k1", "succeeded k1"},
		{"succeeded for another call", "k1 c2 succeeded", "c1", "succeeded k1", "succeeded k1"},
		{"succeeded beside an open claim", "k1 c2 succeeded; k2 c1 claim", "c1", "succeeded k1", "succeeded k1"},
		{"succeeded beside a withdrawal", "k1 c2 succeeded; c1 not_run", "c1", "succeeded k1", "succeeded k1"},
		{"withdrawn", "c1 not_run", "c1", "not_run", "not_run"},
		{"withdrawn beside an open claim", "c1 not_run; k1 c2 claim", "c1", "not_run", "not_run"},
		{"another withdrawn", "c2 not_run", "c1", "may_claim", "may_claim"},
		{"failed", "k1 c1 claim; k1 c1 failed", "c1", "failed k1", "failed k1"},
		{"another failed", "k1 c2 failed", "c1", "may_claim", "may_claim"},
		{"timed out", "k1 c1 unknown timeout", "c1", "unknown k1", "unknown k1"},
		{"another timed out", "k1 c2 unknown timeout", "c1", "unknown k1", "may_claim"},
		{"another interrupted", "k1 c2 unknown interrupted", "c1", "unknown k1", "may_claim"},
		{"interrupted", interrupted(1), "c1", "unknown k0", "may_claim"},
		{"interrupted 7 times", interrupted(7), "c1", "unknown k0", "may_claim"},
		{"interrupted 8 times", interrupted(8), "c1", "unknown k0", "unknown k0"},
		{"lease over, then the holder timed out", "k1 c1 unknown interrupted; k1 c1 unknown timeout", "c1", "unknown k1", "unknown k1"},
		{"lease over, then the holder failed", "k1 c1 unknown interrupted; k1 c1 failed", "c1", "failed k1", "failed k1"},
		{"lease over, then the holder succeeded", "k1 c1 succeeded; k1 c1 unknown interrupted", "c1", "succeeded k1", "succeeded k1"},
		{"one interrupted, one timed out", "k1 c1 unknown interrupted; k2 c1 unknown timeout", "c1", "unknown k2", "unknown k2"},
		{"one failed, one interrupted", "k1 c1 failed; k2 c1 unknown interrupted", "c1", "unknown k2", "unknown k2"},
		{"failed, another unknown", "k1 c1 failed; k2 c2 unknown timeout", "c1", "failed k1", "failed k1"},
		{"outcome from the future", "k1 c1 maybe", "c1", "unknown k1", "unknown k1"},
	} {
		v := Join(facts(c.facts))
		for class, want := range map[Class]string{Once: c.once, Keyed: c.keyed, Read: c.keyed} {
			d := v.Decide(class, c.call, Limits{})
			got := d.Kind.String()
			if d.Kind == Replay {
				got = strings.TrimSpace(fmt.Sprint(d.Outcome, " ", d.Token))
			}
			if got != want {
				t.Errorf("%s, %s: %s, want %s", c.name, class, got, want)
			}
		}
	}
}

func TestDecideDetails(t *testing.T) {
	v := Join(facts("k3 c2 claim; k1 c1 claim; k2 c1 failed; k4 c2 failed; k5 c2 unknown timeout"))
	d := v.Decide(Keyed, "c1", Limits{})
	if d.Kind != Wait || !slices.Equal(d.Open, []string{"k1", "k3"}) || d.FailedClaims != 2 || !d.Unaccounted {
		t.Errorf("%+v", d)
	}
	if d := Join(facts("k2 c2 failed")).Decide(Keyed, "c1", Limits{}); d.Unaccounted || d.FailedClaims != 1 {
		t.Errorf("all accounted for: %+v", d)
	}
	v = Join(facts("k1 c1 unknown interrupted"))
	if d := v.Decide(Keyed, "c1", Limits{ClaimsMax: 1}); d.Kind != Replay {
		t.Errorf("beyond the cap: %+v", d)
	}
	if d := v.Decide(Keyed, "c1", Limits{Settled: true}); d.Kind != Replay || d.Outcome != Unknown {
		t.Errorf("a settled call ran again: %+v", d)
	}
	if d := Join(nil).Decide(Read, "c1", Limits{Settled: true}); d.Kind != Replay || d.Outcome != Unknown {
		t.Errorf("a settled call without facts ran again: %+v", d)
	}
}

// explored is the decision of the model whose state space was searched
// exhaustively, in its own terms, without its rule for starting anew.
func explored(fs []Fact, keyed bool, call string) string {
	calls, outcomes, not := map[string]string{}, map[string]Outcome{}, map[string]bool{}
	for _, f := range fs {
		switch f.Kind {
		case KindNotRun:
			not[f.Call] = true
		case KindReport:
			if o := outcomes[f.Token]; o == "" || o == Unknown {
				outcomes[f.Token] = f.Outcome
			}
			fallthrough
		case KindClaim, KindRenew:
			calls[f.Token] = f.Call
		}
	}
	own, unknowns, open, otherUnknown := 0, 0, 0, 0
	for token, c := range calls {
		o := outcomes[token]
		switch {
		case o == Succeeded:
			return "succeeded"
		case o == "":
			open++
		case c == call && o == Unknown:
			unknowns++
		case c != call && o == Unknown:
			otherUnknown++
		}
		if c == call {
			own++
		}
	}
	switch {
	case not[call]:
		return "not_run"
	case open > 0:
		return "wait"
	case own > 0 && unknowns > 0:
		return "unknown"
	case own > 0:
		return "failed"
	case otherUnknown > 0 && !keyed:
		return "unknown"
	}
	return "may_claim"
}

func TestDecideAsExplored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := map[string]Outcome{} // a token has one call and at most one known outcome
		var fs []Fact
		for range rapid.IntRange(0, 8).Draw(t, "facts") {
			f := Fact{Kind: rapid.SampledFrom([]FactKind{KindClaim, KindReport, KindReport, KindNotRun}).Draw(t, "kind")}
			n := rapid.IntRange(1, 4).Draw(t, "token")
			f.Token, f.Call = fmt.Sprint("k", n), fmt.Sprint("c", n%3)
			if f.Kind == KindReport {
				f.Outcome = rapid.SampledFrom([]Outcome{Succeeded, Failed, Failed, Unknown, Unknown}).Draw(t, "outcome")
				if k, ok := known[f.Token]; ok && f.Outcome != Unknown {
					f.Outcome = k
				} else if f.Outcome != Unknown {
					known[f.Token] = f.Outcome
				}
			}
			fs = append(fs, f)
		}
		for _, class := range []Class{Once, Keyed, Read} {
			d := Join(fs).Decide(class, "c1", Limits{})
			got := d.Kind.String()
			if d.Kind == Replay {
				got = string(d.Outcome)
			}
			if want := explored(fs, class != Once, "c1"); got != want {
				t.Fatalf("%s: %s, explored: %s", class, got, want)
			}
		}
	})
}
