package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// works is a fresh log with what is measured on it. Each part has a connection of its
// own, as it would on a host of its own.
type works struct {
	cfg     PipelineConfig
	dir     string
	srv     *embed.Server
	conn    *jet.Conn
	ctx     context.Context // ends with close
	stop    context.CancelFunc
	running sync.WaitGroup
	conns   []*jet.Conn
}

func newWorks(ctx context.Context, cfg PipelineConfig) (w *works, err error) {
	w = &works{cfg: cfg.withDefaults()}
	w.ctx, w.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "turnfold-bench-"); err != nil {
		return w, err
	}
	if w.srv, err = embed.Start(embed.Config{StoreDir: filepath.Join(w.dir, "nats"), SyncAlways: cfg.Sync, Log: zerolog.Nop()}); err != nil {
		return w, err
	}
	if w.conn, err = w.connect(); err != nil {
		return w, err
	}
	return w, w.conn.Ensure(ctx, subjects.Layout{Partitions: cfg.Partitions, Replicas: 1})
}

func (w *works) connect() (*jet.Conn, error) {
	c, err := jet.Connect(w.ctx, jet.Config{URL: w.srv.URL(), User: w.srv.User(), Password: w.srv.Password(), Log: zerolog.Nop()})
	if err == nil {
		w.conns = append(w.conns, c)
	}
	return c, err
}

func (w *works) close() {
	w.stop()
	w.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, c := range w.conns {
		_ = c.Close(ctx) // nothing of it is kept
	}
	if w.srv != nil {
		w.srv.Shutdown()
	}
	_ = os.RemoveAll(w.dir)
	debug.FreeOSMemory() // the next phase is weighed by itself
}

// timed measures time and processor of f, in this process.
func (w *works) timed(f func() error) (took, cpu time.Duration, err error) {
	began, before := time.Now(), processor()
	err = f()
	return time.Since(began), processor() - before, err
}

func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of ourselves it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reduce runs reducers that share the partitions, and returns when all are folded.
func (w *works) reduce(n int) error {
	var all []*reducer.Reducer
	for i := range n {
		conn, err := w.connect()
		if err != nil {
			return err
		}
		id := "r" + strconv.Itoa(i)
		cfg := reducer.Config{Conn: conn, Partitions: w.cfg.Partitions, Instance: id, Incarnation: "1", LeaseTTL: 5 * time.Second, Log: zerolog.Nop()}
		if n > 1 {
			if cfg.Members, err = conn.Join(jet.MemberConfig{Role: "reducer", Instance: id, Incarnation: "1", TTL: cfg.LeaseTTL}); err != nil {
				return err
			}
		}
		r, err := reducer.New(cfg)
		if err != nil {
			return err
		}
		all = append(all, r)
		w.running.Go(func() { _ = r.Run(w.ctx) }) // a fault shows as silence, which is an error
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		owned, most := 0, (w.cfg.Partitions+n-1)/n
		for _, r := range all {
			owned += min(r.Owned(), most)
		}
		if owned == w.cfg.Partitions {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d of %d partitions are folded", owned, w.cfg.Partitions)
		}
	}
}

// turnIn names the nth turn of a partition.
func (w *works) turnIn(p, n int) subjects.Turn {
	for salt := 0; ; salt++ {
		t := subjects.Turn{Tenant: subjects.LocalTenant, ID: fmt.Sprintf("b%d-%d-%d", p, n, salt)}
		if t.Partition(w.cfg.Partitions) == p {
			return t
		}
	}
}

// opening is the first fact of a turn of the bench.
func opening() *event.TurnOpened {
	return &event.TurnOpened{At: time.Now().UTC().Format(time.RFC3339Nano), Digest: "d", Route: "default", Rules: event.Rules,
		Messages: []event.Message{{Role: "user", Content: "bench"}},
		Entries:  []event.Entry{{Provider: "bench", API: "openai-chat", Model: "bench"}},
		Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, BackoffBaseMS: 10, BackoffMaxMS: 20, RetryAfterMaxMS: 1000,
			AfterText: "reset", CallsPerTurn: 8, DeadlineMS: 600_000, AliveMS: 5000, PatienceMS: 60_000}}
}

// tails follows the feeds of all partitions until ctx ends.
func (w *works) tails(ctx context.Context, take func(p int, m jet.Msg) error) (wait func() error, err error) {
	conn, err := w.connect()
	if err != nil {
		return nil, err
	}
	var g errgroup.Group
	for p := range w.cfg.Partitions {
		g.Go(func() error {
			return conn.Tail(ctx, subjects.OutputsStream(p), []string{subjects.OutLane(p, subjects.LaneFeed)}, 1, func(m jet.Msg) error {
				return take(p, m)
			})
		})
	}
	return g.Wait, nil
}
