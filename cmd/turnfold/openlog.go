package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// openLog opens the deployment's log for verbs that read all of it. They read it
// directly, not through a server's API: a verdict must not rest on the word of the
// process that is audited. Three ways lead there, tried in this order: the configured
// NATS; the embedded server of a running turnfold, whose address and credentials lie in
// the store directory for its user; and, if none runs, the store itself.
func (g *globals) openLog(cmd *cobra.Command) (l audit.Log, cfg *config.Config, closeLog func(), err error) {
	o, err := g.open(cmd, true)
	return o.log, o.cfg, o.close, err
}

// openedLog is a log that a verb reads.
type openedLog struct {
	log   audit.Log
	cfg   *config.Config
	close func()
	// alone: the store was idle, so no turnfold is at work on it.
	alone bool
}

// open is openLog; what is not there yet is a fault only if it must be.
func (g *globals) open(cmd *cobra.Command, must bool) (o openedLog, err error) {
	cfg, err := g.load(cmd)
	if err != nil {
		return o, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), connectTimeout)
	defer cancel()
	c, err := natsOf(cfg.NATS, zerolog.Nop())
	if err != nil {
		return o, coded{exitUsage, err}
	}
	stop := func() {}
	if cfg.NATS.Embedded() {
		var a embed.Address
		if a, stop, o.alone, err = ownServer(filepath.Join(cfg.NATS.StoreDir, "nats"), must); err != nil {
			return o, err
		}
		c = jet.Config{URL: a.URL, User: a.User, Password: a.Password, Log: c.Log}
	}
	c.Name = "turnfold-audit"
	conn, err := jet.Connect(ctx, c)
	if err != nil {
		stop()
		return o, unavailable(err)
	}
	closeLog := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = conn.Close(ctx) // only reads, or what was confirmed
		stop()
	}
	if _, err := conn.State(ctx, subjects.EventsStream(0)); err != nil && must {
		closeLog()
		return o, unavailable(fmt.Errorf("there is no turnfold log: %w", err))
	}
	if half, err := conn.Restoring(ctx); must && (half || err != nil) {
		closeLog()
		return o, unavailable(errors.Join(err, jet.ErrRestoring))
	}
	o.log, o.cfg, o.close = audit.Log{Conn: conn, Partitions: cfg.Partitions}, cfg, closeLog
	return o, nil
}

// ownServer finds the embedded server of a store directory, or starts one on it, and
// then is alone there.
func ownServer(dir string, must bool) (a embed.Address, stop func(), alone bool, err error) {
	if _, err := os.Stat(dir); err != nil && must {
		return a, nil, false, unavailable(fmt.Errorf("there is no log at %s: no turnfold has served this store directory", dir))
	}
	srv, err := embed.Start(embed.Config{StoreDir: dir, Log: zerolog.Nop()})
	switch {
	case err == nil:
		return embed.Address{URL: srv.URL(), User: srv.User(), Password: srv.Password()}, srv.Shutdown, true, nil
	case !errors.Is(err, embed.ErrLocked):
		return a, nil, false, err
	}
	if a, err = embed.Find(dir); err != nil {
		return a, nil, false, unavailable(err)
	}
	return a, func() {}, false, nil
}
