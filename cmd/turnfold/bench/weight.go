package bench

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// warmTurns are there before anything is weighed: what the first turns bring into memory
// is kept once, not for each.
const warmTurns = 64

// openTurns opens turns, each with an attempt that has said something, and weighs them.
func (w *works) openTurns(ctx context.Context, n int) (int64, error) {
	if err := w.speak(ctx, 0, warmTurns); err != nil {
		return 0, err
	}
	before := weigh()
	if err := w.speak(ctx, warmTurns, n); err != nil {
		return 0, err
	}
	return (weigh() - before) / int64(n), nil
}

// speak opens n turns from number `from` on, and returns when their outputs are stored.
func (w *works) speak(ctx context.Context, from, n int) error {
	marker := turns.NewReader(w.conn, w.cfg.Partitions)
	var g errgroup.Group
	g.SetLimit(32)
	for i := from; i < from+n; i++ {
		t := subjects.Turn{Tenant: subjects.LocalTenant, ID: "open-" + strconv.Itoa(i)}
		g.Go(func() error {
			if err := marker.MarkOpen(ctx, t); err != nil {
				return err
			}
			for _, b := range spoken(t) {
				data, err := event.Encode(b)
				if err != nil {
					return err
				}
				if _, err = w.conn.Publish(ctx, subjects.Events(t.Partition(w.cfg.Partitions), t), nil, data); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	const outputs = 3 // accepted, the step's command, the text
	return w.stored(ctx, outputs*(from+n))
}

// stored returns when OUT has so many messages.
func (w *works) stored(ctx context.Context, n int) error {
	return until(ctx, endTimeout, "every open turn is folded", func() bool {
		have := uint64(0)
		for p := range w.cfg.Partitions {
			if s, err := w.conn.State(ctx, subjects.OutputsStream(p)); err == nil {
				have += s.Msgs
			}
		}
		return have >= uint64(n)
	})
}

// spoken is a turn in the middle of an answer.
func spoken(t subjects.Turn) []event.Body {
	at := event.At{Step: 1, Attempt: 1, Token: t.ID}
	text := make([]byte, 400)
	for i := range text {
		text[i] = "some words "[i%11]
	}
	return []event.Body{opening(), &event.AttemptStarted{Step: 1, Attempt: 1, Token: t.ID, Provider: "bench", API: "openai-chat", Model: "bench"},
		&event.TextDelta{At: at, Text: string(text)}}
}

// streamingTurns opens turns whose model speaks and goes on, and weighs them: by all that
// the process has got, less what as many connections cost the provider, which is in this
// process too. They are weighed by plain sockets that speak to it without a client.
func streamingTurns(ctx context.Context, cfg PipelineConfig, n int) (int64, error) {
	w, err := newWorks(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer w.close()
	model, err := newSynthetic(0)
	if err != nil {
		return 0, err
	}
	defer model.close()
	model.silent = true
	if err := w.reduce(cfg.Reducers); err != nil {
		return 0, err
	}
	if err := w.streamer(model, warmTurns+n); err != nil {
		return 0, err
	}
	var shown atomic.Int64
	sinks, stop := context.WithCancel(ctx)
	defer stop()
	wait, err := w.tails(sinks, func(_ int, m jet.Msg) error {
		o, err := feed.Decode(m.Data)
		if _, ok := o.Body.(*feed.TextDelta); ok {
			shown.Add(1)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	all := func(n int) error {
		return until(ctx, beginTimeout, "every model has spoken", func() bool { return shown.Load() >= int64(n) })
	}
	opened := func(from, n int) error {
		if err := w.openFrom(ctx, from, n); err != nil {
			return err
		}
		return all(from + n)
	}
	if err := opened(0, warmTurns); err != nil {
		return 0, err
	}
	before := weigh()
	if err := opened(warmTurns, n); err != nil {
		return 0, err
	}
	streaming := weigh()
	ends, err := bare(ctx, model, n)
	defer func() {
		for _, c := range ends {
			_ = c.Close() // nothing is read from it any more
		}
	}()
	if err != nil {
		return 0, err
	}
	provider := weigh() - streaming
	close(model.over)
	stop()
	return (streaming - before - provider) / int64(n), wait()
}

// bare opens connections to the model with nothing behind them.
func bare(ctx context.Context, model *synthetic, n int) (ends []net.Conn, err error) {
	before := model.started.Load()
	for range n {
		c, err := net.Dial("tcp", model.listener.Addr().String())
		if err != nil {
			return ends, err
		}
		ends = append(ends, c)
		if _, err := fmt.Fprint(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return ends, err
		}
	}
	return ends, until(ctx, beginTimeout, "every connection is served", func() bool { return model.started.Load() >= before+int64(n) })
}

// weigh is the memory that this process holds after a collection, as the kernel counts
// it; where that cannot be read, as the runtime does.
func weigh() int64 {
	for range 3 { // stacks shrink by half each time
		runtime.GC()
	}
	debug.FreeOSMemory()
	if n := residentBytes(); n > 0 {
		return n
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
