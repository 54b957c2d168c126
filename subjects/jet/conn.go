// Package jet keeps turnfold's logs on JetStream: writers, tails, work, buckets,
// leases and the facts of effects.
//
// Invariants: what a writer reported as stored is stored, in the order in which it
// was given; a reader gets every message from where it asked, in order, once. No
// correctness rests on the server's memory of message ids, on acknowledgements or
// on who owns what. No type of the client library is visible from outside.
package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

const (
	defaultTimeout = 5 * time.Second

	// reconnectWait is short because everything stands still meanwhile; jitter keeps
	// the clients of a restarted server apart.
	reconnectWait   = 50 * time.Millisecond
	reconnectJitter = 50 * time.Millisecond

	pingInterval        = 5 * time.Second // finds a dead peer in two intervals
	drainTimeout        = 5 * time.Second
	connectDialInterval = 200 * time.Millisecond
)

// Config says where the log is and how to get in.
type Config struct {
	URL            string // one, or several separated by commas
	User, Password string
	CredsFile      string // of a user with JWT and nkey; instead of User
	NKeyFile       string // seed of an nkey user; instead of User
	// CAFile holds the certificates to trust; empty: the system's. CertFile and KeyFile
	// are this process's own, for servers that verify clients.
	CAFile, CertFile, KeyFile string
	Name                      string // shown by the server's tools
	// Timeout bounds one request, besides its context. Zero means 5s.
	Timeout time.Duration
	// OnReconnect is called after each reconnect, in its own goroutine.
	OnReconnect func()
	Log         zerolog.Logger
}

// Conn is a connection that reconnects by itself for ever.
type Conn struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	acks    acks
	log     zerolog.Logger
	timeout time.Duration

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines of writers and callbacks

	mu          sync.Mutex
	link        context.Context // ends with the present connection to a server
	linkLost    context.CancelFunc
	onReconnect map[int]func()
	onLost      []func()
	nextID      int
	replicas    atomic.Int64 // of what is created lazily
	closed      bool
}

// Connect returns when the server has answered, or when ctx ends.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Name == "" {
		cfg.Name = "turnfold"
	}
	c := &Conn{log: cfg.Log, timeout: cfg.Timeout, onReconnect: map[int]func(){}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.link, c.linkLost = context.WithCancel(c.ctx)
	c.replicas.Store(1)
	if cfg.OnReconnect != nil {
		c.OnReconnect(cfg.OnReconnect)
	}
	opts, err := c.options(cfg)
	if err != nil {
		c.cancel()
		return nil, fmt.Errorf("connect to %s: %w", cfg.URL, err)
	}
	for {
		if c.nc, err = nats.Connect(cfg.URL, opts...); err == nil {
			break
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrNoServers) && ended(ctx) {
			c.cancel()
			return nil, fmt.Errorf("connect to %s: %w", cfg.URL, err)
		}
		if sleep(ctx, connectDialInterval) != nil {
			c.cancel()
			return nil, fmt.Errorf("connect to %s: %w", cfg.URL, errors.Join(err, ctx.Err()))
		}
	}
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(cfg.Timeout)); err == nil {
		err = c.acks.subscribe(c.nc)
	}
	if err != nil {
		c.nc.Close()
		c.cancel()
		return nil, fmt.Errorf("connect to %s: %w", cfg.URL, err)
	}
	return c, nil
}

func (c *Conn) options(cfg Config) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a server that restarts may not know its users yet
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.ReconnectBufSize(-1), // what is published while disconnected fails instead of coming late
		nats.SyncQueueLen(answerQueue),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(cfg.Timeout),
		nats.DrainTimeout(drainTimeout),
		nats.ReconnectHandler(func(*nats.Conn) { c.reconnected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log.Warn().Err(err).Msg("log server disconnected")
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.linkLost()
			c.link, c.linkLost = context.WithCancel(c.ctx)
			for _, f := range c.onLost {
				f()
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			e := c.log.Warn().Err(err)
			if s != nil {
				e = e.Str("subject", s.Subject)
			}
			e.Msg("log client")
		}),
	}
	identity, err := cfg.identity()
	return append(opts, identity...), err
}

// Connected says whether the server can be reached at this moment.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// OnDisconnect has f called when the connection to a server is lost, before another one
// is used. It must neither block nor use the connection.
func (c *Conn) OnDisconnect(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onLost = append(c.onLost, f)
}

// OnReconnect has f called after each reconnect, in its own goroutine; what was
// written shortly before may be lost, even if acknowledged (power cut of a server
// that does not sync always).
func (c *Conn) OnReconnect(f func()) { c.addOnReconnect(f) }

func (c *Conn) addOnReconnect(f func()) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextID
	c.nextID++
	c.onReconnect[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.onReconnect, id)
	}
}

func (c *Conn) reconnected() {
	c.log.Info().Str("url", c.nc.ConnectedUrlRedacted()).Msg("log server connected again")
	c.mu.Lock()
	fs := make([]func(), 0, len(c.onReconnect))
	for _, f := range c.onReconnect {
		fs = append(fs, f)
	}
	c.mu.Unlock()
	for _, f := range fs {
		c.spawn(f)
	}
}

// spawn runs f in a goroutine that Close waits for; false after Close.
func (c *Conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// Close stops every writer and subscription of the connection, sends what is
// buffered, and waits until its goroutines have ended. Writers are not flushed:
// close them first.
func (c *Conn) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	err := c.drain(ctx)
	c.wg.Wait()
	return err
}

func (c *Conn) drain(ctx context.Context) error {
	ended := c.nc.StatusChanged(nats.CLOSED)
	defer c.nc.RemoveStatusListener(ended)
	if !c.nc.IsConnected() || c.nc.Drain() != nil {
		c.nc.Close()
	}
	if c.nc.IsClosed() {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		c.nc.Close()
		return ctx.Err()
	}
}

// bound ends a context after the connection's timeout at the latest.
func (c *Conn) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// linked also ends it when the server is lost, as then no answer will come.
func (c *Conn) linked(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	link := c.link
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	stop := context.AfterFunc(link, cancel)
	return ctx, func() { stop(); cancel() }
}

// sleep waits for d or the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
