// Package reducer runs the fold: for each partition that it owns it reads EV, folds
// each event into its turn, and publishes what follows onto OUT.
//
// Invariant: whatever happens to processes, hosts and connections, OUT holds the
// outputs of EV's events in order, each exactly once (docs/invariants.md, I8 and I9).
// That rests on the fenced writer alone: a second owner, believing whatever it likes,
// cannot store a message. Leases decide who works, not who may be right.
package reducer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Config is what a reducer needs.
type Config struct {
	Conn       *jet.Conn
	Partitions int
	// Instance is this host's identity, kept across restarts; Incarnation is this
	// process. A lease of the same instance and another incarnation is a dead
	// predecessor's, and is taken over at once.
	Instance, Incarnation string
	// LeaseTTL is how long a silent owner keeps its partitions. Zero means 5 s; use 10 s
	// or more on a replicated cluster, where an election alone takes 4 to 5.
	LeaseTTL time.Duration
	// Members are the reducers that share the partitions, this one among them; Run
	// leaves them when it is asked to end. Nil: this process takes what it can get.
	Members    *jet.Membership
	Log        zerolog.Logger
	Registerer prometheus.Registerer // nil: metrics are not exposed
}

func (c Config) withDefaults() Config {
	if c.LeaseTTL == 0 {
		c.LeaseTTL = 5 * time.Second
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Conn == nil {
		errs = append(errs, errors.New("needs a Conn"))
	}
	if c.Partitions < 1 {
		errs = append(errs, fmt.Errorf("needs at least 1 in Partitions, not %d", c.Partitions))
	}
	if c.Instance == "" || c.Incarnation == "" {
		errs = append(errs, errors.New("needs Instance and Incarnation"))
	}
	if c.LeaseTTL < time.Second {
		errs = append(errs, fmt.Errorf("needs a LeaseTTL of 1s or more, not %s: under it, a pause of the process looks like its death", c.LeaseTTL))
	}
	return errors.Join(errs...)
}

// Reducer owns partitions and folds them.
type Reducer struct {
	cfg     Config
	turns   *turns.Reader
	metrics *metrics
	owned   []ownership
	// giving is held by the partition that is being handed over: one at a time, so that
	// a change of members stops no more than one of them at once.
	giving   chan struct{}
	lagEvery time.Duration
	// acquire gets the right to work on a partition. Tests give it to several at once.
	acquire func(ctx context.Context, p int) (lease, error)
}

// lease is the right to work on a partition, until Lost.
type lease interface {
	Lost() <-chan struct{}
	Release(ctx context.Context) error
}

// New checks the configuration and starts nothing.
func New(cfg Config) (*Reducer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("reducer: %w", err)
	}
	r := &Reducer{cfg: cfg, turns: turns.NewReader(cfg.Conn, cfg.Partitions),
		metrics: newMetrics(cfg.Registerer), owned: make([]ownership, cfg.Partitions), giving: make(chan struct{}, 1), lagEvery: lagEvery}
	r.acquire = r.lease
	for p := range r.owned {
		r.owned[p].reconnected = make(chan struct{}, 1)
	}
	return r, nil
}

// Run works until ctx ends, then gives its partitions up and returns nil; any other
// return is a fault that needs a person. Every goroutine it started has ended by then.
func (r *Reducer) Run(ctx context.Context) error {
	r.cfg.Conn.OnReconnect(func() {
		for p := range r.owned {
			select {
			case r.owned[p].reconnected <- struct{}{}:
			default:
			}
		}
	})
	g, ctx := errgroup.WithContext(ctx)
	for p := range r.cfg.Partitions {
		g.Go(func() error { return r.own(ctx, p) })
	}
	if r.cfg.Members != nil {
		g.Go(func() error { <-ctx.Done(); r.leave(ctx); return nil })
	}
	return g.Wait()
}

// Owned counts the partitions that this process folds at the moment.
func (r *Reducer) Owned() int {
	n := 0
	for i := range r.owned {
		if r.owned[i].ready.Load() {
			n++
		}
	}
	return n
}

// own takes turns at being the owner of a partition until ctx ends.
func (r *Reducer) own(ctx context.Context, p int) error {
	log := r.cfg.Log.With().Str("component", "reducer").Int("partition", p).Logger()
	for ctx.Err() == nil {
		lease, err := r.acquire(ctx, p)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			log.Warn().Err(err).Msg("no lease; trying again")
			pause(ctx, time.Second)
			continue
		}
		log.Debug().Msg("partition owned")
		given, err := r.fold(ctx, p, lease.Lost(), log)
		r.owned[p].ready.Store(false)
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		if rerr := lease.Release(release); rerr != nil {
			log.Debug().Err(rerr).Msg("lease not released; it will run out")
		}
		cancel()
		if given {
			r.awaitTaken(ctx, p)
			<-r.giving
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fold runs sessions, one after the other, while the lease is held. A session that
// ends with an error leaves nothing behind in memory: the next one starts from what
// the log has. Only a log of a newer format ends the process.
//
// It is given away if another is to have the partition; r.giving is held then.
func (r *Reducer) fold(ctx context.Context, p int, lost <-chan struct{}, log zerolog.Logger) (given bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan bool, 1)
	defer func() { cancel(); given = <-watched }()
	go func() {
		watched <- r.keep(ctx, p, lost)
		cancel()
	}()
	wait := sessionWaitMin
	for ctx.Err() == nil {
		began := time.Now()
		s := newSession(r, p, log)
		err := s.run(ctx)
		r.owned[p].ready.Store(false)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, subjects.ErrNewer) {
			return false, fmt.Errorf("partition %d: %w; upgrade this process", p, err)
		}
		r.metrics.sessions.Inc()
		log.Info().Err(err).Msg("starting over from the log")
		if time.Since(began) > sessionSteady {
			wait = sessionWaitMin
		}
		pause(ctx, wait)
		wait = min(2*wait, sessionWaitMax)
	}
	return false, nil // whether it is given the watcher says, above
}

const (
	sessionWaitMin = 10 * time.Millisecond
	sessionWaitMax = time.Second
	// sessionSteady is how long a session must last for its end to count as a new fault.
	sessionSteady = 5 * time.Second
)

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
