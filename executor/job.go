package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

var (
	// errStopped: the process stops before the call is decided. Another one goes on.
	errStopped = errors.New("executor: stopped")
	// errDeferred: another host's claim is open, and nobody has handed us the command.
	errDeferred = errors.New("executor: left to another host")
)

// stages are the contexts of one Run, each ending after the one before.
type stages struct {
	start context.Context // until it ends, effects may begin
	run   context.Context // until it ends, effects may go on
	last  context.Context // until it ends, outcomes may be recorded
}

// job is one call on its way to an outcome.
type job struct {
	turn        subjects.Turn
	step        int
	attempt     int
	call        string // "<step>.<index>"
	name        string // the call in facts: "<tenant>/<turn>/<call>"
	key         string
	cmd         *feed.CallCommand // nil: the command is not at hand, so the call cannot run
	raw         []byte            // the command as it came
	redelivered bool

	askers    atomic.Int32 // deliveries that wait for the job
	patient   bool         // waits for other hosts' claims even without a delivery
	withdrawn chan struct{}
	withdraw  func()
	done      chan struct{}
	err       error // valid once done is closed

	slot   bool // holds one of Config.Concurrency
	ran    bool // a tool has run for it, in this process
	stated bool // and its report is on the log
	// success is that of its run, once the log has it; alone says that this host knew
	// nothing of the key before, so that it is the only report to be settled.
	success *keystore.Report
	alone   bool
	tried   bool // a claim may have been attempted before: look at the key's facts first
}

func callName(t subjects.Turn, call string) string { return t.String() + "/" + call }

// parseCallName is the inverse of callName.
func parseCallName(name string) (subjects.Turn, string, error) {
	part := strings.Split(name, "/")
	if len(part) != 3 {
		return subjects.Turn{}, "", fmt.Errorf("executor: %q is not <tenant>/<turn>/<call>", name)
	}
	t := subjects.Turn{Tenant: part[0], ID: part[1]}
	return t, part[2], errors.Join(subjects.CheckID("tenant", t.Tenant), subjects.CheckID("turn", t.ID))
}

// newJob reads a command. Commands of unknown types are nil without an error: they
// are for newer executors.
func newJob(t subjects.Turn, raw []byte) (*job, error) {
	out, err := feed.Decode(raw)
	if err != nil {
		return nil, err
	}
	switch b := out.Body.(type) {
	case *feed.CallCommand:
		j := bareJob(t, b.Call, b.Key)
		j.step, j.attempt, j.cmd, j.raw = out.Step, out.Attempt, b, raw
		return j, j.check()
	case *feed.CallWithdraw:
		j := bareJob(t, b.Call, b.Key)
		j.step, j.attempt = out.Step, out.Attempt
		j.withdraw()
		return j, j.check()
	}
	return nil, nil
}

// id tells jobs apart. A call that the log has lost and the model has made again may
// have another key.
func (j *job) id() string { return j.name + " " + j.key }

func bareJob(t subjects.Turn, call, key string) *job {
	j := &job{turn: t, call: call, name: callName(t, call), key: key,
		withdrawn: make(chan struct{}), done: make(chan struct{})}
	j.withdraw = sync.OnceFunc(func() { close(j.withdrawn) })
	return j
}

func (j *job) check() error {
	if _, err := effect.ParseKey(j.key); err != nil {
		return fmt.Errorf("%w: %w", subjects.ErrMalformed, err)
	}
	if j.call == "" || strings.Contains(j.call, "/") {
		return fmt.Errorf("%w: call %q", subjects.ErrMalformed, j.call)
	}
	return nil
}

func (j *job) isWithdrawn() bool {
	select {
	case <-j.withdrawn:
		return true
	default:
		return false
	}
}

// class is the declared one as pinned in the turn. Whatever is none of ours gets the
// most careful treatment.
func (j *job) class() effect.Class {
	if j.cmd == nil {
		return effect.Once
	}
	switch c := effect.Class(j.cmd.Effect); c {
	case effect.Read, effect.Keyed:
		return c
	}
	return effect.Once
}

func (j *job) tool() string {
	if j.cmd == nil {
		return ""
	}
	return j.cmd.Tool
}

// unfit says why the call may not run here at all; empty if it may.
func (j *job) unfit(set *tool.Set) (class, why string) {
	if j.cmd == nil {
		return "", ""
	}
	d, ok := set.Get(j.cmd.Tool)
	if !ok {
		return "unknown_tool", "There is no tool named " + j.cmd.Tool + "."
	}
	if err := tool.Validate(d, j.cmd.Args); err != nil {
		return "invalid_arguments", err.Error()
	}
	return "", ""
}

func (j *job) refusal(class, why string) *event.CallSettled {
	return &event.CallSettled{Call: j.call, Key: j.key, Outcome: event.OutcomeRefused, ErrorClass: class, Result: why}
}
