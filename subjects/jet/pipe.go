package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// batchIdle is when a quiet batch is ended; the server forgets one after 10 s.
	batchIdle = 5 * time.Second
	// pingAfter is how long to wait for the server's word before asking.
	pingAfter = 300 * time.Millisecond
	// silentAfter gives a batch up whose pings nobody answers; stuckAfter one that
	// stores nothing although they are answered. Where that is the end of the writer, and
	// its owner must start over from the log, it waits longer: a machine that stands still
	// for seconds is no reason to make it work more. A stream that has another leader says
	// so by itself.
	silentAfter       = 2 * time.Second
	silentAfterFenced = 6 * time.Second
	stuckAfter        = 15 * time.Second

	// finalWait is how long to wait for the last word on a batch that the server ends.
	finalWait = 200 * time.Millisecond

	resendMin, resendMax = 20 * time.Millisecond, 100 * time.Millisecond

	parked = time.Hour // nothing to attend to
)

// entry is a message that is not known to be stored.
type entry struct {
	subject string
	header  nats.Header
	data    []byte
}

func (e entry) bytes() int {
	n := len(e.subject) + len(e.data)
	for k, v := range e.header {
		n += len(k) + len(v[0]) + 4
	}
	return n
}

// pipe sends messages through batches and keeps each until it is stored. Messages
// are numbered from 1; the queue holds numbers acked+1 to appended.
//
// Invariant: at any time the stream holds, of this pipe's messages, a prefix of the
// numbers in order (and repeats of it, if resend is set).
type pipe struct {
	c      *Conn
	stream string
	inbox  string
	resend bool // after a failure: send again (true), or end for good (false)

	windowMsgs, windowBytes int

	mu              sync.Mutex
	queue           []entry
	bytes           int
	appended, acked uint64
	batch           *batch // nil: none is open
	dying           *batch // given up; its last answer still counts
	probing         bool   // only the first message of the batch was sent, to see if it is taken
	batches         uint64
	lastSend        time.Time
	lastWord        time.Time // of the server on this batch
	lastProgress    time.Time // of acked, or of the first message after all were stored
	retryAt         time.Time // zero: not broken
	retryWait       time.Duration
	err             error
	started, closed bool
	changed         chan struct{} // closed at the next change; nil if nobody waits
	sub             *nats.Subscription
	removeHook      func()

	wake, quit, stopped chan struct{}
}

func newPipe(c *Conn, stream string, resend bool, msgs, bytes int) *pipe {
	return &pipe{
		c: c, stream: stream, inbox: c.nc.NewInbox(), resend: resend,
		windowMsgs: msgs, windowBytes: bytes, retryWait: resendMin,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// start subscribes to answers and starts the attendant, at the first message.
func (p *pipe) start() error {
	if p.started {
		return nil
	}
	sub, err := p.c.nc.Subscribe(p.inbox+".>", p.answer)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnclear, err)
	}
	if !p.c.spawn(p.attend) {
		_ = sub.Unsubscribe()
		return ErrClosed
	}
	p.sub, p.started = sub, true
	p.removeHook = p.c.addOnReconnect(p.reconnected)
	return nil
}

// append queues a message and sends it if everything before it was sent. prepare
// may add headers to it; it gets the message's number.
func (p *pipe) append(ctx context.Context, e entry, prepare func(n uint64, h nats.Header)) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if max := p.c.nc.MaxPayload(); max > 0 && int64(e.bytes()) > max-1024 { // headers to come
		return 0, fmt.Errorf("append to %s: %w: %d bytes, the server takes %d", e.subject, ErrRejected, e.bytes(), max)
	}
	for p.usable() == nil && p.full(e.bytes()) {
		if err := p.await(ctx); err != nil {
			return 0, err
		}
	}
	if err := p.usable(); err != nil {
		return 0, err
	}
	if err := p.start(); err != nil {
		return 0, err
	}
	if p.acked == p.appended {
		p.lastProgress = time.Now()
	}
	p.appended++
	if prepare != nil {
		prepare(p.appended, e.header)
	}
	p.queue = append(p.queue, e)
	p.bytes += e.bytes()
	if p.retryAt.IsZero() && !p.probing {
		p.sendLast()
	}
	return p.appended, p.err
}

func (p *pipe) usable() error {
	if p.err == nil && p.closed {
		return ErrClosed
	}
	return p.err
}

func (p *pipe) full(more int) bool {
	return len(p.queue) > 0 && (len(p.queue) >= p.windowMsgs || p.bytes+more > p.windowBytes)
}

// sendLast sends the queue's last message, all before it having been sent.
func (p *pipe) sendLast() {
	if p.batch != nil && time.Since(p.lastSend) > batchIdle && p.acked == p.appended-1 {
		p.endBatch() // the server is about to forget it
	}
	if p.batch == nil {
		p.openBatch(p.appended - 1)
	}
	p.send(p.queue[len(p.queue)-1])
}

