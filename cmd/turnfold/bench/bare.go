package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// bareDelays carries messages through the raw double hop at a rate, for as long as a phase
// of streams lasts, and measures how long each is on its way: what the same log on the same
// machine, as busy as it is, makes of the same rate without turnfold.
func (w *works) bareDelays(ctx context.Context, perSecond float64) (Delays, error) {
	d := Delays{Asked: perSecond}
	source, hop, sink, err := w.threeConns()
	if err != nil {
		return d, err
	}
	began := time.Now()
	var mu sync.Mutex
	var delays histogram
	took, cpu, err := w.timed(func() error {
		g, ctx := errgroup.WithContext(ctx)
		for p := range w.cfg.Partitions {
			t := w.turnIn(p, 0)
			g.Go(func() error {
				return w.writePaced(ctx, source, subjects.EventsStream(p), subjects.Events(p, t), perSecond/float64(w.cfg.Partitions), began)
			})
			g.Go(func() error {
				out := hop.NewFencedWriter(subjects.OutputsStream(p), 0)
				defer func() { _ = out.Close(ctx) }() // what is missing shows at the sink
				return enough(hop.Tail(ctx, subjects.EventsStream(p), nil, 1, func(m jet.Msg) error {
					if _, err := out.Append(subjects.Out(p, t, subjects.LaneFeed), rawHeader(m.Seq), m.Data); err != nil {
						return err
					}
					return endsAt(m.Data)
				}))
			})
			g.Go(func() error {
				return enough(sink.Tail(ctx, subjects.OutputsStream(p), nil, 1, func(m jet.Msg) error {
					late := time.Since(began) - stampOf(m.Data)
					mu.Lock()
					defer mu.Unlock()
					if err := endsAt(m.Data); err != nil {
						return err
					}
					delays.add(late)
					return nil
				}))
			})
		}
		return g.Wait()
	})
	d.DeltasPerS, d.CPU, d.PerEvent = float64(delays.n)/took.Seconds(), cpu.Seconds()/took.Seconds(), 1
	d.P50, d.P99, d.Max = delays.quantile(0.5), delays.quantile(0.99), delays.max.Microseconds()
	return d, err
}

// writePaced writes stamped messages for as long as a phase lasts, and one more that says
// that no other comes.
func (w *works) writePaced(ctx context.Context, conn *jet.Conn, stream, subject string, perSecond float64, began time.Time) error {
	out := conn.NewOrderedWriter(stream)
	t := time.NewTicker(paceMin)
	defer t.Stop()
	start, n := time.Now(), 0
	for now := start; now.Sub(start) < w.cfg.For; {
		for due := int(now.Sub(start).Seconds() * perSecond); n < due; n++ {
			if err := out.Append(ctx, subject, stamp(began)); err != nil {
				return err
			}
		}
		select {
		case now = <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := out.Append(ctx, subject, lastStamp); err != nil {
		return err
	}
	return out.Close(ctx)
}

var stampHead = []byte(`{"v":1,"kind":"text.delta","step":1,"attempt":1,"token":"0123456789abcdefghijklmnop","ord":17,"text":"`)

// stamp is a message as long as a delta that says when it was written.
func stamp(began time.Time) []byte {
	return fmt.Appendf(nil, `%s%d"}`, stampHead, time.Since(began).Microseconds())
}

// lastStamp is the message after which none comes.
var lastStamp = append(slices.Clone(stampHead), `end"}`...)

func endsAt(data []byte) error {
	if bytes.Equal(data, lastStamp) {
		return errEnough
	}
	return nil
}

func stampOf(data []byte) time.Duration {
	digits, _ := bytes.CutPrefix(data, stampHead)
	digits, _ = bytes.CutSuffix(digits, []byte(`"}`))
	us, _ := strconv.ParseInt(string(digits), 10, 64) // ours, so it is one
	return time.Duration(us) * time.Microsecond
}
