package executor

import (
	"context"
	"fmt"

	"github.com/turnfold/turnfold/subjects/effect"
)

// await waits until the key's facts change. Once they have stood still for a lease,
// the open claims' holders are taken for dead, and what they did for unknown.
func (p *performer) await(ctx context.Context, j *job, k knowledge, d effect.Decision) error {
	if j.askers.Load() == 0 && !j.patient && !p.ownClaim(k.view, d.Open) {
		return errDeferred
	}
	// One goroutine works on a key, and this process knows of its own claims: an open one
	// of this host is of a process before this one, and there is nothing to wait for.
	why := "its process is gone"
	if !p.ownClaims(k.view, d.Open) {
		moved, err := p.watch(ctx, j, k.last)
		if moved || err != nil {
			return err
		}
		why = "its lease ran out"
	}
	for _, id := range d.Open {
		t, _ := k.view.Token(id)
		f := effect.Fact{Kind: effect.KindReport, Token: id, Call: t.Call, Generation: t.Generation,
			Outcome: effect.Unknown, ErrorClass: effect.Interrupted, Detail: why, Host: p.host}
		if err := p.log.Append(ctx, j.key, f, nil); err != nil {
			return fmt.Errorf("take over %s: %w", j.key, err)
		}
		p.crash.pass(crashTakeover)
		p.metrics.claim("takeover")
		p.logger.Warn().Str("call", t.Call).Str("key", j.key).Str("holder", t.Host).
			Msg("claim taken over: " + why)
	}
	return nil
}

// ownClaim says that one of the claims is of this host: of a process before this one
// whose memory is lost, since this one knows of its own.
func (p *performer) ownClaim(v effect.View, tokens []string) bool {
	for _, id := range tokens {
		if t, ok := v.Token(id); ok && t.Host == p.host {
			return true
		}
	}
	return false
}

// ownClaims says that all of the claims are of this host.
func (p *performer) ownClaims(v effect.View, tokens []string) bool {
	for _, id := range tokens {
		if t, ok := v.Token(id); !ok || t.Host != p.host {
			return false
		}
	}
	return true
}

// watch returns true when the key's last fact is no longer at last, or when the call
// is withdrawn, and false when a lease has passed on this process's own clock. Time
// in which the log cannot be read does not count: the holder cannot renew then.
func (p *performer) watch(ctx context.Context, j *job, last uint64) (moved bool, err error) {
	withdrawn := j.isWithdrawn()
	every := min(max(p.lease/10, watchMin), watchMax)
	since := p.clock.Now()
	for p.clock.Now().Sub(since) < p.lease {
		if p.clock.Sleep(ctx, every) != nil {
			return false, errStopped
		}
		now, err := p.log.Last(ctx, j.key)
		switch {
		case err != nil:
			since = p.clock.Now()
		case now != last || j.isWithdrawn() != withdrawn:
			return true, nil
		}
	}
	return false, nil
}
