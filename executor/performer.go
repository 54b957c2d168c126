package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	retryMin = 50 * time.Millisecond
	retryMax = time.Second

	// knowRounds bounds how often facts are stated again before the call has to wait.
	knowRounds = 4

	watchMin, watchMax = 10 * time.Millisecond, 500 * time.Millisecond
)

// performer is the protocol of a call. It holds no state of its own: everything that
// must be remembered is behind its ports.
type performer struct {
	log     effects
	bodies  bodies
	memory  memory
	journal journal
	turns   settler
	clock   clock
	gate    passage
	pending *unconfirmed
	crash   *crasher
	metrics *metrics
	asker   *asker // nil: nobody is asked after an unknown
	erased  *erasures
	outbox  outbox
	logger  zerolog.Logger

	tools         *tool.Set
	runners       map[string]tool.Runner
	host          string
	lease         time.Duration
	progressEvery time.Duration
	resultMax     int
	token         func() string
	slot          func(ctx context.Context, j *job) (waited bool, err error)
}

// fault is an error that no retry mends: this host's memory fails.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faulty(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fault{err}
}

func isFault(err error) bool {
	var f *fault
	return errors.As(err, &f)
}

// conduct brings the call to an outcome. Nil means that the command is done with.
func (p *performer) conduct(s stages, j *job) error {
	wait := retryMin
	for {
		done, err := p.advance(s, j)
		switch {
		case done && err == nil:
			return nil
		case err == nil:
			wait = retryMin
			continue
		case isFault(err), errors.Is(err, errStopped), errors.Is(err, errDeferred),
			errors.Is(err, effect.ErrFactVersion):
			return err
		}
		if p.stage(s, j).Err() != nil {
			return errors.Join(errStopped, err)
		}
		p.logger.Debug().Err(err).Str("call", j.name).Str("key", j.key).Msg("call has to wait")
		if p.clock.Sleep(p.stage(s, j), wait) != nil {
			return errStopped
		}
		wait = min(2*wait, retryMax)
	}
}

// stage is the context of the call's reads: one whose tool has run may still be told
// after nothing may begin any more.
func (p *performer) stage(s stages, j *job) context.Context {
	if j.ran {
		return s.last
	}
	return s.start
}

// advance does one act.
func (p *performer) advance(s stages, j *job) (done bool, err error) {
	if j.success != nil {
		return true, p.settleStored(s.last, j, *j.success) // it has just been remembered and stated
	}
	// A success is never taken back, so this host's memory of one needs no other proof.
	seen, err := p.memory.Glance(j.key)
	if err != nil {
		return false, faulty(err)
	}
	if seen.Success != nil {
		if !j.stated { // else this very call has just stated it
			// The log may have lost it, and the turn's audit asks the log.
			k, err := p.know(s.last, j.key)
			if err != nil {
				return false, err
			}
			if p.conflict(j, k.view) {
				return true, p.tell(s.last, j, j.refusal("key_conflict", keyConflict))
			}
		}
		return true, p.settleStored(s.last, j, *seen.Success)
	}
	ctx := p.stage(s, j)
	epoch, err := p.gate.wait(ctx)
	if err != nil {
		return false, errStopped
	}
	class, why := j.unfit(p.tools)
	k := knowledge{} // nothing
	if !p.fresh(j, seen, class == "") {
		if k, err = p.know(ctx, j.key); err != nil {
			return false, err
		}
	}
	if p.conflict(j, k.view) {
		return true, p.tell(s.last, j, j.refusal("key_conflict", keyConflict))
	}
	q := question{call: j.name, class: j.class(), withdrawn: j.isWithdrawn() || j.cmd == nil, unfit: class != ""}
	if j.redelivered || !j.ran && ownClaims(k.view, j.name) > 0 {
		// It may be an old command. Its turn knows whether anybody still asks for it.
		if q.standing, err = p.turns.Standing(ctx, j.turn, j.call); err != nil {
			return false, err
		}
	}
	v := judge(k.view, q)
	if !p.gate.current(epoch) {
		return false, nil
	}
	switch v.act {
	case actDropped:
		return true, p.forget(s.last, j)
	case actSettle:
		return true, p.settle(s.last, j, k.view, v.decision)
	case actRefuse:
		return true, p.tell(s.last, j, j.refusal(class, why))
	case actNotRun:
		return false, p.withdraw(ctx, j, k.last)
	case actWait:
		return false, p.await(ctx, j, k, v.decision)
	}
	return false, p.attempt(s, j, k, epoch)
}

// knowledge is what is known of a key at one time.
type knowledge struct {
	facts []effect.Fact // of the log
	view  effect.View   // of the log's facts and this host's
	last  uint64        // sequence of the log's last fact
}

// know joins the log's facts of a key with this host's, after it has stated again
// those that the log misses.
func (p *performer) know(ctx context.Context, key string) (knowledge, error) {
	for range knowRounds {
		facts, last, err := p.log.Facts(ctx, key)
		if err != nil {
			return knowledge{}, err
		}
		own, err := p.own(key, facts)
		if err != nil {
			return knowledge{}, err
		}
		absent := missing(facts, own)
		if len(absent) == 0 {
			return knowledge{facts, effect.Join(append(own, facts...)), last}, nil
		}
		for _, f := range absent {
			if err := p.state(ctx, key, f); err != nil {
				return knowledge{}, err
			}
		}
	}
	return knowledge{}, fmt.Errorf("facts of %s: stated again, and still not on the log", key)
}

// own gives this host's facts of a key that may be stated: all but claims that are not
// known to be on the log.
func (p *performer) own(key string, known []effect.Fact) ([]effect.Fact, error) {
	own, err := p.memory.Facts(key)
	if err != nil {
		return nil, faulty(err)
	}
	stated := p.certain(own)
	for _, f := range missing(known, stated) {
		if f.Kind == effect.KindClaim {
			// It may have been given up between the two looks above; then it is gone now,
			// because it leaves the memory before it leaves the list.
			if own, err = p.memory.Facts(key); err != nil {
				return nil, faulty(err)
			}
			return p.certain(own), nil
		}
	}
	return stated, nil
}

func (p *performer) certain(facts []effect.Fact) []effect.Fact {
	out := make([]effect.Fact, 0, len(facts))
	for _, f := range facts {
		if f.Token == "" || !p.pending.has(f.Token) {
			out = append(out, f)
		}
	}
	return out
}

// state appends a fact of this host, after the body that it names.
func (p *performer) state(ctx context.Context, key string, f effect.Fact) error {
	var body []byte
	if f.Kind == effect.KindReport && f.BodyDigest != "" {
		var err error
		if body, _, err = p.memory.Body(key, f.Token); err != nil {
			return faulty(err)
		}
	}
	if err := p.log.Append(ctx, key, f, body); err != nil {
		return fmt.Errorf("%s of %s: %w", f.Kind, key, err)
	}
	if f.Kind == effect.KindReport {
		p.crash.pass(crashFact)
	}
	return nil
}

// withdraw states that the call never runs. The compare-and-set makes sure that no
// claim has come between. The log is first and this host's memory second: the other
// way round, a claim that came between would leave a memory that is wrong.
// The turn is third; see settle.
func (p *performer) withdraw(ctx context.Context, j *job, last uint64) error {
	f := effect.Fact{Kind: effect.KindNotRun, Call: j.name, Host: p.host}
	_, err := p.log.Claim(ctx, j.key, f, last)
	if errors.Is(err, jet.ErrConflict) {
		return nil // the next look at the facts tells what came between
	}
	if err == nil {
		p.crash.pass(crashNotRun)
	}
	return err
}
