package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

const (
	// tailHeartbeat is how often the server shows that a quiet consumer lives. Two and
	// a half of them missing means it does not, or that its server is gone.
	tailHeartbeat = time.Second
	tailSilence   = 2500 * time.Millisecond

	// tailInactive is when the server drops the consumer of a process that died.
	tailInactive = 30 * time.Second

	tailRetryMin, tailRetryMax = 20 * time.Millisecond, time.Second

	tailPendingMsgs  = 64 << 10
	tailPendingBytes = 128 << 20

	// rewoundChecks is how often, rewoundWait apart, the leader must say that the log
	// ends earlier before it is believed: a fresh leader may still be catching up.
	rewoundChecks = 5
	rewoundWait   = 200 * time.Millisecond
)

var errTailBroken = errors.New("jet: consumer lost")

// Tail calls fn with every message of stream that matches a filter (none: all), in
// order, each once, from sequence `from` (0 and 1: the first), and goes on as more
// are stored. It returns nil when ctx ends, fn's error if that is not nil, and
// ErrRewound if the log turns out to end before what was delivered. Lost consumers,
// leader changes and reconnects it survives by itself.
func (c *Conn) Tail(ctx context.Context, stream string, filters []string, from uint64, fn func(Msg) error) error {
	return c.tail(ctx, stream, filters, from, func(m Msg, _ uint64) error { return fn(m) })
}

// TailBehind is Tail that also tells fn how many messages wait behind the one it gets: at
// the server when that one was sent, or in this process, whichever is more.
func (c *Conn) TailBehind(ctx context.Context, stream string, filters []string, from uint64, fn func(m Msg, behind uint64) error) error {
	t := &tail{c: c, stream: stream, filters: filters, next: max(from, 1)}
	t.fn = func(m Msg, pending uint64) error { return fn(m, max(pending, t.here)) }
	return t.run(ctx)
}

// tail also tells fn how many more messages the server had.
func (c *Conn) tail(ctx context.Context, stream string, filters []string, from uint64, fn func(Msg, uint64) error) error {
	return (&tail{c: c, stream: stream, filters: filters, next: max(from, 1), fn: fn}).run(ctx)
}

// run makes consumers until ctx or fn ends it.
func (t *tail) run(ctx context.Context) error {
	c, stream := t.c, t.stream
	t.reconnected = make(chan struct{}, 1)
	defer c.addOnReconnect(func() {
		select {
		case t.reconnected <- struct{}{}:
		default:
		}
	})()
	wait := tailRetryMin
	for {
		before := t.next
		err := t.consume(ctx)
		switch {
		case ended(ctx):
			return nil
		case c.ctx.Err() != nil:
			return fmt.Errorf("tail %s: %w", stream, ErrClosed)
		case t.failed != nil:
			return t.failed
		case errors.Is(err, ErrRewound):
			return err
		}
		if t.next != before {
			wait = tailRetryMin
		}
		c.log.Debug().Err(err).Str("stream", stream).Uint64("next", t.next).Msg("tail starts a new consumer")
		if sleep(ctx, wait) != nil {
			return nil
		}
		wait = min(2*wait, tailRetryMax)
	}
}

// tail is one Tail; it outlives its consumers.
type tail struct {
	c           *Conn
	stream      string
	filters     []string
	next        uint64 // the first sequence that was not delivered
	fn          func(Msg, uint64) error
	failed      error  // fn's error, which ends the tail
	delivered   bool   // something was
	here        uint64 // messages that this process has behind the one being handed over
	reconnected chan struct{}
	credit      *credit // set if the server may send only what it was asked for
	latest      bool    // begin with the last message of each subject instead of with all
}

// consumerConfig is the server's form of a consumer's configuration.
type consumerConfig struct {
	Name              string            `json:"name"`
	DeliverSubject    string            `json:"deliver_subject,omitempty"`
	DeliverPolicy     string            `json:"deliver_policy"`
	OptStartSeq       uint64            `json:"opt_start_seq,omitempty"`
	AckPolicy         string            `json:"ack_policy"`
	ReplayPolicy      string            `json:"replay_policy"`
	FilterSubject     string            `json:"filter_subject,omitempty"`
	FilterSubjects    []string          `json:"filter_subjects,omitempty"`
	MaxDeliver        int               `json:"max_deliver"`
	FlowControl       bool              `json:"flow_control"`
	IdleHeartbeat     time.Duration     `json:"idle_heartbeat"`
	InactiveThreshold time.Duration     `json:"inactive_threshold"`
	Replicas          int               `json:"num_replicas"`
	MemoryStorage     bool              `json:"mem_storage"`
	Metadata          map[string]string `json:"metadata,omitempty"`
}

// config is of a push consumer: the server sends as soon as it stores, and an idle
// tail costs one heartbeat a second. It is in memory and unreplicated, because all
// there is to know is `next`.
func (t *tail) config(inbox string) consumerConfig {
	cfg := consumerConfig{
		Name: "tail-" + nuid.Next(), DeliverSubject: inbox,
		DeliverPolicy: "by_start_sequence", OptStartSeq: t.next,
		AckPolicy: "none", ReplayPolicy: "instant", MaxDeliver: 1,
		FlowControl: true, IdleHeartbeat: tailHeartbeat, InactiveThreshold: tailInactive,
		Replicas: 1, MemoryStorage: true,
	}
	if t.credit != nil {
		cfg.DeliverSubject, cfg.FlowControl, cfg.IdleHeartbeat = "", false, 0
	}
	if t.latest {
		cfg.DeliverPolicy, cfg.OptStartSeq = "last_per_subject", 0
	}
	switch len(t.filters) {
	case 0:
	case 1:
		cfg.FilterSubject = t.filters[0]
	default:
		cfg.FilterSubjects = t.filters
	}
	return cfg
}

