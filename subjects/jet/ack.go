package jet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// noStreamTries is how often a message is sent to a subject that no stream listens to at
// the moment, noStreamWait apart: nobody has received it, so a repeat is safe.
const (
	noStreamTries = 3
	noStreamWait  = 250 * time.Millisecond
)

// acks takes the server's answers to single messages, all through one subscription. The
// client library's publish makes contexts, a decoder and a mailbox for every message, and
// cannot send a second one before the first is answered.
type acks struct {
	prefix string // of reply subjects; the number of the message follows

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan ack
}

// ack is the server's word on one message.
type ack struct {
	seq uint64
	err error
}

// subscribe starts to take answers.
func (a *acks) subscribe(nc *nats.Conn) error {
	a.prefix, a.waiting = nc.NewInbox()+".", map[uint64]chan ack{}
	_, err := nc.Subscribe(a.prefix+"*", a.take)
	return err
}

// answers and timeouts are used again: every message takes one of each. An answer's
// channel goes back once the answer has been taken from it, since no other can come.
var (
	answers  = sync.Pool{New: func() any { return make(chan ack, 1) }}
	timeouts = sync.Pool{New: func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}}
)

// expect gives a message's number and where its answer will come.
func (a *acks) expect() (n uint64, answer chan ack) {
	answer = answers.Get().(chan ack)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	a.waiting[a.next] = answer
	return a.next, answer
}

func (a *acks) forget(n uint64) chan ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := a.waiting[n]
	delete(a.waiting, n)
	return answer
}

func (a *acks) take(m *nats.Msg) {
	n, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, a.prefix), 36, 64)
	if err != nil {
		return // of nobody here
	}
	if answer := a.forget(n); answer != nil {
		answer <- readAck(m)
	}
}

// readAck reads {"stream":"TF_FX_1", "seq":7} and whatever else there is, or
// {"error":{…}}.
func readAck(m *nats.Msg) ack {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return ack{err: nats.ErrNoResponders}
	}
	if seq, ok := storedAt(m.Data); ok {
		return ack{seq: seq}
	}
	var v struct {
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
		Error  *apiError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &v); {
	case err != nil:
		return ack{err: fmt.Errorf("answer %.80q: %w", m.Data, err)}
	case v.Error != nil:
		return ack{err: v.Error}
	case v.Stream == "":
		return ack{err: fmt.Errorf("answer %.80q names no stream", m.Data)}
	}
	return ack{seq: v.Seq}
}

// storedAt reads the answers that nearly all are, as the server spells them: the stream and
// the sequence come first, where nothing went wrong, and what may follow does not matter.
func storedAt(data []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	name, rest, cut := bytes.Cut(rest, []byte(`"`))
	if !ok || !cut || len(name) == 0 || bytes.IndexByte(name, '\\') >= 0 {
		return 0, false
	}
	rest, ok = bytes.CutPrefix(bytes.TrimPrefix(bytes.TrimPrefix(rest, []byte(",")), []byte(" ")), []byte(`"seq":`))
	if end := bytes.IndexAny(rest, ",}"); ok && end >= 0 && rest[len(rest)-1] == '}' {
		seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
		return seq, err == nil && seq > 0
	}
	return 0, false
}

// sent is a message on its way.
type sent struct {
	c      *Conn
	m      *nats.Msg
	n      uint64
	answer chan ack
	link   context.Context // of the connection that it was sent on
	err    error           // it was not even sent
}

// send sends a message. Those that one goroutine sends to one stream are stored in order,
// as long as the connection lasts and the stream keeps its leader.
func (c *Conn) send(subject string, h nats.Header, data []byte) *sent {
	s := &sent{c: c, m: &nats.Msg{Subject: subject, Header: h, Data: data}}
	s.again()
	return s
}

func (s *sent) again() {
	s.c.mu.Lock()
	s.link = s.c.link
	s.c.mu.Unlock()
	s.n, s.answer = s.c.acks.expect()
	s.m.Reply = s.c.acks.prefix + strconv.FormatUint(s.n, 36)
	if s.err = s.c.nc.PublishMsg(s.m); s.err != nil {
		s.c.acks.forget(s.n)
	}
}

// wait returns the message's sequence once it is stored; after ErrUnclear it may be.
func (s *sent) wait(ctx context.Context) (uint64, error) {
	timeout := timeouts.Get().(*time.Timer)
	timeout.Reset(s.c.timeout)
	defer func() {
		timeout.Stop() // nothing is left in its channel then
		timeouts.Put(timeout)
	}()
	for try := 1; ; try++ {
		seq, err := s.hear(ctx, timeout.C)
		if err == nil {
			return seq, nil
		}
		if try < noStreamTries && errors.Is(err, nats.ErrNoResponders) && sleep(ctx, noStreamWait) == nil {
			s.again()
			continue
		}
		return 0, fmt.Errorf("publish to %s: %w", s.m.Subject, classify(err))
	}
}

func (s *sent) hear(ctx context.Context, timeout <-chan time.Time) (uint64, error) {
	if s.err != nil {
		return 0, s.err
	}
	select {
	case a := <-s.answer:
		return s.heard(a)
	default:
	}
	var err error
	select {
	case a := <-s.answer:
		return s.heard(a)
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.link.Done(): // no answer will come
		err = nats.ErrDisconnected
	case <-timeout:
		err = nats.ErrTimeout
	}
	s.c.acks.forget(s.n)
	return 0, err
}

func (s *sent) heard(a ack) (uint64, error) {
	answers.Put(s.answer)
	s.answer = nil
	return a.seq, a.err
}
