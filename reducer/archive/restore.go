package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

var (
	// ErrUnproven: what a bundle holds contradicts itself.
	ErrUnproven = errors.New("the bundle does not hold")
	// ErrOpen: a turn had not ended when its bundle was written. Put back, it would run
	// again, with everything that it does.
	ErrOpen = errors.New("the turn had not ended")
)

// Restore says into what to put turns back, and from where.
type Restore struct {
	Conn   *jet.Conn
	Layout subjects.Layout
	// Deployment, if set, is the only one whose archives are taken.
	Deployment string
	// Workers are the durable workers of a partition's commands: nothing that is put back
	// is handed to them.
	Workers func(p int) []jet.WorkConfig
	// SpoolDir is where records lie in between; they are gone when the process is.
	SpoolDir string
	// Progress is told what is done, if set.
	Progress func(stage string, done, total int)
}

// Restored is what a restore has put back.
type Restored struct {
	From    string `json:"from"` // the deployment that the archives are of
	Bundles int    `json:"bundles"`
	Turns   int    `json:"turns"`
	Events  int    `json:"events"`
	Outputs int    `json:"outputs"`
	Facts   int    `json:"facts"`
	Keys    int    `json:"keys"` // effects that still deduplicate
}

// Run verifies every source, whole, and only then makes a fresh deployment of them: the
// same events and outputs at the same sequences, the same facts of effects, the messages.
// It runs nothing: no model is asked and no tool is called. A restore that was cut off
// leaves a deployment that nobody serves; run again, it starts over.
func (r Restore) Run(ctx context.Context, sources []Source) (Restored, error) {
	x := &restoring{Restore: r, keys: map[string]bool{}, epochs: make([]uint64, r.Layout.Partitions)}
	if x.Progress == nil {
		x.Progress = func(string, int, int) {}
	}
	if len(sources) == 0 {
		return x.done, errors.New("restore: there is nothing to put back")
	}
	var err error
	if x.spool, err = newSpool(r.SpoolDir); err != nil {
		return x.done, err
	}
	defer x.spool.close()
	if err := x.verify(ctx, sources); err != nil {
		return x.done, fmt.Errorf("restore: %w", err)
	}
	if err := x.put(ctx); err != nil {
		return x.done, fmt.Errorf("restore: %w", err)
	}
	return x.done, nil
}

type restoring struct {
	Restore
	spool  *spool
	turns  []subjects.Turn
	keys   map[string]bool
	epochs []uint64 // rewinds, by partition
	done   Restored
}

// verify audits every bundle, and spools what it holds.
func (x *restoring) verify(ctx context.Context, sources []Source) error {
	for n, s := range sources {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := s.Verify(true, nil)
		if err == nil {
			err = x.accept(e)
		}
		if err == nil {
			err = s.Read(x.take)
		}
		if err != nil {
			return named(s.Path, trimmed(s.Path, err))
		}
		x.done.Bundles++
		x.Progress("verify", n+1, len(sources))
	}
	return x.spool.sort()
}

// trimmed keeps a path from being named twice.
func trimmed(path string, err error) error {
	if strings.HasPrefix(err.Error(), path+": ") && errors.Unwrap(err) != nil {
		return errors.Unwrap(err)
	}
	return err
}

func (x *restoring) accept(e audit.Evidence) error {
	switch {
	case !e.Report.OK:
		return fmt.Errorf("%w: turnfold audit verify names the offences", ErrUnproven)
	case x.Deployment != "" && e.Head.Deployment != x.Deployment:
		return fmt.Errorf("%w: it is of deployment %s, not of %s", audit.ErrForeign, e.Head.Deployment, x.Deployment)
	case x.done.From != "" && e.Head.Deployment != x.done.From:
		return fmt.Errorf("%w: it is of deployment %s, those before are of %s; restore one deployment at a time", audit.ErrForeign, e.Head.Deployment, x.done.From)
	case e.Head.Partitions != x.Layout.Partitions:
		return fmt.Errorf("%w: it is of %d partitions, and partitions is %d here; set it to %d", jet.ErrLayout, e.Head.Partitions, x.Layout.Partitions, e.Head.Partitions)
	}
	x.done.From = e.Head.Deployment
	return nil
}

