package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/streamer"
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	beginTimeout = 60 * time.Second
	endTimeout   = 60 * time.Second
	settleMax    = time.Second
)

// stream runs n turns whose model writes rate deltas per second each (0: as many as are
// taken) and measures from the moment on that all of them stream.
func stream(ctx context.Context, cfg PipelineConfig, n int, rate float64) (Delays, int64, error) {
	cfg = cfg.withDefaults()
	d := Delays{Turns: n, Asked: rate * float64(n)}
	w, err := newWorks(ctx, cfg)
	if err != nil {
		return d, 0, err
	}
	defer w.close()
	model, err := newSynthetic(rate)
	if err != nil {
		return d, 0, err
	}
	defer model.close()
	if err := w.reduce(cfg.Reducers); err != nil {
		return d, 0, err
	}
	if err := w.streamer(model, n); err != nil {
		return d, 0, err
	}
	got := &arrivals{model: model}
	sinks, stop := context.WithCancel(ctx)
	defer stop()
	wait, err := w.tails(sinks, func(_ int, m jet.Msg) error { return got.take(m.Data) })
	if err != nil {
		return d, 0, err
	}
	defer cfg.tell(func() string {
		return fmt.Sprintf("%d of %d turns speak, %d deltas written, %d shown", model.started.Load(), n, model.written.Load(), model.arrived.Load())
	})()
	began := time.Now()
	if err := w.open(ctx, n); err != nil {
		return d, 0, err
	}
	if err := until(ctx, beginTimeout, "every stream has begun", func() bool { return model.started.Load() >= int64(n) }); err != nil {
		return d, 0, err
	}
	d.Begin = time.Since(began).Microseconds()
	time.Sleep(min(cfg.For, settleMax)) // connections and collectors come to rest before anything counts
	var resident int64
	took, cpu, err := w.timed(func() error {
		got.count(true)
		defer got.count(false)
		select {
		case <-time.After(cfg.For):
		case <-ctx.Done():
		}
		resident = residentBytes()
		// A phase in which nothing came would say nothing of how late it is.
		return until(ctx, endTimeout, "something is shown", func() bool { return got.counted() >= n })
	})
	if err != nil {
		return d, 0, err
	}
	got.report(&d, took, cpu)
	close(model.over)
	err = until(ctx, endTimeout, "every turn has ended", func() bool { return got.ended.Load() >= int64(n) })
	stop()
	err = errors.Join(err, wait())
	if why := got.failed.Load(); why != nil {
		err = errors.Join(err, fmt.Errorf("a turn failed: %s", *why))
	}
	return d, resident, err
}

// streamer runs one streamer on a connection of its own.
func (w *works) streamer(model *synthetic, n int) error {
	conn, err := w.connect()
	if err != nil {
		return err
	}
	s, err := streamer.New(streamer.Config{Conn: conn, Turns: turns.NewReader(conn, w.cfg.Partitions), Partitions: w.cfg.Partitions,
		Instance: "s", Incarnation: "1", Concurrency: 2 * n, Log: zerolog.Nop(),
		Providers: map[string]streamer.Provider{"bench": {API: openaichat.API{}, Endpoint: func() (provider.Endpoint, error) {
			return provider.Endpoint{BaseURL: model.url()}, nil
		}}}})
	if err != nil {
		return err
	}
	w.running.Go(func() { _ = s.Run(w.ctx) }) // a fault shows as silence, which is an error
	return nil
}

// open opens n turns.
func (w *works) open(ctx context.Context, n int) error { return w.openFrom(ctx, 0, n) }

// openFrom opens n turns from number `from` on, as a gateway does.
func (w *works) openFrom(ctx context.Context, from, n int) error {
	marker := turns.NewReader(w.conn, w.cfg.Partitions)
	data, err := event.Encode(opening())
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(32)
	for i := from; i < from+n; i++ {
		t := subjects.Turn{Tenant: subjects.LocalTenant, ID: "stream-" + strconv.Itoa(i)}
		g.Go(func() error {
			if err := marker.MarkOpen(ctx, t); err != nil {
				return err
			}
			_, err := w.conn.PublishAfter(ctx, subjects.Events(t.Partition(w.cfg.Partitions), t), nil, data, 0)
			return err
		})
	}
	return g.Wait()
}

// arrivals is what the reader of the feeds sees.
type arrivals struct {
	model    *synthetic
	ended    atomic.Int64
	failed   atomic.Pointer[string] // why the first turn of those failed that did
	mu       sync.Mutex
	counting bool
	items    int
	delays   histogram // of every delta
}

func (a *arrivals) count(on bool) {
	a.mu.Lock()
	a.counting = on
	a.mu.Unlock()
}

func (a *arrivals) counted() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.delays.n
}

func (a *arrivals) take(data []byte) error {
	o, err := feed.Decode(data)
	if err != nil {
		return err
	}
	switch b := o.Body.(type) {
	case *feed.TextDelta:
		return a.text(b.Text)
	case *feed.Completion:
		a.ended.Add(1)
	case *feed.Error:
		a.ended.Add(1)
		a.failed.CompareAndSwap(nil, &b.Message)
	}
	return nil
}

func (a *arrivals) text(text string) error {
	now := time.Since(a.model.began)
	a.model.arrived.Add(int64(strings.Count(text, " ")))
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.counting {
		return nil
	}
	a.items++
	for word := range strings.FieldsSeq(text) {
		us, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return fmt.Errorf("a delta was spliced: %q in %.80q", word, text)
		}
		a.delays.add(now - time.Duration(us)*time.Microsecond)
	}
	return nil
}

func (a *arrivals) report(d *Delays, took, cpu time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d.DeltasPerS = float64(a.delays.n) / took.Seconds()
	d.P50, d.P99, d.Max = a.delays.quantile(0.5), a.delays.quantile(0.99), a.delays.max.Microseconds()
	d.CPU = cpu.Seconds() / took.Seconds()
	d.PerEvent = float64(a.delays.n) / float64(max(a.items, 1))
}

func until(ctx context.Context, limit time.Duration, what string, holds func() bool) error {
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("waited in vain until %s", what)
		}
	}
	return nil
}

// residentBytes is the memory that this process holds, as the kernel counts it; 0 where
// the kernel does not say.
func residentBytes() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
