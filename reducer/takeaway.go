package reducer

import (
	"context"
	"slices"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// takeAway removes the content from every log.
func (e *eraser) takeAway(ctx context.Context, t subjects.Turn, order *turns.Erasure) error {
	s := e.s
	order.Left = nil
	note := func(stream string, x jet.Erasure, err error) error {
		if x.Left && !slices.Contains(order.Left, stream) {
			order.Left = append(order.Left, stream)
		}
		return err
	}
	for _, c := range order.Calls {
		n, err := e.effects(ctx, t, c, note)
		order.Bodies += n
		if err != nil {
			return err
		}
	}
	x, err := s.conn().Bucket(subjects.BucketMessages).Erase(ctx, t.Tenant+"."+t.ID)
	if err := note(subjects.BucketMessages, x, err); err != nil {
		return err
	}
	x, err = s.conn().Erase(ctx, subjects.OutputsStream(s.p), subjects.OutTurn(s.p, t), nil)
	if err := note(subjects.OutputsStream(s.p), x, err); err != nil {
		return err
	}
	x, err = s.conn().Erase(ctx, subjects.EventsStream(s.p), subjects.Events(s.p, t), func(m jet.Msg) bool {
		b, err := event.Decode(m.Data)
		_, tomb := b.(*event.TurnErased)
		return err != nil || !tomb
	})
	if err := note(subjects.EventsStream(s.p), x, err); err != nil {
		return err
	}
	if err := s.r.turns.ForgetUnknown(ctx, t); err != nil {
		return err
	}
	return s.r.turns.MarkDone(ctx, t)
}

// factsOf are the facts of a call's claims.
func (e *eraser) factsOf(ctx context.Context, t subjects.Turn, c turns.ErasedCall) ([]effect.Fact, error) {
	facts, _, err := e.s.conn().FactsOf(ctx, subjects.KeyPartition(c.Key, e.s.r.cfg.Partitions), c.Key)
	if err != nil {
		return nil, err
	}
	var out []effect.Fact
	for _, m := range facts {
		f, err := effect.DecodeFact(m.Data)
		if err != nil {
			return nil, err
		}
		if f.Call == t.String()+"/"+c.Call {
			out = append(out, f)
		}
	}
	return out, nil
}

// effects takes the results of a call's claims off the effects log, and what its reports
// say in words. That they are there, and how they ended, stays for ever.
func (e *eraser) effects(ctx context.Context, t subjects.Turn, c turns.ErasedCall, note func(string, jet.Erasure, error) error) (int, error) {
	facts, err := e.factsOf(ctx, t, c)
	if err != nil {
		return 0, err
	}
	p := subjects.KeyPartition(c.Key, e.s.r.cfg.Partitions)
	stream := subjects.EffectsStream(p)
	said, marked, wordy := map[string]bool{}, map[string]bool{}, false
	for _, f := range facts {
		said[f.Token] = true
		marked[f.Token] = marked[f.Token] || f.Kind == effect.KindErased
		wordy = wordy || words(f)
	}
	delete(said, "") // a withdrawal has no claim
	for _, f := range facts {
		if words(f) {
			f.Detail, f.Why = "", ""
			if err := e.s.conn().AppendFact(ctx, p, c.Key, effect.EncodeFact(f)); err != nil {
				return 0, err
			}
		}
	}
	for token := range said {
		if !marked[token] {
			f := effect.Fact{Kind: effect.KindErased, Token: token, Call: t.String() + "/" + c.Call}
			if err := e.s.conn().AppendFact(ctx, p, c.Key, effect.EncodeFact(f)); err != nil {
				return 0, err
			}
		}
	}
	if wordy {
		x, err := e.s.conn().Erase(ctx, stream, subjects.Effect(p, c.Key), func(m jet.Msg) bool {
			f, err := effect.DecodeFact(m.Data)
			return err == nil && f.Call == t.String()+"/"+c.Call && words(f)
		})
		if err := note(stream, x, err); err != nil {
			return 0, err
		}
	}
	x, err := e.s.conn().Erase(ctx, stream, subjects.EffectBody(p, c.Key), func(m jet.Msg) bool {
		return said[m.Header[jet.TokenHeader]]
	})
	return x.Messages, note(stream, x, err)
}

// words reports whether a fact says more than what happened.
func words(f effect.Fact) bool { return f.Detail != "" || f.Why != "" }

// without lists what of a is not in b.
func without(a, b []string) []string {
	var out []string
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// cameBack reports whether a log has content of an erased turn again, as after a power
// cut that took an overwritten file back.
func (e *eraser) cameBack(ctx context.Context, t subjects.Turn, order turns.Erasure) (bool, error) {
	s := e.s
	_, ok, err := s.conn().LastOf(ctx, subjects.OutputsStream(s.p), subjects.OutTurn(s.p, t))
	if err != nil || ok {
		return ok, err
	}
	if _, _, ok, err = s.conn().Bucket(subjects.BucketMessages).Get(ctx, t.Tenant+"."+t.ID); err != nil || ok {
		return ok, err
	}
	for _, c := range order.Calls {
		p := subjects.KeyPartition(c.Key, s.r.cfg.Partitions)
		if _, ok, err = s.conn().LastOf(ctx, subjects.EffectsStream(p), subjects.EffectBody(p, c.Key)); err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		facts, err := e.factsOf(ctx, t, c)
		if err != nil {
			return false, err
		}
		for _, f := range facts {
			if _, ok, err := s.conn().Body(ctx, p, c.Key, f.Token); f.Token != "" && (err != nil || ok) {
				return ok, err
			}
		}
	}
	return false, nil
}