// take spools a bundle that has been verified.
func (x *restoring) take(r io.Reader) error {
	b, err := audit.NewReader(r)
	if err != nil {
		return err
	}
	states := map[subjects.Turn]fold.State{}
	for {
		stream, m, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(stream, "TF_EV_") {
			if err := x.follow(states, m); err != nil {
				return err
			}
		}
		if key, body, ok := audit.KeyOf(m.Subject); ok && !body {
			x.keys[key] = true
		}
		if err := x.spool.add(stream, m); err != nil {
			return err
		}
	}
	for t, s := range states {
		if s.Status != fold.Absent {
			return fmt.Errorf("turn %s: %w", t, ErrOpen)
		}
	}
	return nil
}

// follow folds a turn, and forgets it when it is over. Later words of it change nothing.
func (x *restoring) follow(states map[subjects.Turn]fold.State, m jet.Msg) error {
	_, t, err := subjects.ParseEvents(m.Subject)
	if err != nil {
		return err
	}
	s, ok := states[t]
	if !ok {
		s = fold.State{Turn: t}
	}
	e, err := turns.Decode(t, m)
	if errors.Is(err, subjects.ErrNewer) {
		return err
	}
	s, _, _ = fold.Guarded(s, e)
	if s.Done() {
		delete(states, t)
		x.turns = append(x.turns, t)
		return nil
	}
	if s.Status == fold.Absent {
		return nil // a late word
	}
	states[t] = s
	return nil
}

// put makes the deployment.
func (x *restoring) put(ctx context.Context) error {
	if err := x.Conn.BeginRestore(ctx, x.Layout, x.firsts()); err != nil {
		return err
	}
	for p := range x.Layout.Partitions {
		if err := x.partition(ctx, p); err != nil {
			return err
		}
	}
	if err := x.messages(ctx); err != nil {
		return err
	}
	log := audit.Log{Conn: x.Conn, Partitions: x.Layout.Partitions}
	report, err := log.All(ctx, audit.Scan{Settled: true})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if !report.OK {
		return fmt.Errorf("%w: what was put back does not audit: %d mismatches, %v", ErrUnproven, report.Mismatches, report.Partitions)
	}
	return x.Conn.EndRestore(ctx, x.Layout)
}

// firsts are the sequences at which the streams begin. That of effects has none to keep.
func (x *restoring) firsts() map[string]uint64 {
	first := map[string]uint64{}
	for p := range x.Layout.Partitions {
		for _, stream := range []string{subjects.EventsStream(p), subjects.OutputsStream(p)} {
			if list := x.spool.places[stream]; len(list) > 0 {
				first[stream] = list[0].seq
			}
		}
	}
	return first
}

func (x *restoring) partition(ctx context.Context, p int) error {
	var last jet.Msg
	x.Progress("put back", p, x.Layout.Partitions)
	n, err := x.stream(ctx, subjects.EffectsStream(p), "", nil)
	x.done.Facts += n
	if err != nil {
		return err
	}
	n, err = x.stream(ctx, subjects.EventsStream(p), subjects.Events(p, gap), func(m *jet.Msg, atMS int64) {
		if m.Header[turns.HeaderAt] == "" {
			m.Header[turns.HeaderAt] = fmt.Sprint(atMS)
		}
		last = *m
	})
	x.done.Events += n
	if err != nil {
		return err
	}
	n, err = x.stream(ctx, subjects.OutputsStream(p), subjects.Out(p, gap, subjects.LaneFeed), func(m *jet.Msg, _ int64) {
		if s, err := reducer.ReadStamp(*m); err == nil {
			x.epochs[p] = max(x.epochs[p], s.Epoch)
		}
	})
	x.done.Outputs += n
	if err != nil || last.Seq == 0 {
		return err
	}
	outs := x.spool.places[subjects.OutputsStream(p)]
	if len(outs) == 0 {
		return nil
	}
	for _, w := range x.Workers(p) {
		if err := x.Conn.SkipWork(ctx, w); err != nil {
			return err
		}
	}
	header, data, err := reducer.Restored{At: time.Now().UTC().Format(time.RFC3339), From: x.done.From,
		Events: last.Seq, Outputs: outs[len(outs)-1].seq}.Message(last, x.epochs[p])
	if err == nil {
		_, err = x.Conn.Publish(ctx, subjects.OutPosition(p), header, data)
	}
	return err
}

