package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/synadia-io/orbit.go/jetstreamext"
)

const (
	// readBatch messages are asked for at once.
	readBatch = 1000
	// readBatchBytes ends one answer; the client drops what exceeds its buffer.
	readBatchBytes = 16 << 20
	// readLagTries is how often a direct get that knows too little is repeated before
	// the leader is asked message by message.
	readLagTries = 3
	readLagWait  = 10 * time.Millisecond
	// answerQueue is how many messages of one answer wait for their reader. The client
	// library makes the whole queue for each read; its default costs half a megabyte, which
	// a thousand readers that come at once would feel. An answer has at most readBatch, and
	// the last messages of 1024 subjects where those are asked for.
	answerQueue = 1200
	// readTry bounds one direct get. A server that cannot answer is silent.
	readTry = 2 * time.Second
)

var errStopRead = errors.New("stop")

// ReadSubject calls fn with every message of subject (wildcards allowed) from
// sequence from to until, both included, in order. until 0 stands for the subject's
// last message at the time of the call. It returns the sequence of the last message
// that fn got, 0 for none. The answer is complete even if replicas lag.
func (c *Conn) ReadSubject(ctx context.Context, stream, subject string, from, until uint64, fn func(Msg) error) (uint64, error) {
	end, ok, err := c.LastOf(ctx, stream, subject)
	if err != nil || !ok {
		return 0, err
	}
	return c.readUpTo(ctx, stream, subject, from, until, end, fn)
}

// readUpTo reads a subject whose last message on the leader is end.
func (c *Conn) readUpTo(ctx context.Context, stream, subject string, from, until uint64, end Msg, fn func(Msg) error) (uint64, error) {
	if until == 0 {
		until = end.Seq
	}
	r := &reader{c: c, stream: stream, subject: subject, next: max(from, 1), until: until, end: min(end.Seq, until), fn: fn}
	if r.next > r.end {
		return 0, nil
	}
	if r.next == end.Seq { // the leader has given it already
		return end.Seq, fn(end)
	}
	for tries := 0; tries < readLagTries && !r.done; {
		before := r.next
		if err := r.direct(ctx); err != nil {
			return r.last, err
		}
		if r.next != before {
			tries = 0
			continue
		}
		tries++
		if !r.done && sleep(ctx, readLagWait) != nil {
			return r.last, ctx.Err()
		}
	}
	return r.last, r.leader(ctx)
}

// reader is one ReadSubject.
type reader struct {
	c               *Conn
	stream, subject string
	next            uint64 // the first sequence not read
	until           uint64 // the last sequence wanted
	end             uint64 // there is nothing to wait for after it
	last            uint64 // the last sequence fn got
	done            bool
	fn              func(Msg) error
}

// direct asks any replica for as much as it knows and fits. It fails only with fn or
// ctx; other failures read nothing.
func (r *reader) direct(ctx context.Context) error {
	if !r.c.Connected() {
		return ctx.Err()
	}
	bounded, cancel := r.c.linked(ctx, readTry)
	defer cancel()
	batch, err := jetstreamext.GetBatch(bounded, r.c.js, r.stream, readBatch, jetstreamext.GetBatchSeq(r.next),
		jetstreamext.GetBatchSubject(r.subject), jetstreamext.GetBatchMaxBytes(readBatchBytes))
	if err != nil {
		return ctx.Err()
	}
	before := "0" // the sequence before, in this batch
	for raw, err := range batch {
		if err != nil || ended(bounded) || raw.Header.Get("Nats-Last-Sequence") != before {
			break // no more, or something was lost on the way
		}
		before = strconv.FormatUint(raw.Sequence, 10)
		if err := r.take(fromDirect(raw)); err != nil || r.done {
			return err
		}
	}
	return ctx.Err()
}

// take hands m to fn; it is the subject's next message for sure, because every
// replica stores in order and answers in order.
func (r *reader) take(m Msg) error {
	if m.Seq > r.until {
		r.done = true
		return nil
	}
	if err := r.fn(m); err != nil {
		return err
	}
	r.last, r.next = m.Seq, m.Seq+1
	r.done = m.Seq >= r.end
	return nil
}

// leader reads what is left message by message.
func (r *reader) leader(ctx context.Context) error {
	for !r.done {
		m, ok, err := r.c.get(ctx, r.stream, getRequest{Seq: r.next, NextFor: r.subject})
		if err != nil {
			return r.failed(err)
		}
		if !ok { // the end has been purged or has aged out meanwhile
			return nil
		}
		if err := r.take(m); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) failed(err error) error {
	return fmt.Errorf("read %s of %s from %d: %w", r.subject, r.stream, r.next, err)
}

// Latest calls fn with the last message of each subject of stream that matches filter,
// in the order of the log, and perhaps with later ones that are stored meanwhile. The
// server looks up one message a subject, however many the stream holds.
func (c *Conn) Latest(ctx context.Context, stream, filter string, fn func(Msg) error) error {
	end, ok, err := c.LastOf(ctx, stream, filter)
	if err != nil || !ok {
		return err
	}
	err = (&tail{c: c, stream: stream, filters: []string{filter}, next: 1, latest: true, fn: func(m Msg, pending uint64) error {
		if err := fn(m); err != nil {
			return err
		}
		if m.Seq >= end.Seq && pending == 0 {
			return errStopRead
		}
		return nil
	}}).run(ctx)
	switch {
	case errors.Is(err, errStopRead):
		return nil
	case err != nil:
		return fmt.Errorf("latest of %s in %s: %w", filter, stream, err)
	}
	return ctx.Err() // a tail ends without an error only with its context
}

// snapshot calls fn with the last message of each subject that matches filter, of a
// stream that keeps one a subject. Unlike ReadSubject it rests on one replica's view
// at one time, as a message that moves to the end is never missed there, and that
// view knows at least what the leader knew at the call.
func (c *Conn) snapshot(ctx context.Context, stream, filter string, fn func(Msg)) error {
	end, ok, err := c.LastOf(ctx, stream, filter)
	if err != nil || !ok {
		return err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	err = c.tail(ctx, stream, []string{filter}, 1, func(m Msg, pending uint64) error {
		fn(m)
		if m.Seq >= end.Seq && pending == 0 {
			return errStopRead
		}
		return nil
	})
	switch {
	case errors.Is(err, errStopRead):
		return nil
	case err == nil:
		return fmt.Errorf("snapshot of %s in %s: %w", filter, stream, ctx.Err())
	default:
		return err
	}
}
