package jet

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Listen calls fn with every Broadcast on subject, one at a time, until stop. At most
// once and never stored: for liveness only.
func (c *Conn) Listen(subject string, fn func(Msg)) (stop func(), err error) {
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		fn(Msg{Subject: m.Subject, Header: fromHeader(m.Header), Data: m.Data})
	})
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if it has ended already
}

// Broadcast reaches whoever listens at this moment.
func (c *Conn) Broadcast(subject string, data []byte) error {
	if err := c.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("broadcast to %s: %w", subject, err)
	}
	return nil
}

var (
	// ErrNobody: nobody listens on the subject; nobody got the question.
	ErrNobody = errors.New("jet: nobody listens")
	// ErrNotSent: the question never left this process.
	ErrNotSent = errors.New("jet: not sent")
)

// Ask publishes data once and waits for one answer, or for ctx to end. With any error
// but ErrNobody and ErrNotSent somebody may have got the question.
func (c *Conn) Ask(ctx context.Context, subject string, header map[string]string, data []byte) (Msg, error) {
	m, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: toHeader(header), Data: data})
	if err == nil {
		return Msg{Subject: m.Subject, Header: fromHeader(m.Header), Data: m.Data}, nil
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return Msg{}, fmt.Errorf("ask %s: %w", subject, ErrNobody)
	}
	for _, unsent := range []error{nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed, nats.ErrConnectionDraining,
		nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrHeadersNotSupported} {
		if errors.Is(err, unsent) {
			return Msg{}, fmt.Errorf("ask %s: %w: %w", subject, ErrNotSent, err)
		}
	}
	return Msg{}, fmt.Errorf("ask %s: %w", subject, err)
}