// consume runs one consumer until it is lost.
func (t *tail) consume(ctx context.Context) error {
	select { // an earlier reconnect is answered by the consumer made now
	case <-t.reconnected:
	default:
	}
	inbox := t.c.nc.NewInbox()
	in := newQueue()
	sub, err := t.c.nc.Subscribe(inbox, in.put)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	if err := sub.SetPendingLimits(tailPendingMsgs, tailPendingBytes); err != nil {
		return err
	}
	cfg := t.config(inbox)
	if err := t.create(ctx, cfg); err != nil {
		return err
	}
	defer t.remove(cfg.Name)
	if err := t.checkRewound(ctx); err != nil {
		return err
	}
	if t.credit != nil {
		t.credit.open(t.c, "$JS.API.CONSUMER.MSG.NEXT."+t.stream+"."+cfg.Name, inbox)
		if err := t.credit.grant(); err != nil {
			return err
		}
	}
	return t.receive(ctx, in)
}

func (t *tail) create(ctx context.Context, cfg consumerConfig) error {
	req := struct {
		Stream string         `json:"stream_name"`
		Config consumerConfig `json:"config"`
		Action string         `json:"action"`
	}{t.stream, cfg, "create"}
	var answer struct{}
	subject := "CONSUMER.CREATE." + t.stream + "." + cfg.Name
	if cfg.FilterSubject != "" {
		subject += "." + cfg.FilterSubject
	}
	return t.c.request(ctx, subject, req, &answer, t.c.timeout)
}

// remove asks for the consumer's end without waiting; the server would find out by
// itself after tailInactive.
func (t *tail) remove(name string) {
	_ = t.c.nc.Publish("$JS.API.CONSUMER.DELETE."+t.stream+"."+name, nil)
}

// checkRewound compares the stream's end with what was delivered from it.
func (t *tail) checkRewound(ctx context.Context) error {
	if !t.delivered {
		return nil
	}
	var last uint64
	for range rewoundChecks {
		s, err := t.c.State(ctx, t.stream)
		if err != nil {
			return err
		}
		if last = s.LastSeq; last+1 >= t.next {
			return nil
		}
		if err := sleep(ctx, rewoundWait); err != nil {
			return err
		}
	}
	return fmt.Errorf("tail %s: %w: it ends at %d, %d was delivered", t.stream, ErrRewound, last, t.next-1)
}

// receive hands messages to fn until the consumer is lost.
func (t *tail) receive(ctx context.Context, in *queue) error {
	silence := time.NewTimer(tailSilence)
	defer silence.Stop()
	var consumerSeq uint64
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.c.ctx.Done():
			return ErrClosed
		case <-t.reconnected:
			return errTailBroken
		case <-silence.C:
			return errTailBroken
		case <-in.ready:
		}
		msgs := in.take()
		t.here = 0
		for _, m := range msgs {
			if !isStatus(m) {
				t.here++
			}
		}
		for _, m := range msgs {
			if ended(ctx) {
				return ctx.Err()
			}
			if err := t.handle(m, &consumerSeq); err != nil {
				return err
			}
		}
		silence.Reset(tailSilence)
	}
}

func (t *tail) handle(m *nats.Msg, consumerSeq *uint64) error {
	if isStatus(m) {
		return t.status(m, *consumerSeq)
	}
	t.here--
	d, err := parseDelivery(m.Reply)
	if err != nil {
		return err
	}
	if d.consumerSeq != *consumerSeq+1 {
		return errTailBroken // something was lost on the way
	}
	*consumerSeq = d.consumerSeq
	if t.credit != nil {
		if err := t.credit.used(); err != nil {
			return err
		}
	}
	if d.seq < t.next {
		return nil
	}
	if err := t.fn(fromDelivery(m, d), d.pending); err != nil {
		t.failed = err
		return err
	}
	t.next, t.delivered = d.seq+1, true
	return nil
}

// isStatus tells the server's own messages from those of the log.
func isStatus(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") != "" }

// status answers flow control and checks that a heartbeat knows of no more
// deliveries than have come.
func (t *tail) status(m *nats.Msg, consumerSeq uint64) error {
	if m.Header.Get("Status") != "100" {
		if t.credit == nil {
			return errTailBroken
		}
		return t.credit.ended(m)
	}
	answer := m.Reply
	if answer == "" {
		answer = m.Header.Get("Nats-Consumer-Stalled")
	}
	if answer != "" {
		if err := t.c.nc.Publish(answer, nil); err != nil {
			return err
		}
	}
	if last := m.Header.Get("Nats-Last-Consumer"); last != "" && last != fmt.Sprint(consumerSeq) {
		return errTailBroken
	}
	return nil
}

// queue hands messages from the client's goroutine to the tail's, in order, many at
// a time. It grows while fn is slow; flow control bounds it.
type queue struct {
	mu    sync.Mutex
	msgs  []*nats.Msg
	ready chan struct{}
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) put(m *nats.Msg) {
	q.mu.Lock()
	q.msgs = append(q.msgs, m)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *queue) take() []*nats.Msg {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.msgs
	q.msgs = nil
	return out
}
