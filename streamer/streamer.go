// Package streamer turns step commands into model requests and their streams into
// events.
//
// Invariants: an opened attempt is one HTTP request (docs/invariants.md, I10), and a
// request is made only for an attempt that this process has opened by compare-and-set
// on the turn's subject. What it sends comes from the fold at the command's input. Its
// events are stored in order, with ords from 0 and no gap (I1). Whatever ends early,
// by a restart or a stop, is declared lost, never continued.
package streamer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Durable is the consumer that all streamers of a partition share.
const Durable = "streamers"

const (
	defaultConcurrency = 256
	defaultAckWait     = 5 * time.Second
	defaultAlive       = 5 * time.Second

	// farewell bounds what is still written after the grace is over.
	farewell = 3 * time.Second
)

// Provider is where the attempts of one route entry go.
type Provider struct {
	API provider.API
	// Endpoint is asked for each attempt, so that a rotated key needs no restart. Its
	// error is shown to people as a failure of the provider's api_key_env; it must not
	// hold the key.
	Endpoint func() (provider.Endpoint, error)
}

// Config of a Streamer.
type Config struct {
	Conn       *jet.Conn
	Turns      *turns.Reader
	Partitions int
	// Instance names this host across restarts. No two live processes may share it:
	// each would declare the other's attempts lost. Incarnation names this process.
	Instance, Incarnation string
	// Providers by their name in the configuration.
	Providers map[string]Provider
	// Requester sends the requests; nil means one with defaults.
	Requester *provider.Requester
	// Concurrency is how many attempts run at a time in this process. Zero means 256.
	Concurrency int
	// AckWait is after how long without a heartbeat a command goes to another
	// streamer. Every streamer of a deployment needs the same. Zero means 5s.
	AckWait time.Duration
	// AliveEvery is how often a quiet attempt shows that it lives, in turns whose
	// policy does not say. Zero means 5s.
	AliveEvery time.Duration
	// Grace is how long running attempts may go on after Run was asked to stop; those
	// that are left are declared lost. Zero gives them no time.
	Grace time.Duration
	// RetryBudget bounds the retries of all streamers together. Every streamer of a
	// deployment needs the same. Nil means 20 % and 10 per second.
	RetryBudget *RetryBudget
	Log         zerolog.Logger
	Registerer  prometheus.Registerer // nil: metrics are not registered
}

func (c Config) withDefaults() Config {
	if c.Requester == nil {
		c.Requester = provider.NewRequester(provider.Config{})
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.AckWait == 0 {
		c.AckWait = defaultAckWait
	}
	if c.AliveEvery == 0 {
		c.AliveEvery = defaultAlive
	}
	if c.RetryBudget == nil {
		c.RetryBudget = &defaultRetryBudget
	}
	c.Providers = maps.Clone(c.Providers)
	return c
}

func (c Config) validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("streamer: "+format, args...))
		}
	}
	need(c.Conn != nil, "Conn is missing")
	need(c.Turns != nil, "Turns is missing")
	need(c.Partitions > 0, "Partitions is %d", c.Partitions)
	need(c.Instance != "", "Instance is empty")
	need(c.Incarnation != "", "Incarnation is empty")
	need(c.Concurrency > 0, "Concurrency is %d", c.Concurrency)
	need(c.AckWait >= time.Millisecond, "AckWait is %s", c.AckWait)
	need(c.AliveEvery > 0, "AliveEvery is %s", c.AliveEvery)
	need(c.Grace >= 0, "Grace is %s", c.Grace)
	errs = append(errs, c.RetryBudget.validate())
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p := c.Providers[name]
		need(p.API != nil, "provider %s has no API", name)
		need(p.Endpoint != nil, "provider %s has no Endpoint", name)
	}
	return errors.Join(errs...)
}

// Streamer works on the step commands of every partition.
type Streamer struct {
	cfg     Config
	metrics *metrics
	budget  *budget
	// reconnected says that the connection was lost since it was last looked at.
	reconnected chan struct{}
	hook        sync.Once
	// publishAfter is the connection's; tests lose its answers.
	publishAfter func(ctx context.Context, subject string, header map[string]string, data []byte, last uint64) (uint64, error)
}

