package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/cmd/turnfold/gateway"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
)

// runningEvery is how often an embedded deployment that has been asked to stop looks
// whether turns still run.
const runningEvery = 100 * time.Millisecond

// run works until ctx ends or a component fails, and then stops in this order: no new
// requests; running turns get the grace; streamers and executors; the reducer, which
// still folds their last words; the feeds. It closes the app.
func (a *app) run(ctx context.Context) error {
	defer a.close()
	g, failed := errgroup.WithContext(context.Background())
	feeds, stopFeeds := context.WithCancel(context.Background())
	defer stopFeeds()
	folds, stopFolds := context.WithCancel(context.Background())
	defer stopFolds()
	work, stopWork := context.WithCancel(context.Background())
	defer stopWork()

	start := func(name string, f func() error) {
		g.Go(func() error {
			if err := f(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	var workers sync.WaitGroup
	worker := func(name string, f func(context.Context) error) {
		workers.Add(1)
		start(name, func() error { defer workers.Done(); return f(work) })
	}
	if a.reducer != nil {
		start(roleReducer, func() error { return a.reducer.Run(folds) })
	}
	if a.streamer != nil {
		worker(roleStreamer, a.streamer.Run)
	}
	if a.executor != nil {
		worker(roleExecutor, a.executor.Run)
	}
	if a.gateway != nil {
		start(roleGateway, func() error { return a.gateway.Run(feeds) })
		start("http", a.serve)
	}

	select {
	case <-ctx.Done():
		a.log.Info().Msg("stopping")
	case <-failed.Done(): // told by g.Wait
	}
	closed := a.refuseRequests()
	if failed.Err() == nil {
		a.awaitTurns()
	}
	stopWork()
	workers.Wait()
	a.log.Debug().Msg("streamer and executor have stopped")
	stopFolds()
	stopFeeds()
	<-closed
	a.log.Debug().Msg("every request is answered")
	err := g.Wait()
	a.log.Debug().Err(err).Msg("every component has stopped")
	return err
}

func (a *app) serve() error {
	if err := a.http.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// refuseRequests closes the listener at once; closed is when the last answer is done.
func (a *app) refuseRequests() (closed chan struct{}) {
	closed = make(chan struct{})
	if a.gateway == nil {
		close(closed)
		return closed
	}
	a.gateway.Drain()
	go func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(context.Background(), a.cfg.ShutdownGrace+closeTimeout)
		defer cancel()
		if a.http.Shutdown(ctx) != nil {
			_ = a.http.Close() // what is left has had its time
		}
	}()
	return closed
}

// awaitTurns lets the turns of an embedded deployment end, for the grace. In a cluster
// they go on on other hosts.
func (a *app) awaitTurns() {
	if a.embedded == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.ShutdownGrace)
	defer cancel()
	for told := false; ; {
		t, running := a.running(ctx)
		if !running {
			return
		}
		if !told {
			told = true
			a.log.Info().Str("turn", t.ID).Stringer("grace", a.cfg.ShutdownGrace).Msg("waiting for running turns")
		}
		select {
		case <-ctx.Done():
			a.log.Warn().Str("turn", t.ID).Msg("turns still run; they go on after the next start")
			return
		case <-time.After(runningEvery):
		}
	}
}

// running finds a turn that would go on by itself. One that waits for a person, for
// days perhaps, does not.
func (a *app) running(ctx context.Context) (subjects.Turn, bool) {
	open, err := a.turns.Open(ctx, -1)
	if err != nil {
		return subjects.Turn{}, false // the log is away: nothing can run
	}
	for _, t := range open {
		s, err := a.turns.Load(ctx, t, 0)
		if err == nil && s.Status != fold.Absent && !s.Done() && !parked(&s) {
			return t, true
		}
	}
	return subjects.Turn{}, false
}

// parked reports whether all that a turn waits for is a person.
func parked(s *fold.State) bool {
	waits := false
	v := s.View()
	for _, st := range v.Steps {
		for _, c := range st.Calls {
			if c.Outcome == "" && c.Waiting == "" {
				return false
			}
			waits = waits || c.Waiting != ""
		}
	}
	return waits
}

// ready tells of everything that this process needs to be of use.
func (a *app) ready(ctx context.Context) []gateway.Check {
	checks := []gateway.Check{{Name: "log", OK: a.conn.Connected()}}
	if !checks[0].OK {
		checks[0].Detail = "the log server cannot be reached"
		return checks
	}
	n := a.cfg.Partitions
	if a.reducer != nil {
		owned := a.reducer.Owned()
		c := gateway.Check{Name: "partitions", OK: owned == n, Detail: fmt.Sprintf("%d of %d are folded here", owned, n)}
		if a.embedded == nil {
			c.Info, c.OK = true, owned > 0
		}
		checks = append(checks, c)
	}
	if a.embedded == nil {
		checks = append(checks, a.owners(ctx))
	}
	return append(checks, a.unreadable()...)
}

// owners checks that every partition of a cluster has somebody who folds it.
func (a *app) owners(ctx context.Context) gateway.Check {
	c := gateway.Check{Name: "owners"}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	keys, err := a.conn.Bucket(subjects.BucketLeases).Keys(ctx, "partition.*")
	switch {
	case err != nil:
		c.Detail = "the log does not say who owns the partitions"
	case len(keys) < a.cfg.Partitions:
		c.Detail = fmt.Sprintf("%d of %d partitions have an owner", len(keys), a.cfg.Partitions)
	default:
		c.OK = true
	}
	return c
}

// unreadable tells how many events and outputs could not be used. They are set aside:
// no reason to be out of service, but one to look.
func (a *app) unreadable() []gateway.Check {
	n, err := a.gateway.Count("turnfold_events_set_aside_total", "turnfold_feed_unreadable_total")
	if err != nil {
		return nil
	}
	return []gateway.Check{{Name: "unreadable events", OK: n == 0, Info: true,
		Detail: strconv.FormatFloat(n, 'f', 0, 64)}}
}