// gap is the turn of messages that keep places until those after them are written. It is
// none that a gateway could have opened: its tenant is no token's.
var gap = subjects.Turn{Tenant: "turnfold-restore", ID: "gap"}

// gapsMax is how many such messages there are at a time.
const gapsMax = 100_000

// stream writes the records of a stream at their sequences. Without a filler they follow
// each other, whatever their sequences were.
func (x *restoring) stream(ctx context.Context, stream, filler string, change func(*jet.Msg, int64)) (int, error) {
	list := x.spool.places[stream]
	if len(list) == 0 {
		return 0, nil
	}
	next := uint64(1)
	if filler != "" {
		next = list[0].seq
	}
	w := x.Conn.NewFencedWriter(stream, next-1)
	defer w.Close(context.WithoutCancel(ctx))
	n, gaps := 0, 0
	clear := func() error {
		if gaps == 0 {
			return nil
		}
		gaps = 0
		if err := w.Flush(ctx); err != nil {
			return err
		}
		return x.Conn.DropFiller(ctx, stream, filler)
	}
	err := x.spool.each(stream, func(m jet.Msg, atMS int64) error {
		for filler != "" && next < m.Seq {
			if _, err := w.Append(filler, nil, nil); err != nil {
				return err
			}
			next++
			if gaps++; gaps >= gapsMax {
				if err := clear(); err != nil {
					return err
				}
			}
		}
		m.Header = own(m.Header)
		if change != nil {
			change(&m, atMS)
		}
		seq, err := w.Append(m.Subject, m.Header, m.Data)
		if err == nil && seq != next {
			err = fmt.Errorf("message %d of %s would be stored at %d", m.Seq, stream, seq)
		}
		next, n = next+1, n+1
		return errors.Join(err, ctx.Err())
	})
	if err == nil {
		err = w.Flush(ctx)
	}
	if err == nil {
		err = clear()
	}
	if err != nil {
		return n, fmt.Errorf("%s: %w", stream, err)
	}
	return n, nil
}

// own are the headers that turnfold has written; the others were for the server.
func own(h map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range h {
		if !strings.HasPrefix(k, "Nats-") {
			out[k] = v
		}
	}
	return out
}

// messages fills the message store and the list of unknown effects from the turns.
func (x *restoring) messages(ctx context.Context) error {
	slices.SortFunc(x.turns, func(a, b subjects.Turn) int { return strings.Compare(a.String(), b.String()) })
	x.turns = slices.Compact(x.turns)
	reader := turns.NewReader(x.Conn, x.Layout.Partitions)
	for n, t := range x.turns {
		s, err := reader.Load(ctx, t, 0)
		if err != nil {
			return err
		}
		if s.Status == fold.Completed {
			data, err := subjects.Seal(struct{}{}, reducer.MessageOf(&s))
			if err == nil {
				_, err = x.Conn.Bucket(subjects.BucketMessages).Put(ctx, t.Tenant+"."+t.ID, data)
			}
			if err != nil {
				return err
			}
		}
		if s.Status != fold.Erased {
			x.done.Turns++
		}
		if err := reader.MarkUnknown(ctx, &s); err != nil {
			return err
		}
		x.Progress("messages", n+1, len(x.turns))
	}
	x.done.Keys = len(x.keys)
	return nil
}
