package executor

import (
	"fmt"
	"slices"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// xchoice is one thing that can happen next.
type xchoice struct {
	what xwhat
	proc int // of doStep and doRenew
	host int
	n    int // a call, or a number of records
	how  int
}

type xwhat uint8

const (
	doStep xwhat = iota
	doDeliver
	doIssue   // the fold asks for the command again
	doRestart // with all that a start does at once
	doResume  // the outbox
	doTake    // what open turns wait for
	doLand    // a claim that was on its way arrives
	doAsk     // the model asks (again) for a call
	doHear    // a host learns that the other one asks for a look
	// What follows is faults.
	doCrash
	doCrashEmpty // and the host's memory is lost
	doRedeliver
	doLoseFX
	doLoseEV
	doWithdraw
	doRenew // the holder shows that it lives
)

// enabled lists what can happen next.
func (x *explorer) enabled(s *xstate) []xchoice {
	var out []xchoice
	add := func(c xchoice) { out = append(out, c) }
	outcome, asked := s.folded()
	if i := s.alone(); i >= 0 {
		add(xchoice{what: doStep, proc: i})
		if s.left.crash > 0 && (!s.hosts[s.procs[i].host].away || x.hosts == 1) {
			x.crashes(s, s.procs[i].host, add)
		}
		return out
	}
	for i := range s.procs {
		x.steps(s, i, add)
	}
	for h := range x.hosts {
		o := &s.hosts[h]
		if h == 1 && s.alike() {
			break // what it does, the first one does too
		}
		if !o.up {
			add(xchoice{what: doRestart, host: h})
			continue
		}
		if o.wanted && !s.guarded(h) {
			add(xchoice{what: doHear, host: h})
		}
		for k := 1; k <= x.calls; k++ {
			free := !s.busy(h, k)
			if c := s.cmds[k]; c.queued && (c.withdrawn || free) {
				add(xchoice{what: doDeliver, host: h, n: k})
			}
			if o.take[k] && free && asked[k] && outcome[k] == "" {
				add(xchoice{what: doTake, host: h, n: k})
			}
		}
		if len(o.resume) > 0 {
			if i, ok := o.rec(o.resume[0]); !ok || !s.busy(h, callNumber(o.recs[i].call)) {
				add(xchoice{what: doResume, host: h})
			}
		}
	}
	for k := 1; k <= x.calls; k++ {
		if !asked[k] && (k == 1 || !x.later || outcome[1] != "" && outcome[1] != event.OutcomeSucceeded) {
			add(xchoice{what: doAsk, n: k})
		}
		if asked[k] && outcome[k] == "" && !s.cmds[k].queued && !s.handed(k) {
			add(xchoice{what: doIssue, n: k})
		}
	}
	if s.flight != nil {
		add(xchoice{what: doLand})
	}
	return x.faults(s, out)
}

// alone finds a process that is about to write to its host's memory while no other
// process of the host is there to see it. Nobody else's step depends on when it does,
// so that all other orders lead to the same states; only its host may die before.
func (s *xstate) alone() int {
	for i := range s.procs {
		switch p := &s.procs[i]; p.op {
		case opIntent, opAbandon, opReport, opNotRun:
			if !slices.ContainsFunc(s.procs, func(o xproc) bool { return o.host == p.host && o.call != p.call }) {
				return i
			}
		}
	}
	return -1
}

func (x *explorer) crashes(s *xstate, h int, add func(xchoice)) {
	add(xchoice{what: doCrash, host: h})
	if s.left.pebble > 0 && s.left.fx == 0 {
		add(xchoice{what: doCrashEmpty, host: h})
	}
}

// alike says that the hosts do not differ yet.
func (s *xstate) alike() bool {
	return len(s.procs) == 0 && s.hosts[0].epoch == s.hosts[1].epoch && len(s.hosts[0].recs)+len(s.hosts[1].recs) == 0 &&
		s.hosts[0].up && s.hosts[1].up && len(s.fx) == 0
}

// steps lists how one process can go on.
func (x *explorer) steps(s *xstate, i int, add func(xchoice)) {
	p := &s.procs[i]
	hows := []int{plain}
	switch p.op {
	case opGate:
		if !s.hosts[p.host].open && !x.rules.noGate {
			return
		}
	case opTool:
		switch {
		case x.class == effect.Keyed && s.did[1]+s.did[2] > 0: // the target knows the key
			hows = []int{toolSucceeds, toolTimesOut}
		case x.class == effect.Read:
			hows = []int{toolSucceeds, toolTimesOut, toolFails}
		default:
			hows = []int{toolSucceeds, toolTimesOut, toolTimesOutUndone, toolFails}
		}
		if s.left.renew > 0 {
			add(xchoice{what: doRenew, proc: i})
		}
	case opClaim:
		if s.left.unclear > 0 {
			hows = append(hows, claimUnclear, claimFlies)
		}
	case opWatch:
		hows = nil
		if uint64(len(s.fx)) != watched(p) || p.withdrawnAt >= 0 && p.withdrawnAt == len(p.said) {
			hows = []int{plain}
		} else if x.holderGone(s, p) {
			hows = []int{leasePasses}
		} else if s.left.pause > 0 {
			hows = []int{leasePauses}
		}
	case opBarrier:
		if !s.together(p.host) && !x.rules.noBarrier {
			return
		}
	}
	for _, how := range hows {
		add(xchoice{what: doStep, proc: i, how: how})
	}
}

// together says that a host need not wait for the other, or has something to answer first.
func (s *xstate) together(host int) bool {
	h, o := &s.hosts[host], &s.hosts[1-host]
	return h.wanted || !o.up || !o.busy && !h.asks
}

// watched is the last sequence that a process has read.
func watched(p *xproc) uint64 {
	for i := len(p.said) - 1; i >= 0; i-- {
		if v, ok := p.said[i].v.(pair[[]effect.Fact, uint64]); ok {
			return v.b
		}
	}
	return 0
}

// holderGone says that nobody holds the claims that are open.
func (x *explorer) holderGone(s *xstate, p *xproc) bool {
	for _, t := range effect.Join(s.fx).Tokens {
		for i := range s.procs {
			o := &s.procs[i]
			if t.Open() && o.call != 0 && slices.ContainsFunc(o.said, func(a xanswer) bool {
				n, ok := a.v.(int)
				return ok && fmt.Sprint("t", n) == t.ID
			}) {
				return false
			}
		}
	}
	return true
}

// busy says that the host works on the call, or on another one of the key.
func (s *xstate) busy(host, k int) bool {
	return slices.ContainsFunc(s.procs, func(p xproc) bool {
		return p.host == host && p.call != 0 && (p.call == k || !p.bare)
	})
}

// guarded says that the host's guardian is at work.
func (s *xstate) guarded(h int) bool {
	return slices.ContainsFunc(s.procs, func(p xproc) bool { return p.host == h && p.call == 0 })
}

// handed says that somebody has the command of a call.
func (s *xstate) handed(k int) bool {
	return slices.ContainsFunc(s.procs, func(p xproc) bool { return p.call == k && p.asked })
}

// faults adds those that are still to come.
func (x *explorer) faults(s *xstate, out []xchoice) []xchoice {
	add := func(c xchoice) { out = append(out, c) }
	outcome, asked := s.folded()
	all := true
	for h := range x.hosts {
		o := &s.hosts[h]
		all = all && o.up && !o.away
		// A host that has not stated its facts since the log lost its end must not go
		// away (docs/guarantees.md); alone, nobody acts while it is away.
		if o.up && s.left.crash > 0 && (!o.away || x.hosts == 1) {
			x.crashes(s, h, add)
		}
	}
	for k := 1; k <= x.calls; k++ {
		if s.left.redeliver > 0 && asked[k] && !s.cmds[k].queued && (s.handed(k) || outcome[k] != "") {
			add(xchoice{what: doRedeliver, n: k})
		}
		for h := range x.hosts {
			if s.left.withdraw > 0 && asked[k] && outcome[k] == "" && s.hosts[h].up {
				add(xchoice{what: doWithdraw, host: h, n: k})
			}
		}
	}
	if s.left.fx > 0 && (all || x.hosts == 1) {
		for n := 1; n <= min(3, len(s.fx)); n++ {
			add(xchoice{what: doLoseFX, n: n})
		}
	}
	if s.left.ev > 0 {
		for n := 1; n <= min(2, len(s.ev)); n++ {
			add(xchoice{what: doLoseEV, n: n})
		}
	}
	return out
}

func (c xchoice) fault() bool {
	return c.what >= doCrash || c.how == claimUnclear || c.how == claimFlies || c.how == leasePauses
}
