package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
)

// apply makes the state after a choice.
func (x *explorer) apply(before *xstate, c xchoice) *xstate {
	s := before.clone()
	switch c.what {
	case doStep:
		x.charge(s, c.how)
		how := c.how
		if how == leasePauses {
			how = leasePasses
		}
		x.run(s, c.proc, variant{how: how})
	case doDeliver:
		again := s.cmds[c.n].again
		s.cmds[c.n].queued = false
		x.hand(s, xproc{host: c.host, call: c.n, asked: true, again: again, bare: s.cmds[c.n].withdrawn})
	case doIssue:
		s.cmds[c.n].queued, s.cmds[c.n].again = true, false
	case doRestart:
		x.restart(s, c.host)
	case doResume:
		x.resume(s, c.host)
	case doTake:
		s.hosts[c.host].take[c.n] = false
		x.hand(s, xproc{host: c.host, call: c.n, bare: s.cmds[c.n].withdrawn})
	case doLand:
		f := s.flight
		s.flight = nil
		if f.last == uint64(len(s.fx)) {
			s.fx = grow(s.fx, f.fact)
		}
	case doHear:
		s.look(c.host)
	case doAsk:
		s.ev = grow(s.ev, xevent{c.n, ""})
		s.cmds[c.n] = xcommand{queued: true}
	default:
		x.harm(s, c)
	}
	x.settleDown(s)
	return s
}

func (x *explorer) charge(s *xstate, how int) {
	switch how {
	case claimUnclear, claimFlies:
		s.left.unclear--
	case leasePauses:
		s.left.pause--
	}
}

// harm does a fault.
func (x *explorer) harm(s *xstate, c xchoice) {
	switch c.what {
	case doCrash, doCrashEmpty:
		s.left.crash--
		x.crash(s, c.host)
		if c.what == doCrashEmpty {
			s.left.pebble--
			h := &s.hosts[c.host]
			h.recs, h.notRun, h.disk = nil, nil, keystore.Mark{}
		}
	case doRedeliver:
		s.left.redeliver--
		s.cmds[c.n].queued, s.cmds[c.n].again = true, true
	case doLoseFX:
		s.left.fx--
		s.fx, s.flight = s.fx[:len(s.fx)-c.n], nil
		for h := range x.hosts {
			s.hosts[h].away = true
			if s.hosts[h].up && !x.rules.noNotice {
				s.suspect(h)
			}
		}
	case doLoseEV:
		s.left.ev--
		s.ev = s.ev[:len(s.ev)-c.n]
		for k := 1; k <= x.calls; k++ {
			if s.standing(k) == standingAbsent {
				s.cmds[k] = xcommand{} // the commands are told anew
			}
		}
	case doWithdraw:
		s.left.withdraw--
		s.cmds[c.n].withdrawn = true
		x.hand(s, xproc{host: c.host, call: c.n, asked: true, bare: true})
	case doRenew:
		s.left.renew--
		x.renew(s, c.proc)
	}
}

// hand gives a host a call, as the desk does: one that is at work joins in.
func (x *explorer) hand(s *xstate, p xproc) {
	p.withdrawnAt = -1
	if p.bare {
		p.withdrawnAt = 0
	}
	for i := range s.procs {
		if o := &s.procs[i]; o.host == p.host && o.call == p.call {
			o.asked = o.asked || p.asked
			if p.bare && o.withdrawnAt < 0 {
				o.withdrawnAt = len(o.said)
			}
			return
		}
	}
	x.spawn(s, p)
}

// spawn starts a process and lets it come to its first step.
func (x *explorer) spawn(s *xstate, p xproc) {
	i, _ := slices.BinarySearchFunc(s.procs, p, func(a, b xproc) int { return 10*a.host + a.call - 10*b.host - b.call })
	s.procs = slices.Insert(s.procs, i, p)
	x.run(s, i, variant{})
}

// settleDown starts the guardians that are called.
func (x *explorer) settleDown(s *xstate) {
	for h := range x.hosts {
		o := &s.hosts[h]
		if !o.alarm || !o.up || slices.ContainsFunc(s.procs, func(p xproc) bool { return p.host == h && p.call == 0 }) {
			continue
		}
		p := xproc{host: h, withdrawnAt: -1, epoch: o.epoch, at: o.at, frozen: o.frozen, doubt: o.doubt}
		o.alarm, o.doubt = false, false
		x.spawn(s, p)
	}
}

func (x *explorer) crash(s *xstate, host int) {
	h := &s.hosts[host]
	h.up, h.open, h.alarm, h.doubt, h.frozen = false, false, false, false, false
	h.asks, h.busy, h.wanted = false, false, false
	h.at, h.resume, h.take = keystore.Mark{}, nil, [3]bool{}
	s.procs = slices.DeleteFunc(s.procs, func(p xproc) bool {
		if p.host == host && p.asked {
			s.cmds[p.call].queued, s.cmds[p.call].again = true, true
		}
		return p.host == host
	})
}

// restart is what Run does before it works.
func (x *explorer) restart(s *xstate, host int) {
	h := &s.hosts[host]
	h.up, h.at = true, h.disk
	h.wanted = x.hosts == 2 && s.hosts[1-host].asks // its note is still there
	if _, err := interrupt(context.Background(), xpast{h, x.key}, time.Time{}); err != nil {
		s.bad = err.Error()
	}
	s.suspect(host)
	for _, r := range h.recs {
		if r.pending && r.outcome != "" {
			h.resume = grow(h.resume, r.token)
		}
	}
	h.take = [3]bool{false, true, true}
}

// resume takes up the first report of the outbox.
func (x *explorer) resume(s *xstate, host int) {
	h := &s.hosts[host]
	i, ok := h.rec(h.resume[0])
	h.resume = h.resume[1:]
	if ok {
		r := h.recs[i]
		x.hand(s, xproc{host: host, call: callNumber(r.call), patient: true, bare: !r.cmd})
	}
}

// renew has the holder of a running tool's claim show that it lives, once.
func (x *explorer) renew(s *xstate, i int) {
	p := s.procs[i] // not the process itself: it stands where it stood
	token, last := "", uint64(0)
	for _, a := range p.said {
		switch v := a.v.(type) {
		case int:
			token = fmt.Sprint("t", v)
		case pair[uint64, error]:
			last = v.a
		case pair[[]effect.Fact, uint64]:
			last = v.b
		}
	}
	p.said, p.begun, p.withdrawnAt = nil, false, -1
	t, perf, st := x.ports(s, &p, variant{})
	defer t.cancel()
	h := t.me()
	t.marks.parts[0].at, t.marks.parts[0].kept, t.marks.parts[0].frozen = h.at, h.disk.Seq, h.frozen
	t.direct = true
	perf.renew(st.run, x.job(&p), claim{effect.Fact{Kind: effect.KindClaim, Token: token, Call: xcalls[p.call]}, last})
	x.saveMarks(t)
}
