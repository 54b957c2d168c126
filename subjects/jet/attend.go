package jet

import "time"

// attend does what is due at a time: pings, sending again, ending quiet batches.
func (p *pipe) attend() {
	defer close(p.stopped)
	defer p.leave()
	t := time.NewTimer(parked)
	defer t.Stop()
	for {
		select {
		case <-p.c.ctx.Done():
			return
		case <-p.quit:
			return
		case <-p.wake:
		case <-t.C:
		}
		t.Reset(p.due())
	}
}

// leave gives back what the pipe holds.
func (p *pipe) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.batch != nil {
		p.endBatch()
	}
	p.removeHook()
	_ = p.sub.Unsubscribe() // fails only on a closed connection
	p.announce()
}

// due does what is due and says when to look again.
func (p *pipe) due() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.err != nil || p.closed:
		return parked
	case !p.retryAt.IsZero():
		return p.sendAgain(now)
	case p.batch == nil:
		return parked
	case p.acked == p.appended:
		if now.Sub(p.lastSend) >= batchIdle {
			p.endBatch()
			return parked
		}
		return pingAfter
	}
	return p.pursue(now)
}

// pursue asks after messages that should have been stored by now.
func (p *pipe) pursue(now time.Time) time.Duration {
	silent, stuck := now.Sub(p.lastWord), now.Sub(p.lastProgress)
	limit := silentAfter
	if !p.resend {
		limit = silentAfterFenced
	}
	switch {
	case stuck < pingAfter:
		return pingAfter - stuck
	case silent >= limit && now.Sub(p.lastSend) >= pingAfter, stuck >= stuckAfter:
		p.broken(errSilent, 0)
		return pingAfter
	}
	if err := p.batch.ping(p.c.nc); err != nil {
		p.broken(err, p.retryWait)
	}
	return pingAfter
}

// sendAgain opens a new batch with the first message that is not known to be stored;
// the others follow when the server has taken it (sendRest). So a stream without a
// leader can be tried often.
func (p *pipe) sendAgain(now time.Time) time.Duration {
	if wait := p.retryAt.Sub(now); wait > 0 {
		return wait
	}
	if p.acked == p.appended {
		p.retryAt = time.Time{}
		return parked
	}
	if !p.c.nc.IsConnected() {
		return p.retryWait // the reconnect wakes us
	}
	p.retryWait = min(2*p.retryWait, resendMax)
	p.retryAt = time.Time{}
	p.lastProgress = now
	p.openBatch(p.acked)
	p.probing = true
	p.send(p.queue[0])
	return pingAfter
}
