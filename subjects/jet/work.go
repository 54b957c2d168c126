package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	defaultAckWait  = 30 * time.Second
	defaultInFlight = 64

	// workPullers ask for one message at a time, each only when it has a free place:
	// nothing is fetched that cannot be started at once.
	workPullers   = 2
	workExpiry    = 20 * time.Second
	workHeartbeat = 2 * time.Second

	workRetry = 200 * time.Millisecond
)

// WorkConfig says which messages to work on, and how many at a time.
type WorkConfig struct {
	Stream  string
	Durable string // name shared by all workers; it keeps the position
	Filter  string // subject of the messages, wildcards allowed
	// AckWait is after how long without Ack or InProgress a message is handed to
	// another worker. Zero means 30s.
	AckWait time.Duration
	// InFlight is how many messages this process works on at a time. Zero means 64.
	InFlight int
}

func (w WorkConfig) withDefaults() WorkConfig {
	if w.AckWait == 0 {
		w.AckWait = defaultAckWait
	}
	if w.InFlight == 0 {
		w.InFlight = defaultInFlight
	}
	return w
}

func (w WorkConfig) consumer() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       w.Durable,
		FilterSubject: w.Filter,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       w.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1, // put-off messages must not keep others waiting
	}
}

// Delivery is one message to work on. Without Ack it comes again after AckWait, here
// or elsewhere; it may come again all the same.
type Delivery struct {
	Msg
	Redelivered bool
	Delivered   uint64 // how many times, this one included
	m           jetstream.Msg
}

// Ack ends the message. An error means that it may come again.
func (d Delivery) Ack() error { return d.m.Ack() }

// NakAfter has the message come again after a time.
func (d Delivery) NakAfter(wait time.Duration) error { return d.m.NakWithDelay(wait) }

// InProgress starts AckWait anew.
func (d Delivery) InProgress() error { return d.m.InProgress() }

// Term ends the message like Ack, and says that it could not be worked on.
func (d Delivery) Term() error { return d.m.Term() }

// Work shares the messages of a stream with every worker of the same durable name,
// and calls fn for each in its own goroutine, at most InFlight at a time. It returns
// nil when ctx has ended and every fn has returned. It creates the durable consumer
// or changes it to cfg, and makes it again if it is deleted; then everything comes
// again from the start.
func (c *Conn) Work(ctx context.Context, cfg WorkConfig, fn func(Delivery)) error {
	cfg = cfg.withDefaults()
	w := &worker{c: c, cfg: cfg, fn: fn, places: make(chan struct{}, cfg.InFlight)}
	var pullers sync.WaitGroup
	for range min(workPullers, cfg.InFlight) {
		pullers.Go(func() { w.run(ctx) })
	}
	pullers.Wait()
	w.running.Wait()
	if !ended(ctx) {
		return fmt.Errorf("work on %s: %w", cfg.Stream, ErrClosed)
	}
	return nil
}

// worker is one Work.
type worker struct {
	c       *Conn
	cfg     WorkConfig
	fn      func(Delivery)
	places  chan struct{} // holds one element per message being worked on
	running sync.WaitGroup
}

func (w *worker) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.c.ctx, cancel)()
	for !ended(ctx) {
		err := w.pull(ctx)
		if ended(ctx) {
			return
		}
		w.c.log.Debug().Err(err).Str("stream", w.cfg.Stream).Str("durable", w.cfg.Durable).Msg("work starts anew")
		_ = sleep(ctx, workRetry) // the loop looks at ctx
	}
}

// pull works until the consumer or its leader is lost.
func (w *worker) pull(ctx context.Context) error {
	once, cancel := w.c.bound(ctx)
	defer cancel()
	consumer, err := w.consumer(once)
	if err != nil {
		return err
	}
	iter, err := consumer.Messages(
		jetstream.PullMaxMessages(1), jetstream.PullExpiry(workExpiry),
		jetstream.PullHeartbeat(workHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return err
	}
	defer giveBack(iter)
	for {
		select {
		case w.places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		m, err := iter.Next(jetstream.NextContext(ctx))
		if err != nil {
			<-w.places
			return err
		}
		w.start(m)
	}
}

func (w *worker) consumer(ctx context.Context) (jetstream.Consumer, error) {
	consumer, err := w.c.js.CreateOrUpdateConsumer(ctx, w.cfg.Stream, w.cfg.consumer())
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code == 400 {
		// Something that cannot change is different. The position is worth more.
		have, getErr := w.c.js.Consumer(ctx, w.cfg.Stream, w.cfg.Durable)
		if getErr == nil {
			w.c.log.Warn().Err(err).Str("durable", w.cfg.Durable).Msg("consumer keeps its configuration")
			return have, nil
		}
	}
	return consumer, err
}

// giveBack hands a message that came too late to another worker at once.
func giveBack(iter jetstream.MessagesContext) {
	iter.Drain()
	for {
		m, err := iter.Next(jetstream.NextMaxWait(time.Second))
		if err != nil {
			iter.Stop()
			return
		}
		_ = m.Nak() // else it comes again after AckWait
	}
}

// start works on m, for which the caller has a place.
func (w *worker) start(m jetstream.Msg) {
	d := Delivery{Msg: Msg{Subject: m.Subject(), Header: fromHeader(m.Headers()), Data: m.Data()}, m: m}
	if info, err := parseDelivery(m.Reply()); err == nil {
		d.Seq, d.Time, d.Delivered, d.Redelivered = info.seq, info.time, info.delivered, info.delivered > 1
	}
	w.running.Go(func() {
		defer func() { <-w.places }()
		w.fn(d)
	})
}
