package streamer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// attempt does what the command asks for, if it is still wanted, and returns when the
// command shall come again; 0 for never.
func (sh *shift) attempt(c command) (time.Duration, error) {
	ctx, ok := sh.open.enter(sh.life, c.place)
	if !ok {
		return patience, nil // at work here; its delivery settles the command
	}
	defer sh.open.leave(c.place)
	select {
	case sh.slots <- struct{}{}:
		defer func() { <-sh.slots }()
	case <-ctx.Done():
	case <-sh.stop.Done():
	}
	switch {
	case sh.stop.Err() != nil:
		return time.Millisecond, nil // to another streamer, at once
	case ctx.Err() != nil:
		return 0, nil // withdrawn
	}
	o, st, err := sh.openApart(ctx, c)
	switch {
	case err != nil:
		return again, err
	case st == mine:
		if err := sh.run(ctx, c, o); err != nil {
			return again, err // whoever gets it finds the attempt orphaned
		}
	case st == elsewhere:
		return patience, nil
	case st == unseen:
		return again, nil
	}
	return 0, nil
}

// openApart is openAttempt on a stack of its own, which reading a turn makes large: it is
// given back before the attempt streams, which may take minutes.
func (sh *shift) openApart(ctx context.Context, c command) (o opening, st standing, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		o, st, err = sh.openAttempt(ctx, c)
	}()
	<-done
	return o, st, err
}

// run makes the request of an attempt that is ours, and returns when its events are
// stored.
func (sh *shift) run(ctx context.Context, c command, o opening) error {
	sh.metrics.running.Inc()
	defer sh.metrics.running.Dec()
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asking, abort := context.WithCancelCause(ctx) // an event that cannot be stored ends only the request
	defer abort(nil)
	s := newSender(sh.lanes[c.partition], subjects.Events(c.partition, c.turn),
		event.At{Step: c.step, Attempt: c.attempt, Token: o.token}, o.alive, abort)
	go s.run(ctx)
	defer func() { cancel(nil); <-s.end }()

	end := sh.ask(asking, c, o, sh.timed(s.emit, start))
	var err error
	if ctx.Err() == nil {
		if end, err = s.finish(ctx, end); err == nil {
			sh.tell(c, o, start, "", end)
			return nil
		}
	}
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return fmt.Errorf("attempt stays open: %w", err)
	case errors.Is(cause, errWithdrawn):
		sh.tell(c, o, start, fold.AttemptCancelled, &event.AttemptFailed{Class: event.Cancelled})
		return nil // the fold has closed the attempt: nothing more of it counts
	}
	<-s.end // nothing follows the loss
	return sh.abandon(c, o, start)
}

// abandon declares an attempt lost that the end of this process has cut off, so that
// the fold asks for another one at once.
func (sh *shift) abandon(c command, o opening, start time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	data, err := event.Encode(&event.AttemptLost{Step: c.step, Attempt: c.attempt, Token: o.token, Reason: "streamer stopped"})
	if err != nil {
		return err
	}
	// Behind the attempt's own events, so that what was said is stored.
	w := sh.lanes[c.partition].writer
	if err = w.Append(ctx, subjects.Events(c.partition, c.turn), data); err == nil {
		err = w.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("attempt stays open: %w", err)
	}
	sh.tell(c, o, start, fold.AttemptLost, &event.AttemptFailed{Class: event.Lost})
	return nil
}

// ask makes the request, or says why there is none. An attempt that ends before the
// requester is called is unsent: the provider has not been asked.
func (sh *shift) ask(ctx context.Context, c command, o opening, emit emitter) (end event.Body) {
	defer func() {
		// What a provider sends is foreign; it must not end the other attempts.
		if r := recover(); r != nil {
			c.log(sh.cfg.Log.Error()).Str("panic", fmt.Sprintf("%T", r)).Bytes("stack", debug.Stack()).Msg("adapter failed")
			end = &event.AttemptFailed{Class: event.ServerError, Detail: "the " + c.API + " adapter failed", Retryable: true}
		}
	}()
	api, endpoint, refusal := sh.target(c)
	if refusal != nil {
		return refusal
	}
	if refusal := sh.afford(o); refusal != nil {
		return refusal
	}
	return sh.cfg.Requester.Attempt(ctx, api, endpoint, request(c, o.then), nil,
		func(b event.Body) error { return emit(ctx, b) })
}

// afford counts the request against the fleet's budget of retries. First attempts are
// what the budget grows by; what follows a lost attempt is neither, because there it was
// not the provider that failed.
func (sh *shift) afford(o opening) event.Body {
	switch o.kind {
	case firstRequest:
		sh.budget.first()
	case retryRequest:
		if ok, fleet := sh.budget.retry(); !ok {
			sh.metrics.denied.Inc()
			return &event.AttemptFailed{Class: event.Budget, Unsent: true, Detail: fmt.Sprintf(
				"retry.budget: %d retries beside %d first attempts in the last %s", fleet.retry, fleet.first, budgetSlots*budgetSlot)}
		}
	}
	return nil
}

// target finds where the attempt goes. What is wrong here is for whoever runs the
// process to fix; a route's other entries may still serve.
func (sh *shift) target(c command) (provider.API, provider.Endpoint, event.Body) {
	refuse := func(class event.Class, format string, args ...any) (provider.API, provider.Endpoint, event.Body) {
		return nil, provider.Endpoint{}, &event.AttemptFailed{Class: class, Detail: fmt.Sprintf(format, args...), Unsent: true}
	}
	p, ok := sh.cfg.Providers[c.Provider]
	if !ok {
		return refuse(event.InvalidRequest, "providers.%s is not in the configuration of streamer %s", c.Provider, sh.cfg.Instance)
	}
	if p.API.Name() != c.API {
		return refuse(event.InvalidRequest, "providers.%s.api is %s in the configuration of streamer %s; the turn needs %s",
			c.Provider, p.API.Name(), sh.cfg.Instance, c.API)
	}
	endpoint, err := p.Endpoint()
	if err != nil {
		return refuse(event.Auth, "providers.%s.api_key_env: %s", c.Provider, provider.OneLine(err.Error(), 200))
	}
	return p.API, endpoint, nil
}

type emitter func(context.Context, event.Body) error

// timed measures the time to the first piece.
func (sh *shift) timed(emit emitter, start time.Time) emitter {
	var first sync.Once
	return func(ctx context.Context, b event.Body) error {
		first.Do(func() { sh.metrics.firstDelta.Observe(time.Since(start).Seconds()) })
		return emit(ctx, b)
	}
}

// tell counts and logs an attempt's end.
func (sh *shift) tell(c command, o opening, start time.Time, outcome fold.AttemptOutcome, end event.Body) {
	var class event.Class
	var usage event.Usage
	entry := c.log(sh.cfg.Log.Info())
	switch b := end.(type) {
	case *event.AttemptFinished:
		outcome, usage = fold.AttemptFinished, b.Usage
		entry = entry.Str("request_id", b.RequestID)
	case *event.AttemptFailed:
		class, usage = b.Class, b.Usage
		if outcome == "" {
			outcome = fold.AttemptFailed
		}
		entry = entry.Str("request_id", b.RequestID).Int("status", b.Status)
	}
	sh.metrics.ended(outcome, class, usage)
	entry.Str("outcome", string(outcome)).Str("class", string(class)).Str("token", o.token).
		Dur("took", time.Since(start)).Msg("attempt ended")
}