func (p *pipe) openBatch(base uint64) {
	p.batches++
	p.batch = newBatch(p.inbox, fmt.Sprintf("%s%d", p.inbox[strings.LastIndexByte(p.inbox, '.')+1:], p.batches), base)
	p.lastWord = time.Now()
	p.signal() // there is something to attend to
}

func (p *pipe) send(e entry) {
	p.lastSend = time.Now()
	if err := p.batch.send(p.c.nc, e.subject, e.header, e.data); err != nil {
		p.broken(err, p.retryWait)
	}
}

func (p *pipe) endBatch() {
	_ = p.batch.end(p.c.nc) // the server also ends it by itself
	p.batch = nil
}

// broken gives the batch up.
func (p *pipe) broken(cause error, wait time.Duration) {
	if !p.resend {
		p.fail(cause)
		return
	}
	p.probing = false
	if p.batch != nil {
		p.dying, p.batch = p.batch, nil
		p.c.log.Debug().Err(cause).Str("stream", p.stream).Uint64("stored", p.acked).
			Uint64("appended", p.appended).Msg("batch broken; sending again")
	}
	p.retryAt = time.Now().Add(wait)
	p.signal()
}

// fail ends the pipe for good.
func (p *pipe) fail(cause error) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s after %d: %w", ErrFenced, p.stream, p.acked, classify(cause))
	}
	p.batch = nil
	p.announce()
}

// answer takes the server's word on a batch.
func (p *pipe) answer(m *nats.Msg) {
	a, err := parseAnswer(p.inbox, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.c.log.Warn().Err(err).Str("stream", p.stream).Msg("batch")
		return
	}
	switch {
	case p.batch != nil && a.batch == p.batch.id:
		p.lastWord = time.Now()
		p.store(p.batch.base + a.stored)
		if a.err == nil && a.over {
			a.err = errBatchGap // we did not end it
		}
		switch {
		case a.err == nil:
			p.sendRest()
		case a.over:
			p.broken(a.err, 0)
		case errors.Is(a.err, nats.ErrNoResponders):
			p.broken(a.err, p.retryWait)
		default: // the final answer will say what is stored
			p.broken(a.err, finalWait)
		}
	case p.dying != nil && a.batch == p.dying.id:
		p.store(p.dying.base + a.stored)
		if a.over && a.err == nil && !p.retryAt.IsZero() && p.batch == nil {
			p.dying, p.retryAt = nil, time.Now()
			p.signal()
		}
	}
}

// sendRest goes on after a first message that was taken.
func (p *pipe) sendRest() {
	if !p.probing {
		return
	}
	p.probing = false
	// Meanwhile the end of the batch before may have turned out to be stored, as a new
	// leader tells of it before it takes new messages.
	p.batch.base = max(p.batch.base, p.acked-min(p.acked, p.batch.sent))
	for i := p.batch.base + p.batch.sent - p.acked; i < uint64(len(p.queue)); i++ {
		if p.batch == nil {
			return // broken by a failed send
		}
		p.send(p.queue[i])
	}
}

// store notes that all messages up to number n are stored.
func (p *pipe) store(n uint64) {
	n = min(n, p.appended)
	if n <= p.acked {
		return
	}
	done := int(n - p.acked)
	for i := range done {
		p.bytes -= p.queue[i].bytes()
		p.queue[i] = entry{}
	}
	p.queue = p.queue[done:]
	p.acked = n
	p.lastProgress = time.Now()
	if p.batch != nil {
		p.retryWait = resendMin
	}
	p.announce()
}

// reconnected: whether the last messages arrived nobody knows.
func (p *pipe) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil || p.closed:
	case p.resend:
		p.broken(nats.ErrDisconnected, 0)
	case p.batch != nil:
		_ = p.batch.ping(p.c.nc) // repeated by the attendant
	}
}

// signal wakes the attendant.
func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// announce wakes whoever waits for a change.
func (p *pipe) announce() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// await gives up the lock until something changes.
func (p *pipe) await(ctx context.Context) error {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flush returns when everything appended before is stored.
func (p *pipe) flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	target := p.appended
	for p.acked < target {
		if err := p.usable(); err != nil {
			return err
		}
		if err := p.await(ctx); err != nil {
			return fmt.Errorf("flush %s: %w: %d of %d stored: %w", p.stream, ErrUnclear, p.acked, target, err)
		}
	}
	return nil
}

// close flushes until ctx ends, then ends the pipe in any case.
func (p *pipe) close(ctx context.Context) error {
	err := p.flush(ctx)
	p.mu.Lock()
	if p.closed || !p.started {
		p.closed = true
		p.mu.Unlock()
		return err
	}
	p.closed = true
	close(p.quit)
	p.mu.Unlock()
	<-p.stopped
	return err
}
