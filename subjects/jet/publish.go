package jet

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Publish stores one message and returns its sequence. ErrUnclear: it may be stored.
func (c *Conn) Publish(ctx context.Context, subject string, header map[string]string, data []byte) (uint64, error) {
	var h nats.Header // without any, nothing is made
	if len(header) > 0 {
		h = toHeader(header)
	}
	return c.send(subject, h, data).wait(ctx)
}

// PublishAfter stores one message if the last sequence of its subject is
// lastSubjectSeq (0: there is none). ErrConflict: look, it may even be this very
// message that is stored; ErrUnclear: the same, for lack of an answer.
func (c *Conn) PublishAfter(ctx context.Context, subject string, header map[string]string, data []byte, lastSubjectSeq uint64) (uint64, error) {
	h := toHeader(header)
	h.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(lastSubjectSeq, 10))
	return c.send(subject, h, data).wait(ctx)
}
