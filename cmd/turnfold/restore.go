package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/executor"
	"github.com/turnfold/turnfold/reducer/archive"
	"github.com/turnfold/turnfold/streamer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

func restoreCommand(g *globals) *cobra.Command {
	var deployment string
	cmd := &cobra.Command{
		Use: "restore <archive|bundle>...", Short: "Make a fresh deployment of archived turns; nothing runs again",
		Long: "restore verifies archives and bundles, all of them, and then makes a fresh deployment of them: the same events\n" +
			"and outputs at the same places, the messages, and what is known of every effect, so that none is made again.\n" +
			"No model is asked and no tool is called. The store must be empty and no turnfold may run on it. A restore that\n" +
			"was cut off leaves a store that nobody serves; run it again.",
		Example: "  turnfold restore /archive --set nats.store_dir=/restored",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			return runRestore(cmd, g, list, deployment)
		},
	}
	cmd.Flags().StringVar(&deployment, "deployment", "", "refuse archives of another deployment")
	return cmd
}

func runRestore(cmd *cobra.Command, g *globals, list []string, deployment string) error {
	sources, err := archive.Sources(list)
	if err != nil {
		return restoreFault(err)
	}
	o, err := g.open(cmd, false)
	if err != nil {
		return err
	}
	close := sync.OnceFunc(o.close)
	defer close()
	if o.cfg.NATS.Embedded() && !o.alone {
		return unavailable(errors.New("restore: turnfold serve runs on this store; stop it first"))
	}
	tick := time.Now()
	r := archive.Restore{Conn: o.log.Conn, Layout: layoutOf(o.cfg), Deployment: deployment, SpoolDir: o.cfg.NATS.StoreDir, Workers: workers,
		Progress: func(stage string, done, total int) {
			if time.Since(tick) > time.Second {
				tick = time.Now()
				fmt.Fprintf(cmd.ErrOrStderr(), "\rrestore: %s %d of %d ", stage, done, total)
			}
		}}
	if err := r.Conn.Fresh(cmd.Context(), r.Layout); err != nil {
		return restoreFault(err)
	}
	var done archive.Restored
	if o.alone {
		close()
		done, err = restoreBeside(cmd.Context(), r, filepath.Join(o.cfg.NATS.StoreDir, "nats"), sources)
	} else {
		if keys, err := r.Conn.Bucket(subjects.BucketLeases).Keys(cmd.Context(), "partition.*"); err == nil && len(keys) > 0 {
			return unavailable(fmt.Errorf("restore: %d partitions have an owner; stop every turnfold of this deployment first", len(keys)))
		}
		done, err = r.Run(cmd.Context(), sources)
	}
	if err != nil {
		return restoreFault(err)
	}
	if g.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(done)
	}
	say(cmd, "%d turns are back from %d bundles of deployment %s: %d events, %d outputs, %d facts of %d effects",
		done.Turns, done.Bundles, done.From, done.Events, done.Outputs, done.Facts, done.Keys)
	return nil
}

// workers are those whose commands are in the archives.
func workers(p int) []jet.WorkConfig {
	return []jet.WorkConfig{
		{Stream: subjects.OutputsStream(p), Durable: streamer.Durable, Filter: subjects.OutLane(p, subjects.LaneStep)},
		{Stream: subjects.OutputsStream(p), Durable: executor.Durable, Filter: subjects.OutLane(p, subjects.LaneCall)},
	}
}

// restoreBeside makes the streams in a folder beside the store's, with a server of its
// own, and moves them in when they are proven. What a crash leaves is that folder, which
// nobody looks at, and the next run removes.
func restoreBeside(ctx context.Context, r archive.Restore, store string, sources []archive.Source) (done archive.Restored, err error) {
	unlock, err := embed.Lock(store)
	if err != nil {
		return done, unavailable(err)
	}
	defer unlock()
	beside := store + ".restoring"
	if err := os.RemoveAll(beside); err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer os.RemoveAll(beside)
	srv, err := embed.Start(embed.Config{StoreDir: beside, Log: zerolog.Nop()})
	if err != nil {
		return done, err
	}
	stop := sync.OnceFunc(srv.Shutdown)
	defer stop()
	if r.Conn, err = jet.Connect(ctx, jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Name: "turnfold-restore", Log: zerolog.Nop()}); err != nil {
		return done, unavailable(err)
	}
	done, err = r.Run(ctx, sources)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := errors.Join(err, r.Conn.Close(closing)); err != nil {
		return done, err
	}
	stop()
	if err := syncTree(beside); err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(store, embed.StreamsDir)); err != nil { // it is fresh
		return done, fmt.Errorf("restore: %w", err)
	}
	if err := os.Rename(filepath.Join(beside, embed.StreamsDir), filepath.Join(store, embed.StreamsDir)); err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	syncFolder(store)
	return done, nil
}

// syncTree has all that lies in a folder on the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// restoreFault gives a store that must not be used the exit code of usage, and an archive
// that does not hold that of a mismatch.
func restoreFault(err error) error {
	switch {
	case errors.Is(err, jet.ErrNotFresh), errors.Is(err, jet.ErrLayout):
		return coded{exitUsage, err}
	case errors.Is(err, archive.ErrUnproven), errors.Is(err, archive.ErrOpen):
		return coded{exitMismatch, err}
	}
	return bundleFault(err)
}
