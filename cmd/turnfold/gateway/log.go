package gateway

import (
	"context"
	"errors"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// readsMax bounds how many feeds are read from the log at a time. What a read has under way
// weighs many times what its reader does afterwards, and readers come in crowds: all at
// once, when a gateway has started again.
const readsMax = 16

// readFeed reads a turn's feed from the log when it is its turn to.
func (g *Gateway) readFeed(ctx context.Context, stream, subject string, from, until uint64, fn func(jet.Msg) error) (uint64, error) {
	select {
	case g.reads <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	g.metrics.reads.Inc()
	defer func() {
		g.metrics.reads.Dec()
		<-g.reads
	}()
	return g.cfg.Conn.ReadSubject(ctx, stream, subject, from, until, fn)
}

// readCompact sends what the log amounts to up to now, or up to where the client's
// earlier connection folded it: the log does not change, so the items and their ids are
// the same again.
func (f *follower) readCompact(ctx context.Context) error {
	p := f.turn.Partition(f.g.cfg.Partitions)
	stream, subject := subjects.OutputsStream(p), subjects.Out(p, f.turn, subjects.LaneFeed)
	var all render.Compact
	at := f.at
	_, err := f.g.readFeed(ctx, stream, subject, f.at.seq+1, f.until, func(m jet.Msg) error {
		it, err := render.Read(m.Data)
		if err != nil {
			f.g.metrics.poisoned.Inc()
			return nil
		}
		all.Apply(it)
		at = position{m.Seq, it.ID}
		if f.until > 0 && m.Seq >= f.until {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return err
	}
	items := all.Items()
	items = items[min(f.skip, len(items)):]
	for _, it := range items {
		f.note(it)
	}
	f.at = at
	return f.stream.send(items...)
}

// readLog sends what the log holds after the client's position, a page at a time, so
// that a slow client costs a page of memory.
func (f *follower) readLog(ctx context.Context) error {
	if f.compact {
		f.compact = false
		if err := f.readCompact(ctx); err != nil {
			return err
		}
	}
	p := f.turn.Partition(f.g.cfg.Partitions)
	stream, subject := subjects.OutputsStream(p), subjects.Out(p, f.turn, subjects.LaneFeed)
	for {
		var page []entry
		size := 0
		_, err := f.g.readFeed(ctx, stream, subject, f.at.seq+1, 0, func(m jet.Msg) error {
			it, err := render.Read(m.Data)
			if err != nil {
				f.g.metrics.poisoned.Inc()
				return nil
			}
			page = append(page, entry{m.Seq, it})
			if size += len(m.Data); len(page) >= pageItems || size >= pageBytes {
				return errStop
			}
			return nil
		})
		more := errors.Is(err, errStop)
		if err != nil && !more {
			return err
		}
		if err := f.send(page); err != nil {
			return err
		}
		if !more {
			f.unread = false
			return nil
		}
		select {
		case <-f.g.stopped:
			return context.Canceled
		default:
		}
	}
}