// New checks the configuration; it starts nothing.
func New(cfg Config) (*Streamer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("streamer: %w", err)
	}
	return &Streamer{cfg: cfg, metrics: m, budget: newBudget(*cfg.RetryBudget, time.Now),
		reconnected: make(chan struct{}, 1), publishAfter: cfg.Conn.PublishAfter}, nil
}

// shift is one Run.
type shift struct {
	*Streamer
	stop  context.Context // ends when no new attempt may begin
	life  context.Context // ends when running attempts must be given up
	lanes []*lane         // by partition
	slots chan struct{}   // holds one element per attempt at work
	open  attempts
	due   dues
	pulse pulse
}

// Run works until ctx ends. Then it takes no more commands, lets running attempts
// finish for the grace, declares the rest lost, and returns nil; any other return is a
// fault. Every goroutine it started has ended by then.
func (s *Streamer) Run(ctx context.Context) error {
	g, stop := errgroup.WithContext(ctx)
	life, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	sh := &shift{Streamer: s, stop: stop, life: life, slots: make(chan struct{}, s.cfg.Concurrency)}
	var helpers sync.WaitGroup
	over, finish := context.WithCancel(context.WithoutCancel(ctx)) // no attempt runs any more
	defer finish()
	helpers.Go(func() { graceful(stop, over, s.cfg.Grace, abandon) })
	s.hook.Do(func() { s.cfg.Conn.OnReconnect(s.reconnect) })
	helpers.Go(func() { sh.recheck(over) })
	helpers.Go(func() { sh.pulse.run(over, sh.cfg.AckWait/3) })
	helpers.Go(func() {
		if err := s.budget.exchange(over, s.cfg.Conn); err != nil {
			s.cfg.Log.Warn().Err(err).Msg("retry budget is not shared")
		}
	})
	for p := range s.cfg.Partitions {
		l := newLane(s.cfg.Conn.NewOrderedWriter(subjects.EventsStream(p)))
		sh.lanes = append(sh.lanes, l)
		helpers.Go(func() { l.run(over) })
	}
	for p := range s.cfg.Partitions {
		g.Go(func() error { return sh.work(p) })
	}
	g.Go(func() error { sh.resume(); return nil })
	err := g.Wait()
	finish()
	helpers.Wait()
	end, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for _, l := range sh.lanes {
		_ = l.writer.Close(end) // every attempt has flushed, or has been given up
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("streamer: %w", err)
	}
	return nil
}

func (s *Streamer) reconnect() {
	select {
	case s.reconnected <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// graceful gives running attempts up when the grace after stop is over.
func graceful(stop, over context.Context, grace time.Duration, abandon context.CancelCauseFunc) {
	select {
	case <-stop.Done():
	case <-over.Done():
		return
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-t.C:
		abandon(errStopped)
	case <-over.Done():
	}
}

// work takes a partition's commands until asked to stop, and returns when they are
// finished.
func (sh *shift) work(p int) error {
	lane := subjects.OutLane(p, subjects.LaneStep)
	silence, err := sh.cfg.Conn.Listen(lane, func(m jet.Msg) { sh.overhear(m) })
	if err != nil {
		return err
	}
	defer silence()
	deaf, err := sh.cfg.Conn.Listen(subjects.LagSubject(p), sh.lanes[p].overhearLag)
	if err != nil {
		return err
	}
	defer deaf()
	// Twice an even share: partitions are never loaded evenly, but a process should
	// not sit on commands that it has no slot for while another one has.
	share := (sh.cfg.Concurrency + sh.cfg.Partitions - 1) / sh.cfg.Partitions
	return sh.cfg.Conn.Work(sh.stop, jet.WorkConfig{
		Stream: subjects.OutputsStream(p), Durable: Durable, Filter: lane,
		AckWait: sh.cfg.AckWait, InFlight: min(2*share, sh.cfg.Concurrency),
	}, sh.deliver)
}
