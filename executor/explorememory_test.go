package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
)

// xmemory is a host's memory as xports shows it. It keeps keystore's rules: a known
// outcome stands, and what is written is there after a crash.
type xmemory struct{ *xports }

// Facts implements memory. What it gives is judged by the claims that the host's other
// processes have not confirmed, so those are part of the answer.
func (m xmemory) Facts(string) ([]effect.Fact, error) {
	v, err := ask(m.xports, 0, func() (pair[[]effect.Fact, []string], uint64) {
		facts, others := m.me().facts(m.host), m.s.unconfirmed(m.p)
		sum := newSum()
		for _, t := range others {
			sum.text(t)
		}
		return pair[[]effect.Fact, []string]{facts, others}, sumFacts(facts) ^ sum.Sum64()
	})
	for t := range m.others {
		m.pending.remove(t)
	}
	clear(m.others)
	for _, t := range v.b {
		m.pending.add(t)
		m.others[t] = true
	}
	return v.a, err
}

// unconfirmed lists the claims that other processes of the host have not confirmed.
func (s *xstate) unconfirmed(p *xproc) []string {
	var out []string
	for i := range s.procs {
		if o := &s.procs[i]; o.host == p.host && o.call != p.call && o.pending != "" {
			out = append(out, o.pending)
		}
	}
	return out
}

// Glance implements memory. The protocol of a call begins anew with it: what the
// process knew before, it knows no more.
func (m xmemory) Glance(key string) (keystore.Glance, error) {
	if !m.parked && m.at == len(m.p.said) {
		m.p.said, m.at = nil, 0
		if m.p.withdrawnAt >= 0 {
			m.p.withdrawnAt = 0
		}
		m.p.ran, m.p.stated, m.p.slot, m.p.tried = m.j.ran, m.j.stated, m.j.slot, m.j.tried
	}
	return ask(m.xports, 0, func() (keystore.Glance, uint64) {
		for _, r := range m.me().recs {
			if r.outcome == effect.Succeeded {
				return keystore.Glance{Known: true, Success: &keystore.Report{Key: key, Token: r.token, Call: r.call,
					Outcome: r.outcome, Body: []byte("r"), BodyDigest: "d"}}, 2
			}
		}
		if len(m.me().recs)+len(m.me().notRun) > 0 {
			return keystore.Glance{Known: true}, 1
		}
		return keystore.Glance{}, 0
	})
}

// Reported implements memory.
func (m xmemory) Reported(_, token string) (effect.Fact, bool, error) {
	v, err := ask(m.xports, 0, func() (pair[effect.Fact, bool], uint64) {
		for _, f := range m.me().facts(m.host) {
			if f.Kind == effect.KindReport && f.Token == token {
				return pair[effect.Fact, bool]{f, true}, sumFacts([]effect.Fact{f})
			}
		}
		return pair[effect.Fact, bool]{}, 0
	})
	return v.a, v.b, err
}

// Body implements memory.
func (m xmemory) Body(string, string) ([]byte, bool, error) { return []byte("r"), true, nil }

// Intent implements journal.
func (m xmemory) Intent(_ context.Context, in keystore.Intent) error {
	_, err := ask(m.xports, opIntent, func() (struct{}, uint64) {
		if !m.x.rules.noIntent {
			m.me().put(xrec{token: in.Token, call: in.Call, claimed: true, pending: true, cmd: len(in.Command) > 0})
		}
		return struct{}{}, 0
	})
	return err
}

// Abandon implements journal.
func (m xmemory) Abandon(_ context.Context, _, token string) error {
	_, err := ask(m.xports, opAbandon, func() (struct{}, uint64) {
		if i, ok := m.me().rec(token); ok {
			m.me().recs = without(m.me().recs, i)
		}
		return struct{}{}, 0
	})
	return err
}

// Report implements journal.
func (m xmemory) Report(_ context.Context, rep keystore.Report) error {
	answer, err := ask(m.xports, opReport, func() (xrefusal, uint64) {
		if m.x.rules.noReport {
			return xrefusal{}, 0
		}
		refused := m.me().report(rep)
		return xrefusal{refused}, map[bool]uint64{true: 1}[refused != nil]
	})
	return errors.Join(answer.refused, err)
}

// xrefusal is what a port said that can only agree or refuse.
type xrefusal struct{ refused error }

func (h *xhost) report(rep keystore.Report) error {
	r := xrec{token: rep.Token, call: rep.Call, pending: true}
	if i, ok := h.rec(rep.Token); ok {
		r = h.recs[i]
	}
	if r.outcome.Known() && rep.Outcome.Known() && r.outcome != rep.Outcome {
		return keystore.ErrOutcomeKnown
	}
	if !r.outcome.Known() && (r.outcome == "" || r.outcome != rep.Outcome || r.class == effect.Interrupted) {
		r.outcome, r.class, r.body, r.pending = rep.Outcome, rep.ErrorClass, rep.Body != nil, true
	}
	h.put(r)
	return nil
}

// NotRun implements journal.
func (m xmemory) NotRun(_ context.Context, _, call string) error {
	_, err := ask(m.xports, opNotRun, func() (struct{}, uint64) {
		if h := m.me(); !slices.Contains(h.notRun, call) {
			h.notRun = grow(h.notRun, call)
		}
		return struct{}{}, 0
	})
	return err
}

// MarkSettled implements journal.
func (m xmemory) MarkSettled(_ context.Context, done []keystore.Settled, _ map[int]keystore.Mark) error {
	_, err := ask(m.xports, 0, func() (struct{}, uint64) {
		for _, d := range done {
			if i, ok := m.me().rec(d.Token); ok && m.me().recs[i].outcome == d.Outcome {
				r := m.me().recs[i]
				r.pending, r.cmd = false, false
				m.me().put(r)
			}
		}
		return struct{}{}, 0
	})
	return err
}

// add and settled implement outbox: here, what is settled is noted at once.
func (m xmemory) add(string) {}

func (m xmemory) settled(ctx context.Context, key string, reports ...effect.Fact) error {
	var done []keystore.Settled
	for _, f := range reports {
		done = append(done, keystore.Settled{Key: key, Token: f.Token, Outcome: f.Outcome})
	}
	return m.MarkSettled(ctx, done, nil)
}

// xpast is the memory as a process finds it at its start.
type xpast struct {
	h   *xhost
	key string
}

// Interrupted implements past.
func (p xpast) Interrupted() ([]keystore.Intent, error) {
	var out []keystore.Intent
	for _, r := range p.h.recs {
		if r.pending && r.outcome == "" {
			out = append(out, keystore.Intent{Key: p.key, Token: r.token, Call: r.call})
		}
	}
	return out, nil
}

// Report implements past.
func (p xpast) Report(_ context.Context, rep keystore.Report) error { return p.h.report(rep) }
