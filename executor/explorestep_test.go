package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// The waits of the protocol are told apart by their lengths.
const (
	xlease = 9 * time.Second
	xwatch = 500 * time.Millisecond
)

// How a step can turn out.
const (
	plain = iota
	claimUnclear
	claimFlies
	leasePasses
	leasePauses // it passes though its holder lives
	toolSucceeds
	toolTimesOut
	toolTimesOutUndone
	toolFails
)

var howNames = [...]string{plain: "", claimUnclear: ", no answer", claimFlies: ", no answer and still on its way",
	leasePasses: ", a lease passes", leasePauses: ", a lease passes while the holder stands still", toolSucceeds: ": done", toolTimesOut: ": done, no answer",
	toolTimesOutUndone: ": not done, no answer", toolFails: ": refused"}

// xproc is a call at work on a host, or the host's guardian (call 0).
type xproc struct {
	host, call                  int
	again, patient, asked, bare bool // again: redelivered; bare: without its command
	withdrawnAt                 int  // number of answers before the withdrawal; -1: none
	ran, stated, slot, tried    bool
	begun                       bool
	said                        []xanswer
	op                          xop
	pending                     string // its claim that it has not confirmed
	vain                        bool   // its claim came after a known success
	// Of a guardian, as it began.
	epoch  uint64
	at     keystore.Mark
	frozen bool
	doubt  bool
	took   bool // the other\'s question, and no later one, is answered by its look
}

func (p *xproc) sum(h *xsum, epoch uint64) {
	h.bits(p.again, p.patient, p.asked, p.bare, p.ran, p.stated, p.tried, p.epoch == epoch, p.frozen, p.doubt, p.took, p.vain)
	h.num(uint64(p.host), uint64(p.call), uint64(p.withdrawnAt+1), uint64(p.op), p.at.Seq)
	h.text(p.pending)
	for _, a := range p.said {
		if a.epoch {
			h.bits(a.v.(uint64) == epoch)
			continue
		}
		h.num(a.sum)
	}
}

// xrules leaves out or breaks a rule of the product, to see that it would be found.
type xrules struct {
	lastRecord, noCompare, noIntent, noReport, noEpochs, takeoverFails bool
	timeoutFails, onceAsKeyed, noNotice, noGate, noRestate, noBarrier  bool
}

// explorer is what does not change from state to state, and the real performer.
type explorer struct {
	class   effect.Class
	hosts   int // one or two; two executors on one host are one process after the other
	calls   int
	later   bool // the second call is asked for after the first has ended badly
	rules   xrules
	key     string
	tools   *tool.Set
	raw     [3][]byte
	losses  int // of the effects log's end that the search may have
	metrics *metrics
}

var xhostNames = [...]string{"a", "b"}

func (x *explorer) ports(s *xstate, p *xproc, v variant) (*xports, *performer, stages) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &xports{s: s, p: p, x: x, host: xhostNames[p.host], cancel: cancel, variant: v, pending: &unconfirmed{}, others: map[string]bool{}}
	t.marks = newMarks(xmarker{t}, 1)
	m := xmemory{t}
	perf := &performer{log: t, bodies: t, memory: m, journal: m, turns: t, clock: t, gate: t, pending: t.pending, outbox: m, metrics: x.metrics,
		logger: zerolog.Nop(), tools: x.tools, runners: map[string]tool.Runner{string(x.class): t}, host: t.host, lease: xlease,
		progressEvery: defaultProgressEvery, resultMax: defaultResultBytesMax,
		token: func() string {
			n, _ := ask(t, 0, func() (int, uint64) { s.tokens++; return s.tokens, uint64(s.tokens) })
			return fmt.Sprint("t", n)
		},
		slot: func(context.Context, *job) (bool, error) { return false, nil }}
	return t, perf, stages{ctx, ctx, ctx}
}

func (x *explorer) restoreMarks(t *xports) {
	if !t.p.begun || t.restored {
		return
	}
	t.restored = true
	h := t.me()
	t.marks.parts[0].at, t.marks.parts[0].kept, t.marks.parts[0].frozen = h.at, h.disk.Seq, h.frozen
}

func (x *explorer) saveMarks(t *xports) {
	t.me().at, t.me().frozen = t.marks.parts[0].at, t.marks.parts[0].frozen
}

