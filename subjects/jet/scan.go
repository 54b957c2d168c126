package jet

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Scan calls fn with every message of stream from sequence from to until, both
// included (until 0: to what is the end now), in order, each once, at the speed of an
// ordered consumer. Unlike ReadSubject it is for whole streams: the server looks up
// nothing per message. It survives lost consumers and leader changes.
func (c *Conn) Scan(ctx context.Context, stream string, from, until uint64, fn func(Msg) error) error {
	end, ok, err := c.LastOf(ctx, stream, ">")
	if err != nil || !ok {
		return err
	}
	if until == 0 || until > end.Seq {
		until = end.Seq
	}
	if max(from, 1) > until {
		return nil
	}
	t := &tail{c: c, stream: stream, next: max(from, 1), credit: &credit{}, fn: func(m Msg, pending uint64) error {
		if m.Seq > until {
			return errStopRead
		}
		if err := fn(m); err != nil {
			return err
		}
		if m.Seq == until || pending == 0 {
			return errStopRead
		}
		return nil
	}}
	err = t.run(ctx)
	switch {
	case errors.Is(err, errStopRead):
		return nil
	case err != nil:
		return fmt.Errorf("scan %s: %w", stream, err)
	}
	return ctx.Err() // a tail ends without an error only with its context
}

// SeqAt is the sequence of the first message that stream stored at or after t; 0 if it
// has none.
func (c *Conn) SeqAt(ctx context.Context, stream string, t time.Time) (uint64, error) {
	st, err := c.State(ctx, stream)
	if err != nil || st.Msgs == 0 {
		return 0, err
	}
	low, high := st.FirstSeq, st.LastSeq+1 // the answer is in [low, high]
	for low < high {
		mid := low + (high-low)/2
		m, ok, err := c.after(ctx, stream, mid)
		if err != nil {
			return 0, err
		}
		if !ok || !m.Time.Before(t) {
			high = mid
		} else {
			low = m.Seq + 1
		}
	}
	if low > st.LastSeq {
		return 0, nil
	}
	return low, nil
}

// after is the first message at or after seq.
func (c *Conn) after(ctx context.Context, stream string, seq uint64) (Msg, bool, error) {
	return c.get(ctx, stream, getRequest{Seq: seq, NextFor: ">"})
}
