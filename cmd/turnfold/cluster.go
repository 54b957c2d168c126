package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	connectTimeout = 30 * time.Second
	ensureTimeout  = 60 * time.Second
)

// natsOf is how to reach the NATS servers of the configuration, and as whom.
func natsOf(n config.NATS, log zerolog.Logger) (jet.Config, error) {
	password, err := n.Password(os.LookupEnv)
	return jet.Config{URL: n.URL, User: n.User, Password: password, CredsFile: n.Creds, NKeyFile: n.NKey,
		CAFile: n.TLS.CA, CertFile: n.TLS.Cert, KeyFile: n.TLS.Key, Log: log}, err
}

// connect starts the embedded server, or finds the ones configured, and makes sure of
// the logs.
func (a *app) connect(ctx context.Context) error {
	c, err := natsOf(a.cfg.NATS, a.component("log"))
	if err != nil {
		return coded{exitUsage, err}
	}
	if a.cfg.NATS.Embedded() {
		srv, err := embed.Start(embed.Config{StoreDir: filepath.Join(a.cfg.NATS.StoreDir, "nats"),
			SyncAlways: a.cfg.NATS.Sync == "always", Log: a.component("nats")})
		if err != nil {
			return err
		}
		a.embedded = srv
		a.closers = append(a.closers, srv.Shutdown)
		c = jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Log: c.Log}
	}
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := jet.Connect(dial, c)
	switch {
	case errors.Is(err, jet.ErrIdentity):
		return coded{exitUsage, err}
	case err != nil:
		return unavailable(err)
	}
	a.conn = conn
	a.closers = append(a.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := conn.Close(ctx); err != nil {
			a.log.Debug().Err(err).Msg("connection cut")
		}
	})
	return a.layout(ctx)
}

// layout makes sure that the logs are as this process needs them.
func (a *app) layout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	l := layoutOf(a.cfg)
	see := a.conn.Ensure
	if !a.cfg.Streams.Manage {
		see = a.conn.Check
	}
	switch err := see(ctx, l); {
	case errors.Is(err, jet.ErrLayout) && !a.cfg.Streams.Manage:
		return coded{exitUsage, fmt.Errorf("%w (streams.manage is false: nothing was changed)", err)}
	case errors.Is(err, jet.ErrLayout):
		return coded{exitUsage, err}
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// join makes this process known to the others of its deployment.
func (a *app) join(roles []string, instance, incarnation string) error {
	if a.embedded != nil {
		return nil
	}
	for _, role := range roles {
		m, err := a.conn.Join(jet.MemberConfig{Role: role, Instance: instance, Incarnation: incarnation, TTL: a.cfg.Lease.TTL})
		if err != nil {
			return err
		}
		a.members[role] = m
		a.closers = append(a.closers, func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			if err := m.Leave(ctx); err != nil {
				a.log.Debug().Err(err).Msg("membership not ended; it will run out")
			}
		})
	}
	return nil
}

func layoutOf(cfg *config.Config) subjects.Layout {
	return subjects.Layout{Partitions: cfg.Partitions, Replicas: cfg.Replicas,
		EventsAge: cfg.Retention.Events, OutputsAge: cfg.Retention.Outputs, EffectsAge: cfg.Retention.Effects}
}
