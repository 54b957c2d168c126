package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/cmd/turnfold/gateway"
	"github.com/turnfold/turnfold/executor"
	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/streamer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	closeTimeout = 3 * time.Second

	// headerTimeout and headerBytesMax bound what a client may take before a handler
	// sees it. Bodies and feeds have bounds of their own.
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	headerBytesMax = 64 << 10
)

// The roles of a process.
const (
	roleReducer  = "reducer"
	roleStreamer = "streamer"
	roleExecutor = "executor"
	roleGateway  = "gateway"
)

var allRoles = []string{roleReducer, roleStreamer, roleExecutor, roleGateway}

// app is a process's components. It owns what it has opened, and closes it in the
// opposite order.
type app struct {
	cfg   *config.Config
	log   zerolog.Logger
	roles map[string]bool

	embedded *embed.Server // nil with a server of its own
	conn     *jet.Conn
	turns    *turns.Reader
	store    *keystore.Store
	gateway  *gateway.Gateway
	http     *http.Server
	listener net.Listener
	reducer  *reducer.Reducer
	streamer *streamer.Streamer
	executor *executor.Executor
	// members are this process's memberships by role; empty with an embedded server,
	// which no other process can reach.
	members map[string]*jet.Membership
	closers []func()
}

// newApp opens everything that the roles need and starts none of them.
func newApp(ctx context.Context, cfg *config.Config, roles []string, log zerolog.Logger) (a *app, err error) {
	a = &app{cfg: cfg, log: log, roles: map[string]bool{}, members: map[string]*jet.Membership{}}
	for _, r := range roles {
		a.roles[r] = true
	}
	defer func() {
		if err != nil {
			a.close()
			a = nil
		}
	}()
	tools, err := loadTools(cfg, log)
	if err != nil {
		return a, coded{exitUsage, err}
	}
	if err := os.MkdirAll(cfg.NATS.StoreDir, 0o700); err != nil {
		return a, fmt.Errorf("store directory: %w", err)
	}
	// The address first: a second process that is started by mistake ends here, before
	// it has touched the store.
	if err := a.listen(); err != nil {
		return a, err
	}
	if err := a.connect(ctx); err != nil {
		return a, err
	}
	a.turns = turns.NewReader(a.conn, cfg.Partitions)
	instance, err := identity(cfg.NATS.StoreDir)
	if err != nil {
		return a, err
	}
	incarnation := uuid.NewString()
	if err := a.join(roles, instance, incarnation); err != nil {
		return a, err
	}
	return a, a.build(instance, incarnation, tools)
}

