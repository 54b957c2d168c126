package executor

import (
	"testing"

	"github.com/turnfold/turnfold/subjects/effect"
)

func claimed(token, call string) effect.Fact {
	return effect.Fact{Kind: effect.KindClaim, Token: token, Call: call}
}

func reported(token, call string, o effect.Outcome, class string) effect.Fact {
	return effect.Fact{Kind: effect.KindReport, Token: token, Call: call, Outcome: o, ErrorClass: class}
}

func TestJudge(t *testing.T) {
	cut, timeout := effect.Interrupted, "timeout"
	notRun := effect.Fact{Kind: effect.KindNotRun, Call: "me"}
	for _, c := range []struct {
		name  string
		facts []effect.Fact
		q     question
		want  act
		out   effect.Outcome
	}{
		{"nothing known", nil, question{}, actClaim, ""},
		{"nothing known, unfit", nil, question{unfit: true}, actRefuse, ""},
		{"nothing known, withdrawn", nil, question{withdrawn: true}, actNotRun, ""},
		{"nothing known, settled by the turn", nil, question{standing: standingSettled}, actDropped, ""},
		{"nothing known, absent", nil, question{standing: standingAbsent}, actDropped, ""},
		{"withdrawn and settled", nil, question{withdrawn: true, standing: standingSettled}, actDropped, ""},
		{"not_run", []effect.Fact{notRun}, question{}, actSettle, effect.NotRun},
		{"not_run, withdrawn again", []effect.Fact{notRun}, question{withdrawn: true}, actSettle, effect.NotRun},
		{"another's claim is open", []effect.Fact{claimed("a", "other")}, question{}, actWait, ""},
		{"another's claim is open, unfit", []effect.Fact{claimed("a", "other")}, question{unfit: true}, actWait, ""},
		{"another's claim is open, withdrawn", []effect.Fact{claimed("a", "other")}, question{withdrawn: true}, actNotRun, ""},
		{"own claim is open, withdrawn", []effect.Fact{claimed("a", "me")}, question{withdrawn: true}, actWait, ""},
		{"own interrupted, keyed", []effect.Fact{reported("a", "me", effect.Unknown, cut)}, question{class: effect.Keyed}, actClaim, ""},
		{"own interrupted, once", []effect.Fact{reported("a", "me", effect.Unknown, cut)}, question{}, actSettle, effect.Unknown},
		{"own interrupted, keyed, withdrawn", []effect.Fact{reported("a", "me", effect.Unknown, cut)}, question{class: effect.Keyed, withdrawn: true}, actSettle, effect.Unknown},
		{"own interrupted, keyed, tool is gone", []effect.Fact{reported("a", "me", effect.Unknown, cut)}, question{class: effect.Keyed, unfit: true}, actSettle, effect.Unknown},
		{"own interrupted, keyed, settled", []effect.Fact{reported("a", "me", effect.Unknown, cut)}, question{class: effect.Keyed, standing: standingSettled}, actSettle, effect.Unknown},
		{"own timeout, keyed", []effect.Fact{reported("a", "me", effect.Unknown, timeout)}, question{class: effect.Keyed}, actSettle, effect.Unknown},
		{"one of two failed", []effect.Fact{reported("a", "me", effect.Failed, "x"), reported("b", "me", effect.Unknown, cut)}, question{}, actSettle, effect.Unknown},
		{"own failed", []effect.Fact{reported("a", "me", effect.Failed, "x")}, question{}, actSettle, effect.Failed},
		{"own failed, withdrawn", []effect.Fact{reported("a", "me", effect.Failed, "x")}, question{withdrawn: true}, actSettle, effect.Failed},
		{"another's failed", []effect.Fact{reported("a", "other", effect.Failed, "x")}, question{}, actClaim, ""},
		{"another's unknown, once", []effect.Fact{reported("a", "other", effect.Unknown, timeout)}, question{}, actSettle, effect.Unknown},
		{"another's unknown, keyed", []effect.Fact{reported("a", "other", effect.Unknown, timeout)}, question{class: effect.Keyed}, actClaim, ""},
		{"another's unknown, withdrawn", []effect.Fact{reported("a", "other", effect.Unknown, timeout)}, question{withdrawn: true}, actNotRun, ""},
		{"success beats everything", []effect.Fact{notRun, claimed("b", "me"), reported("a", "other", effect.Succeeded, "")}, question{withdrawn: true, unfit: true, standing: standingAbsent}, actSettle, effect.Succeeded},
	} {
		c.q.call = "me"
		if c.q.class == "" {
			c.q.class = effect.Once
		}
		v := judge(effect.Join(c.facts), c.q)
		if v.act != c.want || v.decision.Outcome != c.out && v.act == actSettle {
			t.Errorf("%s: act %d %s, want %d %s", c.name, v.act, v.decision.Outcome, c.want, c.out)
		}
	}
}

func TestMissing(t *testing.T) {
	done := reported("a", "me", effect.Succeeded, "")
	doubt := reported("a", "me", effect.Unknown, effect.Interrupted)
	late := reported("a", "me", effect.Unknown, "timeout")
	for _, c := range []struct {
		name       string
		known, own []effect.Fact
		want       int
	}{
		{"all there", []effect.Fact{claimed("a", "me"), done}, []effect.Fact{claimed("a", "me"), done}, 0},
		{"nothing there", nil, []effect.Fact{claimed("a", "me"), done}, 2},
		{"a success among doubts", []effect.Fact{doubt}, []effect.Fact{done}, 1},
		{"an interruption says less", []effect.Fact{late}, []effect.Fact{doubt}, 0},
		{"a timeout says more", []effect.Fact{doubt}, []effect.Fact{late}, 1},
		{"a claim of another call", []effect.Fact{claimed("a", "other")}, []effect.Fact{claimed("a", "me")}, 1},
	} {
		if n := len(missing(c.known, c.own)); n != c.want {
			t.Errorf("%s: %d missing, want %d", c.name, n, c.want)
		}
	}
}
