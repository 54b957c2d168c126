package executor

import (
	"context"
	"errors"
	"time"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// progressPatience bounds the publication of a sign of life: the next one follows.
const progressPatience = 2 * time.Second

// turnLog is the turns, on the event streams.
type turnLog struct {
	conn       *jet.Conn
	reader     *turns.Reader
	partitions int
	clock      clock
}

// Settle implements settler. Doubles do no harm: the fold takes the first outcome,
// and after it only what resolves an unknown one.
func (l *turnLog) Settle(ctx context.Context, t subjects.Turn, b *event.CallSettled) error {
	data, err := event.Encode(b)
	if err != nil {
		return err
	}
	subject := subjects.Events(t.Partition(l.partitions), t)
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		_, err := l.conn.Publish(ctx, subject, nil, data)
		if err == nil || errors.Is(err, jet.ErrRejected) {
			return err
		}
		if l.clock.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// Progress implements settler.
func (l *turnLog) Progress(ctx context.Context, t subjects.Turn, b *event.CallProgress) {
	data, err := event.Encode(b)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, progressPatience)
	defer cancel()
	_, _ = l.conn.Publish(ctx, subjects.Events(t.Partition(l.partitions), t), nil, data) // a courtesy
}

// Standing implements settler.
func (l *turnLog) Standing(ctx context.Context, t subjects.Turn, call string) (standing, error) {
	state, err := l.reader.Load(ctx, t, 0)
	if err != nil {
		return 0, err
	}
	c := state.Call(call)
	switch {
	case c == nil:
		return standingAbsent, nil
	case c.Settled() || state.Over():
		return standingSettled, nil
	}
	return standingAsked, nil
}
