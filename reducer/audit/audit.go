package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// record is a turn as the logs have it.
type record struct {
	turn    subjects.Turn
	notes   *Notes
	events  []jet.Msg
	outputs []jet.Msg
	facts   *Facts
	written uint64 // input up to which the partition's owner has written
}

// Turn audits one turn. A turn without events gives a Verdict with Events 0.
func Turn(ctx context.Context, conn *jet.Conn, partitions int, t subjects.Turn) (Verdict, error) {
	r, err := read(ctx, conn, partitions, t)
	if err != nil {
		return Verdict{}, fmt.Errorf("audit %s: %w", t, err)
	}
	if _, gone := r.notes.Erased[t.String()]; gone {
		return erased(t), nil
	}
	a := newTurnAudit(t, r.notes)
	for _, m := range r.events {
		e, err := turns.Decode(t, m) // malformed: an unknown event that the fold skips
		if errors.Is(err, subjects.ErrNewer) {
			return Verdict{}, fmt.Errorf("audit %s: event %d: %w", t, m.Seq, err)
		}
		if a.events == 0 {
			a.firstEV = m.Seq
		}
		a.event(e)
	}
	for i := range a.state.Steps {
		for _, c := range a.state.Steps[i].Calls {
			if err := r.facts.load(ctx, conn, partitions, c.Key); err != nil {
				return Verdict{}, fmt.Errorf("audit %s: %w", t, err)
			}
		}
	}
	chained := false
	for _, m := range r.outputs {
		stamp, err := reducer.ReadStamp(m)
		_, _, lane, err2 := subjects.ParseOut(m.Subject)
		if err != nil || err2 != nil {
			a.found.add("I8", streamOUT, m.Seq, "it is not of a turnfold: %v %v", err, err2)
			continue
		}
		chained = chained || stamp.Chain != ""
		a.output(m, lane, stamp, chained)
	}
	v := a.judge(r.facts, r.written, false)
	return v, nil
}

// load reads what FX has of a key.
func (f *Facts) load(ctx context.Context, conn *jet.Conn, partitions int, key string) error {
	if key == "" || f.keys[f.hash(key)] != nil {
		return nil
	}
	p := subjects.KeyPartition(key, partitions)
	facts, _, err := conn.FactsOf(ctx, p, key)
	if err != nil {
		return err
	}
	for _, m := range facts {
		if err := f.Add(p, m); err != nil {
			return err
		}
	}
	_, err = conn.ReadSubject(ctx, subjects.EffectsStream(p), subjects.EffectBody(p, key), 1, 0, func(m jet.Msg) error {
		return f.Add(p, m)
	})
	return err
}

// read takes OUT before EV: what was said then has its cause in what is read after.
func read(ctx context.Context, conn *jet.Conn, partitions int, t subjects.Turn) (*record, error) {
	p := t.Partition(partitions)
	r := &record{turn: t, facts: NewFacts()}
	into := func(list *[]jet.Msg) func(jet.Msg) error {
		return func(m jet.Msg) error { *list = append(*list, m); return nil }
	}
	last, ok, err := conn.LastOf(ctx, subjects.OutputsStream(p), "tf.out.>")
	if err != nil {
		return nil, err
	}
	if ok {
		stamp, err := reducer.ReadStamp(last)
		if err != nil {
			return nil, err
		}
		r.written = stamp.In
	}
	if _, err := conn.ReadSubject(ctx, subjects.OutputsStream(p), subjects.OutTurn(p, t), 1, 0, into(&r.outputs)); err != nil {
		return nil, err
	}
	if _, err := conn.ReadSubject(ctx, subjects.EventsStream(p), subjects.Events(p, t), 1, 0, into(&r.events)); err != nil {
		return nil, err
	}
	r.notes, err = LoadNotes(ctx, conn, p)
	return r, err
}
