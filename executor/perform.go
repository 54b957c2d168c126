package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// bodyBytesMax bounds a result body. It leaves room for headers in a message of the
// embedded server, 8 MiB.
const bodyBytesMax = 7 << 20

// perform runs the tool once, under a claim, and reports how that ended.
func (p *performer) perform(s stages, j *job, c claim) error {
	began := p.clock.Now()
	result := p.run(s, j, c)
	j.ran = true
	p.crash.pass(crashSent)
	p.metrics.took(j.tool(), p.clock.Now().Sub(began))
	if result.ErrorClass == effect.Interrupted && result.Outcome == effect.Failed && j.class() != effect.Once {
		// It certainly did not run, for no reason of its own. Said as an interruption it
		// runs after the restart; said as a failure it would be the call's outcome.
		result.Outcome = effect.Unknown
	}
	rep := keystore.Report{Key: j.key, Token: c.fact.Token, Call: j.name, Outcome: result.Outcome,
		ErrorClass: result.ErrorClass, Detail: strings.ToValidUTF8(result.Detail, "�"), At: p.clock.Now()}
	if result.Outcome == effect.Succeeded || result.Body != "" {
		rep.Body = bodyOf(result.Body)
	}
	return p.report(s, j, rep)
}

// bodyOf makes a result fit for the log. An answer that is too large is replaced by a
// note, never by a part of it, because a part could read as the whole.
func bodyOf(text string) []byte {
	if len(text) > bodyBytesMax {
		text = fmt.Sprintf(`{"note":"turnfold: the tool's answer has %d bytes and was dropped; the outcome stands"}`, len(text))
	}
	return []byte(strings.ToValidUTF8(text, "�")) // not nil: a success has a body, if an empty one
}

// report remembers a report, synced, before anybody else is told of it.
func (p *performer) report(s stages, j *job, rep keystore.Report) error {
	// Whatever ends, this must not: it is what survives.
	if err := p.journal.Report(context.WithoutCancel(s.last), rep); err != nil {
		return faulty(err)
	}
	p.outbox.add(rep.Token)
	p.crash.pass(crashReport)
	f, ok, err := p.memory.Reported(j.key, rep.Token)
	if err != nil || !ok {
		return faulty(err)
	}
	err = p.state(s.last, j.key, f)
	j.stated = err == nil
	if j.stated && rep.Outcome == effect.Succeeded {
		rep.BodyDigest = f.BodyDigest
		j.success = &rep
	}
	if err != nil && s.last.Err() != nil {
		return errors.Join(errStopped, err) // the next process states it
	}
	return err
}

// run calls the tool while it keeps the claim's lease and shows signs of life. Losing
// the lease stops nothing: what has been sent cannot be called back.
func (p *performer) run(s stages, j *job, c claim) tool.Result {
	ctx, cancel := context.WithCancel(s.run)
	company := &company{}
	defer company.end()
	defer cancel()
	defer p.clock.AfterFunc(p.lease/3, company.start(func() { p.renew(ctx, j, c) }))()
	defer p.clock.AfterFunc(p.progressEvery, company.start(func() { p.progress(ctx, j) }))()
	said := make(chan *event.CallProgress, 1)
	passOn := sync.OnceFunc(func() { go company.start(func() { p.passOn(ctx, j, said) })() })
	p.logger.Debug().Str("turn", j.turn.String()).Str("call", j.call).Str("tool", j.tool()).Str("key", j.key).Msg("tool starts")
	// The key is sent as it is, after failures too: whoever watches a turn must find
	// the key of tool_start again at the target.
	return p.guarded(ctx, j, tool.Call{Tenant: j.turn.Tenant, Turn: j.turn.ID, Step: j.step, Attempt: j.attempt,
		Call: j.call, Tool: j.tool(), Key: j.key, Args: j.cmd.Args,
		Timeout: time.Duration(j.cmd.TimeoutMS) * time.Millisecond,
		Progress: func(message string, percent int) {
			latest(said, &event.CallProgress{Call: j.call, Message: message, Percent: percent})
			passOn()
		}})
}

// guarded turns a runner's panic into what is known then: nothing.
func (p *performer) guarded(ctx context.Context, j *job, c tool.Call) (r tool.Result) {
	defer func() {
		if cause := recover(); cause != nil {
			p.logger.Error().Str("call", j.name).Str("tool", c.Tool).Str("stack", string(debug.Stack())).Msg("runner panicked")
			r = tool.Result{Outcome: effect.Unknown, ErrorClass: "panic", Detail: "the runner panicked", Ran: true}
		}
	}()
	r = p.runners[c.Tool].Run(ctx, c)
	switch r.Outcome {
	case effect.Succeeded, effect.Failed, effect.Unknown:
	default:
		r.Outcome = effect.Unknown
	}
	return r
}

// renew states the holder's life, three times a lease, until ctx ends.
func (p *performer) renew(ctx context.Context, j *job, c claim) {
	f := effect.Fact{Kind: effect.KindRenew, Token: c.fact.Token, Call: c.fact.Call, Host: p.host}
	for last, wait := c.seq, error(nil); wait == nil; wait = p.clock.Sleep(ctx, p.lease/3) {
		f.Epoch++
		seq, err := p.log.Claim(ctx, j.key, f, last)
		if err == nil {
			last = seq
			continue
		}
		facts, now, err := p.log.Facts(ctx, j.key)
		if err != nil {
			continue // the watchers cannot read either
		}
		if t, ok := effect.Join(facts).Token(f.Token); ok && !t.Open() {
			return // taken over
		}
		if seq, err = p.log.Claim(ctx, j.key, f, now); err == nil {
			now = seq
		}
		last = now
	}
}

// progress tells the turn that the tool still runs, until ctx ends.
func (p *performer) progress(ctx context.Context, j *job) {
	for wait := error(nil); wait == nil; wait = p.clock.Sleep(ctx, p.progressEvery) {
		p.turns.Progress(ctx, j.turn, &event.CallProgress{Call: j.call, Message: "still running"})
	}
}

// saidEvery bounds how often a tool's own words about its progress reach the log.
const saidEvery = 250 * time.Millisecond

// passOn tells the turn what the tool says of its progress, until ctx ends.
func (p *performer) passOn(ctx context.Context, j *job, said <-chan *event.CallProgress) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-said:
			p.turns.Progress(ctx, j.turn, b)
			if p.clock.Sleep(ctx, saidEvery) != nil {
				return
			}
		}
	}
}

// latest puts b into a channel of one place; what nobody has taken yet makes room. It
// never waits, because a tool must not wait for its audience.
func latest(c chan *event.CallProgress, b *event.CallProgress) {
	for {
		select {
		case c <- b:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// rejected says that the log will never take a message as large as this.
func rejected(err error) bool { return errors.Is(err, jet.ErrRejected) }
