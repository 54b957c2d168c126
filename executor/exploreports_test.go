package executor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// xop is what a process is about to do: the next step that others can see, or between
// which and the one before it can die.
type xop uint8

const (
	opGate xop = iota + 1
	opFacts
	opAppend
	opClaim
	opIntent
	opAbandon
	opReport
	opNotRun
	opTool
	opSettle
	opStanding
	opWatch
	opBarrier
)

var xopNames = [...]string{opGate: "passes the gate", opFacts: "reads the facts", opAppend: "appends", opClaim: "compares and sets",
	opIntent: "remembers its intent", opAbandon: "forgets its intent", opReport: "remembers its report", opNotRun: "remembers not_run",
	opTool: "runs the tool", opSettle: "settles", opStanding: "asks the turn", opWatch: "watches", opBarrier: "has waited for the others"}

// xanswer is what a port has answered, and its part of the state's hash.
type xanswer struct {
	v     any
	sum   uint64
	epoch bool // v is an epoch of the gate
}

// xports is every port of the executor, over one state. A process that is run again
// gets the answers it has had; the first call beyond them is carried out, and at the
// next that counts as a step the process stands still: from there on every port
// refuses, without any effect, until the code has returned.
type xports struct {
	s       *xstate
	p       *xproc
	x       *explorer
	host    string
	marks   *marks
	pending *unconfirmed
	others  map[string]bool // tokens that other processes of the host have not confirmed
	cancel  context.CancelFunc
	j       *job

	at     int
	spent  bool // the step has been made
	parked bool
	variant
	leases   time.Duration // how much time this process has seen go by
	restored bool          // the marks are the host's again
	direct   bool          // no step counts: all is done at once
}

// variant is how a step turns out, where it can turn out in several ways.
type variant struct {
	how int
}

// errParked ends the code of a process that stands still.
var errParked = context.Canceled

// ask is a call of a port.
func ask[T any](x *xports, op xop, live func() (T, uint64)) (v T, err error) {
	if x.parked {
		return v, errParked
	}
	if x.j != nil && x.p.withdrawnAt >= 0 && x.at >= x.p.withdrawnAt {
		x.j.withdraw()
	}
	if x.at < len(x.p.said) {
		x.at++
		if said := x.p.said[x.at-1].v; said != nil { // else it is a nil error
			v = said.(T)
		}
		return v, nil
	}
	x.x.restoreMarks(x)
	if x.direct {
		v, _ = live()
		return v, nil
	}
	if op != 0 && x.spent {
		x.park(op)
		return v, errParked
	}
	x.spent = x.spent || op != 0
	v, sum := live()
	x.p.said = grow(x.p.said, xanswer{v, sum, op == opGate})
	x.at++
	return v, nil
}

func (x *xports) park(op xop) {
	x.parked = true
	x.p.op = op
	x.p.pending = ""
	for t := range x.pending.tokens {
		if !x.others[t] {
			x.p.pending = t
		}
	}
	x.x.saveMarks(x)
	x.cancel()
}

func (x *xports) me() *xhost { return &x.s.hosts[x.p.host] }

// pair carries two answers.
type pair[A, B any] struct {
	a A
	b B
}

// Body implements bodies: they are always there.
func (x *xports) Body(context.Context, string, string) ([]byte, bool, error) {
	return []byte("r"), true, nil
}

// Settle implements settler.
func (x *xports) Settle(_ context.Context, _ subjects.Turn, b *event.CallSettled) error {
	_, err := ask(x, opSettle, func() (struct{}, uint64) {
		x.s.tell(callNumber("local/t/"+b.Call), b)
		return struct{}{}, 0
	})
	return err
}

// Progress implements settler.
func (x *xports) Progress(context.Context, subjects.Turn, *event.CallProgress) {}

// Standing implements settler.
func (x *xports) Standing(_ context.Context, _ subjects.Turn, call string) (standing, error) {
	return ask(x, opStanding, func() (standing, uint64) {
		v := x.s.standing(callNumber("local/t/" + call))
		return v, uint64(v)
	})
}

func (s *xstate) standing(k int) standing {
	outcome, asked := s.folded()
	switch {
	case !asked[k]:
		return standingAbsent
	case outcome[k] != "":
		return standingSettled
	}
	return standingAsked
}

// wait and current implement passage.
func (x *xports) wait(context.Context) (uint64, error) {
	return ask(x, opGate, func() (uint64, uint64) { return x.me().epoch, 0 })
}