func (a *app) listen() error {
	if !a.roles[roleGateway] {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", a.cfg.Listen)
	if err != nil {
		return unavailable(fmt.Errorf("listen: %w", err))
	}
	if a.cfg.TLS.Cert != "" {
		cert, err := tls.LoadX509KeyPair(a.cfg.TLS.Cert, a.cfg.TLS.Key)
		if err != nil {
			return errors.Join(fmt.Errorf("tls: %w", err), l.Close())
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	a.listener = l
	a.closers = append(a.closers, func() { _ = l.Close() }) // closed by the HTTP server as a rule
	return nil
}

func (a *app) component(name string) zerolog.Logger {
	return a.log.With().Str("component", name).Logger()
}

// build makes the components of this process's roles.
func (a *app) build(instance, incarnation string, tools *tool.Set) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg := a.cfg
	var err error
	if a.roles[roleReducer] {
		if a.reducer, err = reducer.New(reducer.Config{Conn: a.conn, Partitions: cfg.Partitions, Instance: instance,
			Incarnation: incarnation, LeaseTTL: cfg.Lease.TTL, Members: a.members[roleReducer],
			Log: a.log, Registerer: registry}); err != nil {
			return err
		}
	}
	if a.roles[roleStreamer] {
		providers, err := providersOf(cfg)
		if err != nil {
			return coded{exitUsage, err}
		}
		if a.streamer, err = streamer.New(streamer.Config{Conn: a.conn, Turns: a.turns, Partitions: cfg.Partitions,
			Instance: instance, Incarnation: incarnation, Providers: providers, Concurrency: cfg.Limits.ConcurrentSteps,
			RetryBudget: &streamer.RetryBudget{Fraction: cfg.Retry.Budget.Fraction, PerSecond: cfg.Retry.Budget.PerSecond},
			AliveEvery:  cfg.Alive, Grace: a.componentGrace(0), Log: a.log, Registerer: registry}); err != nil {
			return err
		}
	}
	if a.roles[roleExecutor] {
		if err := a.buildExecutor(instance, incarnation, tools, registry); err != nil {
			return err
		}
	}
	if a.roles[roleGateway] {
		return a.buildGateway(tools, registry)
	}
	return nil
}

func (a *app) buildExecutor(instance, incarnation string, tools *tool.Set, registry *prometheus.Registry) error {
	store, err := keystore.Open(filepath.Join(a.cfg.NATS.StoreDir, "keystore"), keystore.Config{Host: instance, Log: a.component("keystore")})
	if err != nil {
		return err
	}
	a.store = store
	a.closers = append(a.closers, func() {
		if err := store.Close(); err != nil {
			a.log.Error().Err(err).Msg("key store not closed cleanly")
		}
	})
	c := executor.Config{Conn: a.conn, Store: store, Tools: tools, Turns: a.turns, Partitions: a.cfg.Partitions,
		Instance: instance, Incarnation: incarnation, Concurrency: a.cfg.Limits.ConcurrentCalls,
		TenantConcurrency: a.cfg.Limits.ConcurrentCallsPerTenant,
		LeaseTTL:          a.cfg.Lease.TTL, Grace: a.componentGrace(time.Second), Members: a.members[roleExecutor],
		Log: a.log, Registerer: registry,
		RunnerConfig: tool.RunnerConfig{Requester: natsPort{a.conn}, DialNATS: dialNATS(a.component("tool"))}}
	a.executor, err = executor.New(c)
	return err
}

// componentGrace is how long a component may go on by itself after it was asked to
// stop. An embedded deployment has waited for its turns by then; in a cluster turns go
// on elsewhere, and only what this process has begun must be finished here.
func (a *app) componentGrace(embedded time.Duration) time.Duration {
	if a.embedded != nil {
		return embedded
	}
	return a.cfg.ShutdownGrace
}

func (a *app) buildGateway(tools *tool.Set, registry *prometheus.Registry) error {
	tokens, err := tokensOf(a.cfg)
	if err != nil {
		return coded{exitUsage, err}
	}
	a.gateway, err = gateway.New(gateway.Config{
		Conn: a.conn, Turns: a.turns, Partitions: a.cfg.Partitions,
		Tools: pinned(tools), Routes: routesOf(a.cfg), Policy: policyOf(a.cfg), Tokens: tokens,
		TurnsPerTenant: a.cfg.Limits.TurnsPerTenant, AcceptWithin: max(3*a.cfg.Lease.TTL, gateway.AcceptWithinMin),
		Origins: a.cfg.Origins(), BodyBytesMax: int64(a.cfg.Limits.BodyBytes), Ready: a.ready, Version: buildVersion().Version,
		Audit: func(ctx context.Context, t subjects.Turn) (any, error) {
			return audit.Turn(ctx, a.conn, a.cfg.Partitions, t)
		},
		Log: a.log, Registry: registry,
	})
	if err != nil {
		return err
	}
	a.http = &http.Server{
		Handler: a.gateway.Handler(), ReadHeaderTimeout: headerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax, // no write timeout: feeds live for long
	}
	return nil
}

// close gives back what was opened: key store, connection, server, each after what
// rests on it.
func (a *app) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
		a.log.Debug().Int("left", i).Msg("closed")
	}
	a.closers = nil
}
