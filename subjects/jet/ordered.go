package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// Ordered counts the messages that stream has now, as the client library's own ordered
// consumer delivers them with its defaults, and does nothing else with them. It is the
// yardstick that benches hold readers of whole streams against; those use Scan.
func (c *Conn) Ordered(ctx context.Context, stream string) (uint64, error) {
	end, ok, err := c.LastOf(ctx, stream, ">")
	if err != nil || !ok {
		return 0, err
	}
	consumer, err := c.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return 0, fmt.Errorf("ordered consumer of %s: %w", stream, err)
	}
	var n uint64
	var broken error
	over, once := make(chan struct{}), sync.Once{}
	running, err := consumer.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if n++; err != nil || meta.Sequence.Stream >= end.Seq || meta.NumPending == 0 {
			once.Do(func() { broken = err; close(over) })
		}
	})
	if err != nil {
		return 0, fmt.Errorf("ordered consumer of %s: %w", stream, err)
	}
	select {
	case <-over:
		err = broken
	case <-running.Closed():
		err = errors.New("it ended before the stream's end")
	case <-ctx.Done():
		err = ctx.Err()
	}
	running.Stop()
	<-running.Closed() // n is nobody else's from here on
	if err != nil {
		err = fmt.Errorf("ordered consumer of %s: %w", stream, err)
	}
	return n, err
}
