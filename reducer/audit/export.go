package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Export says what to put into a bundle.
type Export struct {
	Turn    subjects.Turn // one turn, or
	Since   time.Time     // all that was stored since; zero: all there is
	Binary  string
	Key     ed25519.PrivateKey // signs the manifest, if set
	Written func(uint64)       // is told of every message, if set
}

var (
	// ErrNoTurn: the log has no event of the turn.
	ErrNoTurn = errors.New("there is no such turn")
	// ErrErased: the turn's content was taken away on purpose.
	ErrErased = errors.New("the turn was erased")
)

// Deployment names the deployment that a log is of, by what no other one has: when its
// first stream was made. It survives backup and restore.
func (l Log) Deployment(ctx context.Context) (string, error) {
	st, err := l.Conn.State(ctx, subjects.EventsStream(0))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(st.Created.UTC().Format(time.RFC3339Nano) + "/" + strconv.Itoa(l.Partitions)))
	return hex.EncodeToString(sum[:8]), nil
}

// Export writes a bundle of what the log has at the time of the call.
func (l Log) Export(ctx context.Context, w io.Writer, e Export) error {
	h := Head{Partitions: l.Partitions, Binary: e.Binary, Created: time.Now().UTC().Format(time.RFC3339), From: make(Positions, l.Partitions)}
	var err error
	if h.Deployment, err = l.Deployment(ctx); err != nil {
		return err
	}
	for p := range h.From {
		h.From[p] = Position{1, 1}
	}
	x := &exporting{log: l, e: e, written: e.Written}
	if x.written == nil {
		x.written = func(uint64) {}
	}
	if e.Turn.ID != "" {
		h.Turn = e.Turn.String()
		return x.turn(ctx, w, h)
	}
	return x.all(ctx, w, h)
}

type exporting struct {
	log     Log
	e       Export
	b       *Writer
	n       uint64
	written func(uint64)
}

func (x *exporting) add(stream string, m jet.Msg) error {
	x.n++
	x.written(x.n)
	return x.b.Add(stream, m)
}

// all writes notes, facts, and then every partition as cause and effect.
func (x *exporting) all(ctx context.Context, w io.Writer, h Head) error {
	s := &scanning{log: x.log, opts: Scan{Since: x.e.Since}}
	merges := make([]*merge, x.log.Partitions)
	for p := range merges {
		var err error
		if merges[p], err = s.merge(ctx, p); err != nil {
			return err
		}
		h.From[p] = Position{merges[p].fromEV, merges[p].fromOUT}
	}
	if !x.e.Since.IsZero() {
		h.Since = x.e.Since.UTC().Format(time.RFC3339Nano)
	}
	var err error
	if x.b, err = NewWriter(w, h); err != nil {
		return err
	}
	for p := range merges {
		if err := x.notes(ctx, p); err != nil {
			return err
		}
	}
	for p := range merges {
		stream := subjects.EffectsStream(p)
		from, err := s.begin(ctx, stream)
		if err == nil {
			err = x.log.Conn.Scan(ctx, stream, from, 0, func(m jet.Msg) error { return x.add(stream, m) })
		}
		if err != nil {
			return err
		}
	}
	for p, m := range merges {
		err := m.run(ctx, func(m jet.Msg) error { return x.add(subjects.EventsStream(p), m) },
			func(m jet.Msg, _ reducer.Stamp, _ error) error { return x.add(subjects.OutputsStream(p), m) })
		if err != nil {
			return err
		}
	}
	return x.b.Close(x.e.Key)
}

func (x *exporting) notes(ctx context.Context, p int) error {
	_, err := x.log.Conn.ReadSubject(ctx, subjects.OutputsStream(p), subjects.OutPosition(p), 1, 0, func(m jet.Msg) error {
		return x.add(subjects.OutputsStream(p), m)
	})
	return err
}

// rewinds are the notes that concern a turn which was not erased.
func (x *exporting) rewinds(ctx context.Context, p int) error {
	_, err := x.log.Conn.ReadSubject(ctx, subjects.OutputsStream(p), subjects.OutPosition(p), 1, 0, func(m jet.Msg) error {
		var head struct {
			Type string `json:"type"`
		}
		if subjects.Open(m.Data, &head) == nil && head.Type == reducer.TypeErased {
			return nil
		}
		return x.add(subjects.OutputsStream(p), m)
	})
	return err
}

// turn writes one turn: its own messages alone, found by their subjects.
func (x *exporting) turn(ctx context.Context, w io.Writer, h Head) error {
	t, p := x.e.Turn, x.e.Turn.Partition(x.log.Partitions)
	r, err := read(ctx, x.log.Conn, x.log.Partitions, t)
	if err != nil {
		return err
	}
	if _, gone := r.notes.Erased[t.String()]; gone {
		return fmt.Errorf("export %s: %w", t, ErrErased)
	}
	if len(r.events) == 0 {
		return fmt.Errorf("export %s: %w", t, ErrNoTurn)
	}
	if x.b, err = NewWriter(w, h); err != nil {
		return err
	}
	if err := x.rewinds(ctx, p); err != nil {
		return err
	}
	for _, key := range keysOf(t, r.events) {
		q := subjects.KeyPartition(key, x.log.Partitions)
		for _, subject := range []string{subjects.Effect(q, key), subjects.EffectBody(q, key)} {
			_, err := x.log.Conn.ReadSubject(ctx, subjects.EffectsStream(q), subject, 1, 0, func(m jet.Msg) error {
				return x.add(subjects.EffectsStream(q), m)
			})
			if err != nil {
				return err
			}
		}
	}
	next := 0
	upTo := func(seq uint64) error {
		for ; next < len(r.events) && r.events[next].Seq <= seq; next++ {
			if err := x.add(subjects.EventsStream(p), r.events[next]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, m := range r.outputs {
		stamp, _ := reducer.ReadStamp(m) // without one it comes where it is; the audit names it
		if err := upTo(stamp.In); err != nil {
			return err
		}
		if err := x.add(subjects.OutputsStream(p), m); err != nil {
			return err
		}
	}
	if err := upTo(1<<64 - 1); err != nil {
		return err
	}
	return x.b.Close(x.e.Key)
}

// keysOf are the effect keys that a turn's events lead to.
func keysOf(t subjects.Turn, events []jet.Msg) []string {
	s := fold.State{Turn: t}
	for _, m := range events {
		e, _ := turns.Decode(t, m)
		s, _, _ = fold.Guarded(s, e)
	}
	var keys []string
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.Key != "" && !slices.Contains(keys, c.Key) {
				keys = append(keys, c.Key)
			}
		}
	}
	return keys
}
