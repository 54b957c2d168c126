package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnfold/turnfold/subjects"
)

// TokenHeader names, on a result body, the claim that produced it.
const TokenHeader = "Tf-Token"

const (
	factRetryMin = 50 * time.Millisecond
	factRetryMax = time.Second
)

// FactsOf is what is known of an effect key, in order, and the sequence of the last
// fact (0: none); p is the key's partition.
func (c *Conn) FactsOf(ctx context.Context, p int, key string) (facts []Msg, last uint64, err error) {
	stream, subject := subjects.EffectsStream(p), subjects.Effect(p, key)
	end, ok, err := c.LastOf(ctx, stream, subject)
	if err != nil || !ok {
		return nil, 0, err // the common case costs one question
	}
	_, err = c.readUpTo(ctx, stream, subject, 1, 0, end, func(m Msg) error {
		facts = append(facts, m)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return facts, end.Seq, nil
}

// AppendFact stores a fact, and tries until it is stored or ctx ends. It may be
// stored more than once; a fact stated twice says no more than once.
func (c *Conn) AppendFact(ctx context.Context, p int, key string, data []byte) error {
	return c.publishUntilStored(ctx, subjects.Effect(p, key), nil, data)
}

// ClaimFact stores a fact if the sequence of the key's last one is last (0: none).
// ErrConflict and ErrUnclear mean: read the facts, this one may be among them.
func (c *Conn) ClaimFact(ctx context.Context, p int, key string, data []byte, last uint64) (uint64, error) {
	return c.PublishAfter(ctx, subjects.Effect(p, key), nil, data, last)
}

// PutBody stores a result body of a claim, and tries until it is stored or ctx ends.
func (c *Conn) PutBody(ctx context.Context, p int, key, token string, data []byte) error {
	return c.publishUntilStored(ctx, subjects.EffectBody(p, key), map[string]string{TokenHeader: token}, data)
}

// AppendReport stores a result body of a claim and then the fact that names it. Both are
// on their way at once, one behind the other on one stream; between is called when the
// body has left and the fact has not. If the body is lost on the way, bodyErr says so,
// and the fact may be stored all the same. Source of order: the stream's.
func (c *Conn) AppendReport(ctx context.Context, p int, key, token string, body, data []byte, between func()) (seq uint64, bodyErr, err error) {
	first := c.send(subjects.EffectBody(p, key), nats.Header{TokenHeader: {token}}, body)
	between()
	second := c.send(subjects.Effect(p, key), nil, data)
	_, bodyErr = first.wait(ctx)
	seq, err = second.wait(ctx)
	return seq, bodyErr, err
}

// Body is the result body of a claim; false if none is stored.
func (c *Conn) Body(ctx context.Context, p int, key, token string) ([]byte, bool, error) {
	stream, subject := subjects.EffectsStream(p), subjects.EffectBody(p, key)
	end, ok, err := c.LastOf(ctx, stream, subject)
	if err != nil || !ok {
		return nil, false, err
	}
	if end.Header[TokenHeader] == token {
		return end.Data, true, nil
	}
	var body []byte
	found := false
	_, err = c.readUpTo(ctx, stream, subject, 1, 0, end, func(m Msg) error {
		if m.Header[TokenHeader] == token {
			body, found = m.Data, true
		}
		return nil
	})
	return body, found, err
}

func (c *Conn) publishUntilStored(ctx context.Context, subject string, header map[string]string, data []byte) error {
	wait := factRetryMin
	for {
		_, err := c.Publish(ctx, subject, header, data)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrRejected) || c.ctx.Err() != nil {
			return err
		}
		if sleep(ctx, wait) != nil {
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
		wait = min(2*wait, factRetryMax)
	}
}
