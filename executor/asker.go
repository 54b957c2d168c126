package executor

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

const (
	verifyBackoffMax = 15 * time.Minute
	// askParallel is how many targets are asked at a time.
	askParallel = 8

	// byVerify is who resolved an outcome that a target was asked about.
	byVerify = "verify"
)

// doubts is this host's list of unknown outcomes to ask about.
type doubts interface {
	KeepDoubt(ctx context.Context, d keystore.Doubt) error
	EndDoubt(ctx context.Context, key, call string) error
	Doubts() ([]keystore.Doubt, error)
}

// asker asks targets about unknown outcomes, in the background, ever more rarely, until
// they say yes or are not worth asking any more. A no proves nothing: a holder that was
// paused may still send (docs/invariants.md, I7). The list is kept by the host, so a
// restart goes on where it was.
type asker struct {
	p         *performer
	verifiers map[string]*tool.Verifier
	store     doubts
	first     time.Duration // wait before the first question
	log       zerolog.Logger

	mu   sync.Mutex
	open map[string]keystore.Doubt // by key and call
	busy map[string]bool
	wake chan struct{}
}

func newAsker(p *performer, verifiers map[string]*tool.Verifier, store doubts, first time.Duration, log zerolog.Logger) *asker {
	return &asker{p: p, verifiers: verifiers, store: store, first: first, log: log,
		open: map[string]keystore.Doubt{}, busy: map[string]bool{}, wake: make(chan struct{}, 1)}
}

func doubtID(d keystore.Doubt) string { return d.Call + " " + d.Key }

// note has a target asked about a call whose turn is being told unknown. It comes before
// that is told, so that whoever was told unknown is on the list.
func (a *asker) note(ctx context.Context, j *job, token string) error {
	if a == nil || token == "" || j.cmd == nil || a.verifiers[j.cmd.Tool] == nil {
		return nil
	}
	now := a.p.clock.Now()
	d := keystore.Doubt{Key: j.key, Token: token, Call: j.name, Command: j.raw, Since: now, Next: now.Add(a.first)}
	a.mu.Lock()
	_, known := a.open[doubtID(d)]
	a.mu.Unlock()
	if known {
		return nil // told once more; asking goes on as it was
	}
	if err := a.store.KeepDoubt(context.WithoutCancel(ctx), d); err != nil {
		return faulty(err)
	}
	a.put(d)
	return nil
}

