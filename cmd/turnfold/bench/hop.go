package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// deltaText is about what a model says in one event.
const deltaText = "some words of a model, "

const (
	// turnDeltas is how many events of text a turn of the fold's measurement has, and
	// scriptEvents how many follow its opening: the attempt's start and end beside these.
	turnDeltas   = 400
	scriptEvents = turnDeltas + 2
)

// rawHop carries n messages through each partition: written to EV, read from there,
// written to OUT by a fenced writer with the headers of a position, and read.
func (w *works) rawHop(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	source, hop, sink, err := w.threeConns()
	if err != nil {
		return err
	}
	data, err := event.Encode(&event.TextDelta{At: event.At{Step: 1, Attempt: 1, Token: "0123456789abcdefghijklmnop", Ord: 17}, Text: deltaText})
	if err != nil {
		return err
	}
	item, err := feed.Encode(feed.Output{ID: "123456.0", Turn: "b0-0-0", Step: 1, Attempt: 1, Body: &feed.TextDelta{Text: deltaText}})
	if err != nil {
		return err
	}
	var arrived atomic.Int64
	defer w.cfg.tell(func() string { return fmt.Sprintf("%d of %d messages", arrived.Load(), n*w.cfg.Partitions) })()
	for p := range w.cfg.Partitions {
		t := w.turnIn(p, 0)
		g.Go(func() error {
			return write(ctx, source, p, n, func(int) (string, []byte, error) { return subjects.Events(p, t), data, nil })
		})
		g.Go(func() error {
			out := hop.NewFencedWriter(subjects.OutputsStream(p), 0)
			defer func() { _ = out.Close(ctx) }() // what is missing shows at the sink
			return enough(hop.Tail(ctx, subjects.EventsStream(p), nil, 1, func(m jet.Msg) error {
				if _, err := out.Append(subjects.Out(p, t, subjects.LaneFeed), rawHeader(m.Seq), item); err != nil {
					return err
				}
				return enoughAt(m.Seq, n)
			}))
		})
		g.Go(func() error {
			return enough(sink.Tail(ctx, subjects.OutputsStream(p), nil, 1, func(m jet.Msg) error {
				arrived.Add(1)
				return enoughAt(m.Seq, n)
			}))
		})
	}
	return g.Wait()
}

// rawHeader is as long as the headers of an output.
func rawHeader(in uint64) map[string]string {
	return map[string]string{reducer.HeaderIn: strconv.FormatUint(in, 10), reducer.HeaderIndex: "0", reducer.HeaderDigest: "0123456789abcdef0123456789abcdef"}
}

func (w *works) threeConns() (a, b, c *jet.Conn, err error) {
	if a, err = w.connect(); err == nil {
		if b, err = w.connect(); err == nil {
			c, err = w.connect()
		}
	}
	return a, b, c, err
}

var errEnough = errors.New("bench: enough")

func enoughAt(seq uint64, n int) error {
	if seq >= uint64(n) {
		return errEnough
	}
	return nil
}

func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// write appends n messages to a partition's events and returns when they are stored.
func write(ctx context.Context, conn *jet.Conn, p, n int, message func(i int) (subject string, data []byte, err error)) error {
	out := conn.NewOrderedWriter(subjects.EventsStream(p))
	for i := range n {
		subject, data, err := message(i)
		if err != nil {
			return err
		}
		if err := out.Append(ctx, subject, data); err != nil {
			return err
		}
	}
	return out.Close(ctx)
}

var completionType = []byte(`"type":"completion"`)

// foldHop carries the scripts' events through the partitions, with the reducers in
// between, and returns how many events it carried.
func (w *works) foldHop(ctx context.Context, scripts [][]scripted) (int, error) {
	source, err := w.connect()
	if err != nil {
		return 0, err
	}
	each := len(scripts[0]) / scriptEvents
	sinks, stop := context.WithCancel(ctx)
	defer stop()
	missing := make(chan struct{}, w.cfg.Partitions*each)
	var arrived atomic.Int64
	defer w.cfg.tell(func() string {
		return fmt.Sprintf("%d of about %d items", arrived.Load(), cap(missing)*scriptEvents)
	})()
	wait, err := w.tails(sinks, func(_ int, m jet.Msg) error {
		arrived.Add(1)
		if bytes.Contains(m.Data, completionType) { // decoding is not the log's work
			missing <- struct{}{}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var g errgroup.Group
	for p, events := range scripts {
		g.Go(func() error {
			return write(ctx, source, p, len(events), func(i int) (string, []byte, error) {
				return events[i].subject, events[i].data, nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	for range cap(missing) {
		select {
		case <-missing:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	stop()
	return cap(missing) * scriptEvents, wait()
}

// scripted is an event as it is written: making it is the streamer's work, not the log's.
type scripted struct {
	subject string
	data    []byte
}

// scripts opens turns, and returns about n events for each partition that follow, one
// attempt a turn. Turns are opened before anything counts, as gateways do it: one by one,
// each waiting for the log.
func (w *works) scripts(ctx context.Context, n int) ([][]scripted, error) {
	each := max(n/scriptEvents, 1)
	data, err := event.Encode(opening())
	if err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.SetLimit(32)
	out := make([][]scripted, w.cfg.Partitions)
	for p := range out {
		var all []subjects.Turn
		for i := range each {
			t := w.turnIn(p, i)
			all = append(all, t)
			g.Go(func() error {
				_, err := w.conn.PublishAfter(ctx, subjects.Events(p, t), nil, data, 0)
				return err
			})
		}
		if out[p], err = script(p, all); err != nil {
			return nil, err
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, w.stored(ctx, 2*each*w.cfg.Partitions) // accepted, and the step's command
}

// script is the events of a partition's turns, several of which run at a time.
func script(p int, all []subjects.Turn) ([]scripted, error) {
	const together = 8
	var out []scripted
	for group := range slices.Chunk(all, together) {
		var side [][]scripted // by turn
		for _, t := range group {
			at := event.At{Step: 1, Attempt: 1, Token: t.ID}
			bodies := []event.Body{&event.AttemptStarted{Step: 1, Attempt: 1, Token: t.ID, Provider: "bench", API: "openai-chat", Model: "bench"}}
			for ; at.Ord < turnDeltas; at.Ord++ {
				bodies = append(bodies, &event.TextDelta{At: at, Text: deltaText})
			}
			var one []scripted
			for _, b := range append(bodies, &event.AttemptFinished{At: at, Finish: "stop"}) {
				data, err := event.Encode(b)
				if err != nil {
					return nil, err
				}
				one = append(one, scripted{subjects.Events(p, t), data})
			}
			side = append(side, one)
		}
		for i := range scriptEvents {
			for _, one := range side {
				out = append(out, one[i])
			}
		}
	}
	return out, nil
}
