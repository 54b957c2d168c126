package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

// fxLog is the effects and bodies of all hosts, on the effect streams. It also keeps
// the high-water marks, because every acknowledgement tells where the log ends.
type fxLog struct {
	conn       *jet.Conn
	partitions int
	marks      *marks
	clock      clock
	// pending are the claims whose report is in this host's outbox until that is noted.
	pending *tokenSet
	// suspect is called when an acknowledgement shows that the log has lost its end.
	suspect func()
	crash   *crasher
}

// Facts implements effects.
func (l *fxLog) Facts(ctx context.Context, key string) ([]effect.Fact, uint64, error) {
	p := subjects.KeyPartition(key, l.partitions)
	msgs, last, err := l.conn.FactsOf(ctx, p, key)
	if err != nil {
		return nil, 0, err
	}
	facts := make([]effect.Fact, 0, len(msgs))
	for _, m := range msgs {
		f, err := effect.DecodeFact(m.Data)
		if err != nil { // passing over a fact could repeat an effect
			return nil, 0, fmt.Errorf("fact %d of %s: %w", m.Seq, key, err)
		}
		facts = append(facts, f)
		l.marks.saw(p, m.Seq, m.Data)
	}
	return facts, last, nil
}

// Last implements effects.
func (l *fxLog) Last(ctx context.Context, key string) (uint64, error) {
	p := subjects.KeyPartition(key, l.partitions)
	m, _, err := l.conn.LastOf(ctx, subjects.EffectsStream(p), subjects.Effect(p, key))
	return m.Seq, err
}

// Append implements effects.
func (l *fxLog) Append(ctx context.Context, key string, f effect.Fact, body []byte) error {
	p := subjects.KeyPartition(key, l.partitions)
	data := effect.EncodeFact(f)
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		before := l.marks.get(p).Seq
		seq, err := l.publish(ctx, p, key, f, data, &body)
		if err == nil {
			return l.stored(ctx, p, before, seq, f, data)
		}
		if errors.Is(err, jet.ErrRejected) || l.clock.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// publish stores a fact, behind its body if there is one. A body that is stored, or never
// will be, is forgotten: a report without its body is worth more than none.
func (l *fxLog) publish(ctx context.Context, p int, key string, f effect.Fact, data []byte, body *[]byte) (seq uint64, err error) {
	if *body == nil {
		return l.conn.Publish(ctx, subjects.Effect(p, key), nil, data)
	}
	seq, lost, err := l.conn.AppendReport(ctx, p, key, f.Token, *body, data, func() { l.crash.pass(crashBody) })
	switch {
	case lost == nil, errors.Is(lost, jet.ErrRejected):
		*body = nil
		return seq, err
	case err != nil:
		return 0, err // both once more, in order
	}
	// The connection was lost between the two. Nobody is told before the body is there.
	if err := l.conn.PutBody(ctx, p, key, f.Token, *body); err != nil && !errors.Is(err, jet.ErrRejected) {
		return 0, err
	}
	*body = nil
	return seq, nil
}

// Claim implements effects.
func (l *fxLog) Claim(ctx context.Context, key string, f effect.Fact, last uint64) (uint64, error) {
	p := subjects.KeyPartition(key, l.partitions)
	data := effect.EncodeFact(f)
	before := l.marks.get(p).Seq
	seq, err := l.conn.ClaimFact(ctx, p, key, data, last)
	if err != nil {
		return 0, err
	}
	return seq, l.stored(ctx, p, before, seq, f, data)
}

// stored notes an acknowledgement. One at or before a message that was stored when the
// fact was sent says that the log has lost its end.
func (l *fxLog) stored(ctx context.Context, p int, before, seq uint64, f effect.Fact, data []byte) error {
	if seq <= before {
		l.suspect()
	}
	l.marks.saw(p, seq, data)
	if f.Kind != effect.KindReport && f.Kind != effect.KindNotRun {
		return nil // its loss is told by the next one, or harms nobody
	}
	if l.pending.has(f.Token) {
		return nil // the outbox has it, and the mark is noted before it leaves there
	}
	return faulty(l.marks.sync(context.WithoutCancel(ctx), p, seq))
}

// Body implements bodies.
func (l *fxLog) Body(ctx context.Context, key, token string) ([]byte, bool, error) {
	return l.conn.Body(ctx, subjects.KeyPartition(key, l.partitions), key, token)
}