func (a *asker) put(d keystore.Doubt) {
	a.mu.Lock()
	a.open[doubtID(d)] = d
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// recall takes over what the process before had to ask.
func (a *asker) recall() error {
	list, err := a.store.Doubts()
	if err != nil {
		return faulty(err)
	}
	latest := a.p.clock.Now().Add(verifyBackoffMax)
	for _, d := range list {
		if d.Next.After(latest) { // this host's clock was ahead when it noted that
			d.Next = latest
		}
		a.put(d)
	}
	return nil
}

// run asks until ctx ends. Only a fault of this host's memory ends it earlier.
func (a *asker) run(ctx context.Context) error {
	if err := a.recall(); err != nil {
		return err
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	places := make(chan struct{}, askParallel)
	failed := make(chan error, 1)
	for {
		d, wait := a.next(len(places) < askParallel)
		if wait == 0 {
			places <- struct{}{}
			asking.Go(func() {
				err := a.look(ctx, d)
				<-places
				a.done(doubtID(d))
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-a.wake:
		case err := <-failed:
			timer.Stop()
			return err
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// next gives the doubt that is due first, or how long to wait for one.
func (a *asker) next(free bool) (d keystore.Doubt, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait = verifyBackoffMax
	now := a.p.clock.Now()
	for id, x := range a.open {
		if a.busy[id] {
			continue
		}
		if w := max(x.Next.Sub(now), 0); w < wait {
			d, wait = x, w
		}
	}
	if wait == 0 && free {
		a.busy[doubtID(d)] = true
		return d, 0
	}
	return d, max(wait, watchMin)
}

func (a *asker) done(id string) {
	a.mu.Lock()
	delete(a.busy, id)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// look asks about one doubt, and then ends it or puts it off. Errors of the log put it
// off; only a fault of the host's memory is returned.
func (a *asker) look(ctx context.Context, d keystore.Doubt) error {
	turn, _, err := parseCallName(d.Call)
	if err == nil && !a.p.erased.enter(turn) {
		a.forget(d.Key, d.Call)
		return faulty(a.store.EndDoubt(context.WithoutCancel(ctx), d.Key, d.Call))
	}
	if err == nil {
		defer a.p.erased.leave(turn)
	}
	over, err := a.settleDoubt(ctx, d)
	if isFault(err) {
		return err
	}
	if err != nil {
		a.log.Debug().Err(err).Str("call", d.Call).Str("key", d.Key).Msg("doubt not settled yet")
	}
	if ctx.Err() != nil && !over {
		return nil // the next process asks
	}
	v := a.verifier(d)
	d.Asked++
	wait := min(a.first<<min(d.Asked, 20), verifyBackoffMax)
	if d.Next = a.p.clock.Now().Add(wait); !over && v != nil && d.Next.Sub(d.Since) < v.For {
		a.put(d)
		return faulty(a.store.KeepDoubt(context.WithoutCancel(ctx), d))
	}
	if !over {
		a.log.Warn().Str("call", d.Call).Str("key", d.Key).Int("asked", d.Asked).
			Msg("the target never knew the key; the outcome stays unknown until a person resolves it")
		a.p.metrics.verify("given_up")
	}
	a.mu.Lock()
	delete(a.open, doubtID(d))
	a.mu.Unlock()
	return faulty(a.store.EndDoubt(context.WithoutCancel(ctx), d.Key, d.Call))
}

// forget takes a call off the list: its turn is erased.
func (a *asker) forget(key, call string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, doubtID(keystore.Doubt{Key: key, Call: call}))
}

// verifier is how the doubt's tool is asked now; nil if the deployment asks no more.
func (a *asker) verifier(d keystore.Doubt) *tool.Verifier {
	if j := a.job(d); j != nil {
		return a.verifiers[j.cmd.Tool]
	}
	return nil
}

func (a *asker) job(d keystore.Doubt) *job {
	turn, _, err := parseCallName(d.Call)
	if err != nil {
		return nil
	}
	j, err := newJob(turn, d.Command)
	if err != nil || j == nil || j.cmd == nil {
		return nil
	}
	return j
}

// settleDoubt looks at the facts, asks if they still say unknown, and tells the turn
// what is known then. Over: there is nothing more to ask.
func (a *asker) settleDoubt(ctx context.Context, d keystore.Doubt) (over bool, err error) {
	j, v := a.job(d), a.verifier(d)
	if j == nil || v == nil {
		return true, nil
	}
	k, err := a.p.know(ctx, d.Key)
	if err != nil {
		return false, err
	}
	// As for a call that never runs again: what is known of it is its outcome.
	dec := k.view.Decide(effect.Once, j.name, effect.Limits{Settled: true})
	if dec.Kind == effect.Replay && dec.Outcome.Known() {
		return true, a.p.settle(ctx, j, k.view, dec)
	}
	t, ok := k.view.Token(d.Token)
	if !ok || len(dec.Open) > 0 {
		return false, nil // a run may be under way
	}
	answer := v.Ask(ctx, tool.Call{Tenant: j.turn.Tenant, Turn: j.turn.ID, Step: j.step, Attempt: j.attempt,
		Call: j.call, Tool: j.cmd.Tool, Key: j.key, Args: j.cmd.Args})
	if !answer.Yes {
		a.p.metrics.verify("no")
		a.log.Debug().Str("call", d.Call).Str("key", d.Key).Str("why", answer.Why).Msg("the target does not know the key")
		return false, nil
	}
	a.p.metrics.verify("yes")
	return a.succeeded(ctx, j, t, answer.Body)
}

// succeeded records that the effect happened, first here, then on the log, then in the
// turn, as after a run.
func (a *asker) succeeded(ctx context.Context, j *job, t effect.Token, body string) (over bool, err error) {
	ctx = context.WithoutCancel(ctx)
	p := a.p
	rep := keystore.Report{Key: j.key, Token: t.ID, Call: t.Call, Generation: t.Generation, Outcome: effect.Succeeded,
		Detail: "the target knows the key", Body: bodyOf(body), At: p.clock.Now()}
	if err := p.journal.Report(ctx, rep); err != nil {
		return false, faulty(err)
	}
	f, ok, err := p.memory.Reported(j.key, t.ID)
	if err != nil {
		return false, faulty(err)
	}
	if ok {
		f.By = byVerify
		if err := p.state(ctx, j.key, f); err != nil {
			return false, err
		}
	}
	b := &event.CallSettled{Call: j.call, Key: j.key, Outcome: event.OutcomeSucceeded, Result: p.cut(rep.Body),
		Replayed: t.Call != j.name, By: byVerify}
	if err := p.turns.Settle(ctx, j.turn, b); err != nil {
		return false, err
	}
	p.metrics.settled(j.tool(), b)
	p.logger.Info().Str("turn", j.turn.String()).Str("call", j.call).Str("tool", j.tool()).Str("key", j.key).
		Msg("an unknown effect has succeeded: its target knows the key")
	return true, p.outbox.settled(ctx, j.key, effect.Fact{Token: t.ID, Outcome: effect.Succeeded})
}
