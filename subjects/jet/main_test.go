package jet

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Started once per process by the server, and never stopped.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*ipQueue[...]).push"))
}

// testWait bounds every wait of a test; only a failing test reaches it.
const testWait = 60 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testWait)
	t.Cleanup(cancel)
	return ctx
}

// host is a server that can be stopped and started again in the same place.
type host struct {
	t   testing.TB
	cfg embed.Config
	srv *embed.Server
}

func startHost(t testing.TB) *host {
	t.Helper()
	h := &host{t: t, cfg: embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()}}
	h.start()
	h.cfg.Port = h.srv.Port()
	t.Cleanup(func() { h.srv.Shutdown() })
	return h
}

func (h *host) start() {
	h.t.Helper()
	srv, err := embed.Start(h.cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.srv = srv
}

func (h *host) restart() {
	h.t.Helper()
	h.srv.Shutdown()
	h.start()
}

func testLog() zerolog.Logger {
	if os.Getenv("JET_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "05.000"}).With().Timestamp().Logger()
}

func (h *host) connect() *Conn {
	h.t.Helper()
	return connect(h.t, Config{URL: h.srv.URL(), User: h.srv.User(), Password: h.srv.Password(), Log: testLog()})
}

func connect(t testing.TB, cfg Config) *Conn {
	t.Helper()
	c, err := Connect(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testWait)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// single is a fresh deployment of one partition on one server.
func single(t testing.TB) (*host, *Conn) {
	t.Helper()
	h := startHost(t)
	c := h.connect()
	if err := c.Ensure(testContext(t), subjects.Layout{Partitions: 1, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	return h, c
}

var (
	evStream  = subjects.EventsStream(0)
	outStream = subjects.OutputsStream(0)
	evTurn    = subjects.Events(0, subjects.Turn{Tenant: "t", ID: "x"})
	outFeed   = subjects.Out(0, subjects.Turn{Tenant: "t", ID: "x"}, subjects.LaneFeed)
)

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// collector takes what a tail delivers, for a test to wait for.
type collector struct {
	mu   sync.Mutex
	msgs []Msg
	more chan struct{}
}

func newCollector() *collector { return &collector{more: make(chan struct{}, 1)} }

func (c *collector) take(m Msg) error {
	c.mu.Lock()
	c.msgs = append(c.msgs, m)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
	return nil
}

// until waits for the first messages that satisfy enough.
func (c *collector) until(t testing.TB, what string, enough func([]Msg) bool) []Msg {
	t.Helper()
	deadline := time.After(testWait)
	for {
		c.mu.Lock()
		msgs := c.msgs[:len(c.msgs):len(c.msgs)]
		c.mu.Unlock()
		if enough(msgs) {
			return msgs
		}
		select {
		case <-c.more:
		case <-deadline:
			t.Fatalf("%s: have %d messages after %s", what, len(msgs), testWait)
		}
	}
}

func (c *collector) count(t testing.TB, n int) []Msg {
	t.Helper()
	return c.until(t, fmt.Sprintf("want %d", n), func(m []Msg) bool { return len(m) >= n })
}

// startTail tails in the background until stop, which returns its error.
func startTail(t testing.TB, c *Conn, stream string, filters []string, from uint64, fn func(Msg) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Tail(ctx, stream, filters, from, fn) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// inOrder checks that messages have rising sequences.
func inOrder(t testing.TB, msgs []Msg) {
	t.Helper()
	for i := 1; i < len(msgs); i++ {
		if msgs[i].Seq <= msgs[i-1].Seq {
			t.Fatalf("sequence %d after %d", msgs[i].Seq, msgs[i-1].Seq)
		}
	}
}
