package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

// claim is a right to perform, taken by compare-and-set.
type claim struct {
	fact effect.Fact
	seq  uint64 // of the key's last fact, as far as the holder knows
}

// attempt claims the key and, if the claim is won, performs the effect. Whatever
// comes of it, the next look at the facts decides.
func (p *performer) attempt(s stages, j *job, k knowledge, epoch uint64) error {
	if s.start.Err() != nil {
		return errStopped
	}
	if !j.slot {
		waited, err := p.slot(s.start, j)
		if err != nil {
			return errStopped
		}
		if waited {
			return nil // what was read has aged; and the call may be withdrawn by now
		}
	}
	j.tried = true
	c, won, err := p.claim(s, j, k, epoch)
	if err != nil || !won {
		j.alone = false
		return err
	}
	return p.perform(s, j, c)
}

// claim writes the intent and then the claim. It is lost only if its absence is seen
// after the key has moved on; while neither is certain, the same claim is sent again.
func (p *performer) claim(s stages, j *job, k knowledge, epoch uint64) (c claim, won bool, err error) {
	c.fact = effect.Fact{Kind: effect.KindClaim, Token: p.token(), Call: j.name, Host: p.host, Input: j.cmd.In, Identity: j.cmd.Identity}
	p.pending.add(c.fact.Token)
	defer p.pending.remove(c.fact.Token)
	err = p.journal.Intent(s.last, keystore.Intent{Key: j.key, Token: c.fact.Token, Call: j.name,
		Input: j.cmd.In, Identity: j.cmd.Identity, Command: j.raw, At: p.clock.Now(), Drawn: true})
	if err != nil {
		return claim{}, false, faulty(err)
	}
	p.crash.pass(crashIntent)
	if c.seq, won, err = p.compete(s, j, c.fact, k.last); err != nil {
		return claim{}, false, err
	}
	if !won {
		p.metrics.claim("lost")
		err = faulty(p.journal.Abandon(context.WithoutCancel(s.last), j.key, c.fact.Token))
		p.crash.pass(crashAbandoned)
		return claim{}, false, err
	}
	p.crash.pass(crashClaim)
	p.metrics.claim("won")
	if p.gate.current(epoch) {
		return c, true, nil
	}
	won, err = p.confirm(s, j, c)
	return c, won, err
}

// compete publishes a claim until it is certain whose the key is. Codes of a lost
// compare-and-set, a timeout and a lost connection all mean the same: look.
func (p *performer) compete(s stages, j *job, f effect.Fact, last uint64) (seq uint64, won bool, err error) {
	wait := retryMin
	for {
		if seq, err = p.log.Claim(s.last, j.key, f, last); err == nil {
			return seq, true, nil
		}
		if !errors.Is(err, jet.ErrConflict) {
			p.metrics.claim("unclear")
		}
		facts, now, err := p.log.Facts(s.last, j.key)
		switch {
		case err != nil: // look again
		case slices.ContainsFunc(facts, func(g effect.Fact) bool { return g.Token == f.Token }):
			return now, true, nil
		case now != last:
			return 0, false, nil
		case s.start.Err() != nil:
			return 0, false, nil // not there, and not sent again
		}
		if p.clock.Sleep(s.last, wait) != nil {
			// The intent stays: the next process counts it as interrupted.
			return 0, false, fmt.Errorf("claim %s: %w", j.key, errStopped)
		}
		wait = min(2*wait, retryMax)
	}
}

// confirm holds a claim that was won on facts which the log may have lost since. If
// what is known now would not have allowed it, the claim ends without a run.
func (p *performer) confirm(s stages, j *job, c claim) (bool, error) {
	for {
		epoch, err := p.gate.wait(s.last)
		if err != nil {
			return false, errStopped
		}
		facts, _, err := p.log.Facts(s.last, j.key)
		if err != nil {
			if p.clock.Sleep(s.last, retryMin) != nil {
				return false, errStopped
			}
			continue
		}
		own, err := p.own(j.key, facts)
		if err != nil {
			return false, err
		}
		others := slices.DeleteFunc(append(own, facts...), func(f effect.Fact) bool { return f.Token == c.fact.Token })
		v := judge(effect.Join(others), question{call: j.name, class: j.class()})
		if !p.gate.current(epoch) {
			continue
		}
		if v.act == actClaim {
			return true, nil
		}
		return false, p.report(s, j, keystore.Report{Key: j.key, Token: c.fact.Token, Call: j.name,
			Outcome: effect.Failed, ErrorClass: "superseded", Detail: "another claim was there before"})
	}
}