// run lets a process go on: its step, and then up to the next.
func (x *explorer) run(s *xstate, i int, v variant) {
	p := &s.procs[i]
	t, perf, st := x.ports(s, p, v)
	defer t.cancel()
	t.spent = !p.begun
	h := t.me()
	t.marks.parts[0].at, t.marks.parts[0].kept, t.marks.parts[0].frozen = h.at, h.disk.Seq, h.frozen
	var err error
	if p.call == 0 {
		t.marks.parts[0].at, t.marks.parts[0].frozen = p.at, p.frozen
		err = x.guard(t, perf, st)
	} else {
		t.j = x.job(p)
		err = perf.conduct(st, t.j)
	}
	if t.parked {
		p.begun = true
		return
	}
	x.saveMarks(t)
	done := *p
	s.procs = slices.Delete(s.procs, i, i+1)
	switch {
	case done.call == 0:
		if err != nil {
			s.bad = fmt.Sprintf("guardian: %v", err)
		}
	case err == nil:
	case errors.Is(err, errDeferred):
		if done.asked {
			s.bad = "left a command that it was handed to another host"
		}
	default:
		s.bad = fmt.Sprintf("fault: %v", err)
	}
}

// guard is a check of the guardian, and what its loop does after it.
func (x *explorer) guard(t *xports, perf *performer, st stages) error {
	g := &guardian{gate: newGate(), marks: t.marks, end: t, clock: t, partitions: 1,
		know: perf.know, log: zerolog.Nop(),
		keys: func(fn func(string, []effect.Fact) error) error {
			if x.rules.noRestate {
				return nil
			}
			return fn(x.key, nil)
		}}
	if x.hosts == 2 {
		g.others = xothers{t}
	}
	p, s := t.p, t.s
	again, err := g.check(st.last, p.doubt)
	if err != nil || t.parked {
		return err
	}
	h := t.me()
	if again {
		h.alarm = true
		return nil
	}
	h.away = h.away && h.epoch != p.epoch
	h.open = h.epoch == p.epoch
	if !h.open && !h.alarm {
		s.bad = "the gate stays closed"
	}
	return nil
}

// job is the call as the process knew it when its present look at the facts began.
func (x *explorer) job(p *xproc) *job {
	turn, call, err := parseCallName(xcalls[p.call])
	if err != nil {
		panic(err) // our own names
	}
	j := bareJob(turn, call, x.key)
	j.patient, j.redelivered = p.patient, p.again
	j.ran, j.stated, j.slot, j.tried = p.ran, p.stated, p.slot, p.tried || p.patient
	j.ask(p.asked)
	if !p.bare {
		class := x.class
		if x.rules.onceAsKeyed {
			class = effect.Keyed
		}
		j.step, j.attempt, j.raw = 1, 1, x.raw[p.call]
		j.cmd = &feed.CallCommand{V: 1, Call: call, Key: x.key, Tool: string(x.class), Args: "{}", Effect: string(class)}
	}
	return j
}

// perform is the world.
func (x *explorer) perform(s *xstate, call, how int) tool.Result {
	timeout := tool.Result{Outcome: effect.Unknown, ErrorClass: "timeout", Ran: true}
	if x.rules.timeoutFails {
		timeout.Outcome = effect.Failed
	}
	if how != toolFails {
		s.sent++
	}
	if x.class == effect.Once && s.sent > 1 {
		s.bad = "sent again while an earlier try is unaccounted for"
	}
	did := (how == toolSucceeds || how == toolTimesOut) && (x.class != effect.Keyed || s.did[1]+s.did[2] == 0)
	if did {
		s.did[call] = min(s.did[call]+1, 2)
	}
	if x.class != effect.Once {
		s.sent = 0 // only once cares
	}
	switch how {
	case toolSucceeds:
		return tool.Result{Outcome: effect.Succeeded, Body: "r", Ran: true}
	case toolFails:
		return tool.Result{Outcome: effect.Failed, ErrorClass: "http_422", Ran: true}
	}
	return timeout
}

// tell stores an outcome in the turn, unless the fold would pass it over.
func (s *xstate) tell(k int, b *event.CallSettled) {
	outcome, asked := s.folded()
	// A known outcome never changes, whoever is told of it and however often (I7); but
	// what did not run by itself may turn out to have happened as another call.
	if before := s.told[k]; before.Known() && b.Outcome.Known() && before != b.Outcome &&
		!(b.Outcome == event.OutcomeSucceeded && b.Replayed) {
		s.bad = fmt.Sprintf("call %d was told %s and then %s", k, before, b.Outcome)
	}
	if b.Outcome.Known() {
		s.told[k] = b.Outcome
	}
	if asked[k] && (outcome[k] == "" || !outcome[k].Known() && b.Outcome.Known()) {
		s.ev = grow(s.ev, xevent{k, b.Outcome})
	}
}

// suspect is the guardian's.
func (s *xstate) suspect(host int) {
	s.look(host)
	s.hosts[host].doubt = true
}

// look is the guardian's, too.
func (s *xstate) look(host int) {
	h := &s.hosts[host]
	h.epoch++
	h.open, h.alarm = false, true
}