func (x *xports) current(epoch uint64) bool {
	v, _ := ask(x, 0, func() (bool, uint64) {
		v := epoch == x.me().epoch || x.x.rules.noEpochs
		return v, map[bool]uint64{true: 1}[v]
	})
	return v
}

// Now and Sleep implement clock.
func (x *xports) Now() time.Time { return time.Unix(0, 0).Add(x.leases) }

func (x *xports) Sleep(_ context.Context, d time.Duration) error {
	op := xop(0)
	switch d {
	case xlease / 3: // a holder that shows it lives does so once at a time
		return errParked
	case xwatch:
		op = opWatch
	default: // between two tries
		if d > retryMax { // a wait that is taken for nothing hides what happens in it
			panic(fmt.Sprintf("the explorer does not know the wait of %s", d))
		}
		if x.parked {
			return errParked
		}
		return nil
	}
	passed, err := ask(x, op, func() (bool, uint64) {
		return x.how == leasePasses, uint64(x.how)
	})
	if passed {
		x.leases += xlease
	}
	return err
}

// AfterFunc implements clock. What goes on beside a tool that runs is a choice of its
// own: doRenew.
func (x *xports) AfterFunc(time.Duration, func()) (stop func()) { return func() {} }

// xothers is the other host.
type xothers struct{ *xports }

func (o xothers) other() *xhost { return &o.s.hosts[1-o.p.host] }

func (o xothers) begin(doubt bool) map[string]string {
	_, _ = ask(o.xports, 0, func() (struct{}, uint64) {
		h := o.me()
		h.busy, o.p.took, h.wanted = true, h.wanted, false
		if doubt {
			o.question()
		}
		return struct{}{}, 0
	})
	return nil // xproc.took has it
}

// question asks the other host anew: a look that it has begun is no answer.
func (o xothers) question() {
	if !o.other().up {
		return
	}
	o.me().asks, o.other().wanted = true, true
	for i := range o.s.procs {
		if q := &o.s.procs[i]; q.call == 0 && q.host != o.p.host {
			q.took = false
		}
	}
}

func (o xothers) ask() {
	_, _ = ask(o.xports, 0, func() (struct{}, uint64) { o.question(); return struct{}{}, 0 })
}

func (xothers) progress() {}

func (o xothers) answer(map[string]string) {
	_, _ = ask(o.xports, 0, func() (struct{}, uint64) {
		h := o.me()
		h.busy = false
		h.away = h.away && h.epoch != o.p.epoch
		if o.p.took {
			o.other().asks, o.p.took = false, false
		}
		return struct{}{}, 0
	})
}

func (o xothers) await(context.Context) (bool, error) {
	return ask(o.xports, opBarrier, func() (bool, uint64) {
		if o.me().wanted {
			return true, 1
		}
		o.me().asks = false
		return false, 0
	})
}

// State and Get implement logEnd.
func (x *xports) State(context.Context, string) (jet.StreamState, error) {
	return ask(x, 0, func() (jet.StreamState, uint64) {
		return jet.StreamState{FirstSeq: 1, LastSeq: uint64(len(x.s.fx))}, uint64(len(x.s.fx))
	})
}

func (x *xports) Get(_ context.Context, _ string, seq uint64) (jet.Msg, bool, error) {
	m, err := ask(x, 0, func() (jet.Msg, uint64) {
		data := factData(x.s.fx[seq-1])
		return jet.Msg{Seq: seq, Data: data}, uint64(sha256.Sum256(data)[0])
	})
	return m, true, err
}

// Run implements tool.Runner.
func (x *xports) Run(_ context.Context, c tool.Call) tool.Result {
	r, err := ask(x, opTool, func() (tool.Result, uint64) {
		if c.Key != x.x.key {
			x.s.bad = fmt.Sprintf("the target was sent the key %s", c.Key)
		}
		if x.p.vain {
			x.s.bad = "ran on a claim that came after a known success"
		}
		r := x.x.perform(x.s, x.p.call, x.how)
		return r, uint64(x.how)
	})
	if err != nil {
		return tool.Result{Outcome: effect.Unknown}
	}
	return r
}

// xmarker keeps a host's mark.
type xmarker struct{ x *xports }

func (m xmarker) SetMark(_ context.Context, _ int, k keystore.Mark) error {
	if !m.x.parked && (m.x.restored || !m.x.p.begun) { // else it has been done before
		m.x.me().disk = k
	}
	return nil
}

func (m xmarker) Marks() (map[int]keystore.Mark, error) { return nil, nil }
