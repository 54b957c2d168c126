// Package turns reads turns from the log: their events folded into a state, and the
// index of those that have not written their last output.
//
// Invariant: a state read here is the fold of a prefix of the turn's events, without
// a gap, up to a sequence that the caller names or the stream's leader knew.
package turns

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Reader reads turns of one deployment.
type Reader struct {
	conn       *jet.Conn
	partitions int
	open       *jet.Bucket
	unknown    *jet.Bucket
	erasures   *jet.Bucket
}

// NewReader reads over conn from a deployment with this many partitions.
func NewReader(conn *jet.Conn, partitions int) *Reader {
	return &Reader{conn: conn, partitions: partitions, open: conn.Bucket(subjects.BucketOpenTurns),
		unknown: conn.Bucket(subjects.BucketUnknown), erasures: conn.Bucket(subjects.BucketErasures)}
}

// Load folds a turn's events up to and including sequence until; 0 means all that the
// stream's leader has. An event that this binary cannot read is skipped and counted in
// State.Skipped. A turn without events gives a State with Status Absent.
func (r *Reader) Load(ctx context.Context, t subjects.Turn, until uint64) (fold.State, error) {
	s := fold.State{Turn: t}
	err := r.Each(ctx, t, until, func(e event.Event) error {
		s, _, _ = fold.Guarded(s, e) // a panic is counted in Skipped
		return nil
	})
	return s, err
}

// Each hands over a turn's events in order, up to and including sequence until (0 =
// all). Bytes that are no event come as *event.Unknown, so that every reader of the
// log sees, counts and skips the same.
func (r *Reader) Each(ctx context.Context, t subjects.Turn, until uint64, fn func(event.Event) error) error {
	return r.each(ctx, t, 1, until, fn)
}

// EachAfter is Each for the events after a sequence, up to all that the leader has.
func (r *Reader) EachAfter(ctx context.Context, t subjects.Turn, after uint64, fn func(event.Event) error) error {
	return r.each(ctx, t, after+1, 0, fn)
}

func (r *Reader) each(ctx context.Context, t subjects.Turn, from, until uint64, fn func(event.Event) error) error {
	p := t.Partition(r.partitions)
	_, err := r.conn.ReadSubject(ctx, subjects.EventsStream(p), subjects.Events(p, t), from, until, func(m jet.Msg) error {
		e, err := Decode(t, m)
		if errors.Is(err, subjects.ErrNewer) {
			return err
		}
		return fn(e)
	})
	if err != nil {
		return fmt.Errorf("read turn %s: %w", t, err)
	}
	return nil
}

// Decode reads an event of a turn. With an error that wraps subjects.ErrMalformed the
// event is still usable: it is an *event.Unknown that the fold counts and skips.
func Decode(t subjects.Turn, m jet.Msg) (event.Event, error) {
	body, err := event.Decode(m.Data)
	if err != nil {
		body = &event.Unknown{Name: "malformed", Raw: m.Data}
	}
	e := event.Event{Turn: t, Seq: m.Seq, Sum: event.SumOf(m.Subject, m.Data), Body: body}
	if !m.Time.IsZero() {
		e.AtMS = m.Time.UnixMilli()
	}
	if at, perr := strconv.ParseInt(m.Header[HeaderAt], 10, 64); perr == nil {
		e.AtMS = at
	}
	return e, err
}

// HeaderAt is on an event that was put back from an archive: when the log had stored it
// first, in milliseconds since 1970. The fold's clock is that of the first time.
const HeaderAt = "Tf-At"

// Open lists the turns of a partition in the index; partition -1 lists all.
func (r *Reader) Open(ctx context.Context, partition int) ([]subjects.Turn, error) {
	filter := ">"
	if partition >= 0 {
		filter = strconv.Itoa(partition) + ".>"
	}
	keys, err := r.open.Keys(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("list open turns: %w", err)
	}
	out := make([]subjects.Turn, 0, len(keys))
	for _, k := range keys {
		part := strings.Split(k, ".")
		if len(part) == 3 {
			out = append(out, subjects.Turn{Tenant: part[1], ID: part[2]})
		}
	}
	return out, nil
}

// Watch calls fn with every turn of the index, then with each that comes or goes,
// until ctx ends.
func (r *Reader) Watch(ctx context.Context, fn func(t subjects.Turn, open bool)) error {
	return r.open.Watch(ctx, "", func(key string, _ []byte, _ uint64, deleted bool) {
		if part := strings.Split(key, "."); len(part) == 3 {
			fn(subjects.Turn{Tenant: part[1], ID: part[2]}, !deleted)
		}
	})
}

// MarkOpen puts a turn into the index. It comes before the turn's first event, so that
// no stored turn is missing there.
func (r *Reader) MarkOpen(ctx context.Context, t subjects.Turn) error {
	if _, err := r.open.Put(ctx, r.indexKey(t), nil); err != nil {
		return fmt.Errorf("index turn %s: %w", t, err)
	}
	return nil
}

// MarkDone takes a turn out of the index, after its last output is stored.
func (r *Reader) MarkDone(ctx context.Context, t subjects.Turn) error {
	if err := r.open.Delete(ctx, r.indexKey(t)); err != nil {
		return fmt.Errorf("unindex turn %s: %w", t, err)
	}
	return nil
}

func (r *Reader) indexKey(t subjects.Turn) string {
	return strconv.Itoa(t.Partition(r.partitions)) + "." + t.Tenant + "." + t.ID
}
