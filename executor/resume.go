package executor

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/feed"
)

// resumeParallel is how many reports and turns are looked at at a time at the start.
const resumeParallel = 8

// resume goes on with what the process before left: its unpublished reports, and the
// commands that open turns wait for. Redelivery would bring those too, but later.
func (x *Executor) resume(ctx context.Context) {
	for _, part := range []struct {
		what string
		do   func(context.Context) error
	}{{"forget erased turns", x.forgetErased}, {"publish the outbox", x.resumeReports}, {"read open turns", x.resumeTurns}} {
		err := x.persist(ctx, part.do)
		if isFault(err) {
			x.fail(err)
		}
		if err != nil {
			x.cfg.Log.Debug().Err(err).Msg(part.what)
		}
	}
}

// persist repeats f until it succeeds, the host's memory fails, or ctx ends.
func (x *Executor) persist(ctx context.Context, f func(context.Context) error) error {
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		err := f(ctx)
		if err == nil || isFault(err) {
			return err
		}
		if x.performer.clock.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

func (x *Executor) resumeReports(ctx context.Context) error {
	reports, err := x.cfg.Store.Outbox()
	if err != nil {
		return faulty(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(resumeParallel)
	for _, u := range reports {
		g.Go(func() error { return x.resumeReport(ctx, u) })
	}
	return g.Wait()
}

// resumeReport puts a report on the log, and then has its call settled: with its
// command, if that is at hand, it may run again where its class allows that.
func (x *Executor) resumeReport(ctx context.Context, u keystore.Unsettled) error {
	if _, err := x.performer.know(ctx, u.Key); err != nil {
		return err
	}
	if err := x.performer.embody(ctx, u); err != nil {
		return err
	}
	turn, call, err := parseCallName(u.Call)
	if err != nil {
		x.cfg.Log.Error().Err(err).Str("key", u.Key).Msg("report of no call")
		return nil
	}
	var j *job
	if len(u.Command) > 0 {
		if j, err = newJob(turn, u.Command); err != nil {
			x.cfg.Log.Error().Err(err).Str("call", u.Call).Str("key", u.Key).Msg("command in memory is malformed")
		}
	}
	if j == nil || err != nil {
		j = bareJob(turn, call, u.Key)
	}
	j.patient, j.tried = true, true
	x.desk.take(x.stages.start, j, false)
	return nil
}

// embody states a report again whose body the log lacks: the process before may have died,
// or lost its connection, between the two.
func (p *performer) embody(ctx context.Context, u keystore.Unsettled) error {
	if u.BodyDigest == "" {
		return nil
	}
	if _, ok, err := p.bodies.Body(ctx, u.Key, u.Token); ok || err != nil {
		return err
	}
	f, ok, err := p.memory.Reported(u.Key, u.Token)
	if err != nil || !ok {
		return faulty(err)
	}
	return p.state(ctx, u.Key, f)
}

// resumeTurns takes the commands that open turns wait for. Calls whose claim another
// host holds are left to it.
func (x *Executor) resumeTurns(ctx context.Context) error {
	open, err := x.cfg.Turns.Open(ctx, -1)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(resumeParallel)
	for _, t := range open {
		g.Go(func() error { return x.resumeTurn(ctx, t) })
	}
	return g.Wait()
}

func (x *Executor) resumeTurn(ctx context.Context, t subjects.Turn) error {
	state, err := x.cfg.Turns.Load(ctx, t, 0)
	if err != nil {
		return err
	}
	for _, out := range state.Pending() {
		if out.Body.Lane() != subjects.LaneCall {
			continue
		}
		raw, err := feed.Encode(out)
		if err != nil {
			return err
		}
		j, err := newJob(t, raw)
		if err != nil || j == nil {
			x.cfg.Log.Error().Err(err).Str("turn", t.String()).Msg("pending command is malformed")
			continue
		}
		j.tried = true // perhaps by the process before, or by another host
		x.desk.take(x.stages.start, j, false)
	}
	return nil
}
