package keystore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Facts returns what this host knows of key, as facts that it may publish.
func (s *Store) Facts(key string) ([]effect.Fact, error) {
	var facts []effect.Fact
	err := s.eachRow(key, func(row []byte, value []byte) error {
		_, fs, err := s.rowFacts(row, value)
		facts = append(facts, fs...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("facts of %s: %w", key, err)
	}
	return facts, nil
}

// Glance is what a store knows of a key at first sight.
type Glance struct {
	Known bool // there is a fact of the key
	// Success is the success stored for the key, with its body: that of effect.View,
	// the first with a body, else the first. Nil: there is none.
	Success *Report
}

// Glance looks at a key once.
func (s *Store) Glance(key string) (g Glance, err error) {
	err = s.eachRow(key, func(row []byte, value []byte) error {
		g.Known = true
		_, token, r, err := splitRow(row, value)
		if err != nil || r.outcome != effect.Succeeded {
			return err
		}
		if rep := r.report(key, token); g.Success == nil || better(rep, *g.Success) {
			g.Success = &rep
		}
		return nil
	})
	if f := g.Success; err == nil && f != nil && f.Body == nil && f.BodyDigest != "" {
		f.Body, _, err = s.Body(key, f.Token)
	}
	if err != nil {
		return Glance{}, fmt.Errorf("look at %s: %w", key, err)
	}
	return g, nil
}

// Reported returns the report of one claim as a fact; it is not ok if there is none.
func (s *Store) Reported(key, token string) (f effect.Fact, ok bool, err error) {
	r, ok, err := s.read(key, token, false)
	if err != nil {
		return effect.Fact{}, false, fmt.Errorf("report of %s %s: %w", key, token, err)
	}
	if !ok || r.outcome == "" {
		return effect.Fact{}, false, nil
	}
	return r.reportFact(s.host, token), true, nil
}

// read is what is known of one claim, with its body if that is asked for and kept here.
func (s *Store) read(key, token string, body bool) (r record, ok bool, err error) {
	if err := s.enter(context.Background()); err != nil {
		return record{}, false, err
	}
	defer s.leave()
	g := s.guard(key)
	g.RLock()
	defer g.RUnlock()
	r, ok, err = s.claim(g, key, token)
	if err == nil && body && r.place == bodyRowed {
		if r.body, ok, err = get(s.db, bodyRow(key, token)); err == nil && !ok {
			err = fmt.Errorf("%w: the body is missing", ErrCorrupt)
		}
	}
	return r, ok, err
}

// better chooses as effect.View.Succeeded does. Rows come in the order of packed
// tokens, which need not be that of their texts.
func better(a, b Report) bool {
	if (a.BodyDigest != "") != (b.BodyDigest != "") {
		return a.BodyDigest != ""
	}
	return a.Token < b.Token
}

// Body returns the result body of a claim; it is not ok if none is kept here.
func (s *Store) Body(key, token string) (body []byte, ok bool, err error) {
	r, _, err := s.read(key, token, true)
	if err != nil {
		return nil, false, fmt.Errorf("body of %s %s: %w", key, token, err)
	}
	return r.body, r.place == bodyInline || r.place == bodyRowed, nil
}

// Interrupted returns the intents without a report that earlier incarnations of
// this host left: whether their effects happened is in doubt.
func (s *Store) Interrupted() ([]Intent, error) {
	var found []Intent
	err := s.eachPending(func(p pendingClaim) error {
		if p.incarnation < s.incarnation && p.record.outcome == "" {
			in := p.record.intent(p.key, p.token)
			in.Command = p.command
			found = append(found, in)
		}
		return nil
	})
	return found, err
}

// Unsettled is a report that is not known to be published.
type Unsettled struct {
	Report         // without its Body, which may be large: see Store.Body
	Command []byte // nil if an earlier report of the claim was published
}

// Outbox returns the reports that are not known to be published, by this
// incarnation or an earlier one.
func (s *Store) Outbox() ([]Unsettled, error) {
	var found []Unsettled
	err := s.eachPending(func(p pendingClaim) error {
		if p.record.outcome != "" {
			u := Unsettled{Report: p.record.report(p.key, p.token), Command: p.command}
			u.Body = nil
			found = append(found, u)
		}
		return nil
	})
	return found, err
}

// All calls fn with the facts of every key, in no promised order, as they were
// when it started, perhaps before their sync. It stops at fn's first error. An
// intent whose claim is not published yet is among them: the caller knows which.
func (s *Store) All(fn func(key string, facts []effect.Fact) error) error {
	if err := s.enter(context.Background()); err != nil {
		return err
	}
	defer s.leave()
	key, facts := "", []effect.Fact(nil)
	emit := func() error {
		if len(facts) == 0 {
			return nil
		}
		return fn(key, facts)
	}
	err := each(s.db, []byte{rowFact}, func(row, value []byte) error {
		k, fs, err := s.rowFacts(row, value)
		if err != nil {
			return err
		}
		if k != key {
			if err := emit(); err != nil {
				return err
			}
			key, facts = k, nil
		}
		facts = append(facts, fs...)
		return nil
	})
	if err != nil {
		return err
	}
	return emit()
}

// eachRow calls fn with the fact rows of one key while nobody writes it.
func (s *Store) eachRow(key string, fn func(row, value []byte) error) error {
	if err := s.enter(context.Background()); err != nil {
		return err
	}
	defer s.leave()
	g := s.guard(key)
	g.RLock()
	defer g.RUnlock()
	return eachOf(s.db, factRow(key), fn)
}

// pendingClaim is a pending row with the record that it points to.
type pendingClaim struct {
	key, token  string
	incarnation uint64
	command     []byte
	record      record
}

// eachPending reads one moment of the store, so that a claim which is reported
// meanwhile is seen either before or after.
func (s *Store) eachPending(fn func(pendingClaim) error) error {
	if err := s.enter(context.Background()); err != nil {
		return err
	}
	defer s.leave()
	snapshot := s.db.NewSnapshot()
	err := each(snapshot, []byte{rowPending}, func(row, value []byte) error {
		p, err := splitPending(row, value)
		if err != nil {
			return err
		}
		var ok bool
		if p.record, ok, err = s.record(snapshot, p.key, p.token); err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: %s %s is pending without a record", ErrCorrupt, p.key, p.token)
		}
		return fn(p)
	})
	return errors.Join(err, snapshot.Close())
}

func splitPending(row, value []byte) (p pendingClaim, err error) {
	rest := row[1:]
	if p.key, rest, err = unpack(rest); err != nil {
		return p, err
	}
	if p.token, _, err = unpack(rest); err != nil {
		return p, err
	}
	n, size := binary.Uvarint(value)
	if size <= 0 {
		return p, fmt.Errorf("%w: pending row of %s %s", ErrCorrupt, p.key, p.token)
	}
	p.incarnation = n
	if len(value) > size {
		p.command = bytes.Clone(value[size:])
	}
	return p, nil
}

// claim is what is known of one claim, for whoever holds its stripe.
func (s *Store) claim(g *stripe, key, token string) (record, bool, error) {
	if r, ok := g.open[claimID{key, token}]; ok {
		return r, true, nil
	}
	return s.record(s.db, key, token)
}

// record reads what is known of one claim.
func (s *Store) record(r pebble.Reader, key, token string) (record, bool, error) {
	v, ok, err := get(r, tokenRow(key, token))
	if !ok || err != nil {
		return record{}, false, err
	}
	rec, err := decodeRecord(v)
	return rec, err == nil, err
}

// rowFacts returns what one fact row says.
func (s *Store) rowFacts(row, value []byte) (key string, facts []effect.Fact, err error) {
	key, name, r, err := splitRow(row, value)
	switch {
	case err != nil:
		return "", nil, err
	case r.call == "":
		return key, []effect.Fact{{Kind: effect.KindNotRun, Call: name, Host: s.host}}, nil
	}
	if r.claimed {
		facts = append(facts, r.claimFact(s.host, name))
	}
	if r.outcome != "" {
		facts = append(facts, r.reportFact(s.host, name))
	}
	return key, facts, nil
}

// splitRow reads a fact row: a token's with its record, or a withdrawn call's
// with an empty one. The record owns its memory.
func splitRow(row, value []byte) (key, name string, r record, err error) {
	key, rest, err := unpack(row[1:])
	if err != nil {
		return "", "", record{}, err
	}
	switch {
	case len(rest) > 1 && rest[0] == factNotRun:
		return key, string(rest[1:]), record{}, nil
	case len(rest) > 1 && rest[0] == factToken:
		if name, _, err = unpack(rest[1:]); err != nil {
			return "", "", record{}, err
		}
		r, err = decodeRecord(bytes.Clone(value))
		return key, name, r, err
	}
	return "", "", record{}, fmt.Errorf("%w: fact row %q", ErrCorrupt, row)
}

// each calls fn with every row that starts with prefix. Row and value are valid
// during the call only.
func each(r pebble.Reader, prefix []byte, fn func(row, value []byte) error) error {
	it, err := r.NewIter(within(prefix))
	if err != nil {
		return err
	}
	return drain(it, it.First(), fn)
}

// drain calls fn with the row that it stands on, if ok, and those behind, and closes it.
func drain(it *pebble.Iterator, ok bool, fn func(row, value []byte) error) (err error) {
	for ; ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = fn(it.Key(), value)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}
