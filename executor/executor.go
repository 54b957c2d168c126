package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Durable is the name of the consumers that all executors share.
const Durable = "executors"

const (
	// crowds is how many tenants may flood a partition before the commands of others
	// have to wait until theirs are put off, and headroom lets withdrawals through.
	crowds   = 4
	headroom = 16

	// lastWords is how long outcomes may still be published after Grace. What is not
	// published then is in the host's memory and goes out at the next start.
	lastWords = 2 * time.Second

	// putOff is when a command comes again that could not be worked on now.
	putOff = time.Second
	// putOffCrowd times the deliveries so far, putOffCrowdMax at most, is when a command
	// comes again whose tenant has very many here.
	putOffCrowd    = 250 * time.Millisecond
	putOffCrowdMax = 5 * time.Second
	// putOffNewer is when a command comes again that needs a newer executor.
	putOffNewer = 30 * time.Second
)

// Executor turns the call commands of a deployment into effects.
type Executor struct {
	cfg       Config
	owned     []io.Closer // runners and verifiers made here
	verifiers map[string]*tool.Verifier
	log       *fxLog
	performer *performer
	desk      *desk
	guardian  *guardian
	rollcall  *rollcall // nil: this executor is the only one
	asker     *asker
	erasures  *erasures
	erasing   sync.Mutex // one turn at a time is forgotten
	clerk     *clerk
	used      atomic.Bool
	working   chan struct{} // closed when commands may come
	stages    stages
	fail      func(error) // ends Run with a fault
}

// New copies cfg, fills in defaults, and reports everything that is wrong with it. It
// starts nothing.
func New(cfg Config) (*Executor, error) {
	cfg = cfg.withDefaults()
	x := &Executor{cfg: cfg, working: make(chan struct{})}
	crash, err := armCrash(os.Getenv(CrashPointEnv))
	if err := errors.Join(cfg.validate(), err, x.makeRunners()); err != nil {
		return nil, fmt.Errorf("executor: %w", err)
	}
	x.build()
	x.performer.crash, x.log.crash, x.clerk.crash = crash, crash, crash
	if err := x.performer.metrics.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("executor: metrics: %w", err)
	}
	return x, nil
}

// build wires the parts to JetStream and the key store.
func (x *Executor) build() {
	cfg := x.cfg
	clk := systemClock{}
	gate, marks := newGate(), newMarks(cfg.Store, cfg.Partitions)
	reported := &tokenSet{}
	x.log = &fxLog{conn: cfg.Conn, partitions: cfg.Partitions, marks: marks, clock: clk, pending: reported}
	x.desk = newDesk(newSeats(cfg.Concurrency, cfg.TenantConcurrency, x.toolLimit), x.conduct)
	x.clerk = &clerk{marks: marks, partitions: cfg.Partitions, clock: clk, open: reported,
		wake: make(chan struct{}, 1), every: noteEvery, journal: func() journal { return x.performer.journal }}
	x.performer = &performer{
		log: x.log, bodies: x.log, memory: cfg.Store, journal: cfg.Store,
		turns: &turnLog{conn: cfg.Conn, reader: cfg.Turns, partitions: cfg.Partitions, clock: clk},
		clock: clk, gate: gate, pending: &unconfirmed{}, metrics: newMetrics(x.outboxSize),
		logger: cfg.Log, tools: cfg.Tools, runners: x.cfg.Runners, host: cfg.Instance, lease: cfg.LeaseTTL,
		progressEvery: defaultProgressEvery, resultMax: cfg.ResultBytesMax,
		token: uuid.NewString, slot: x.desk.slot, outbox: x.clerk,
	}
	x.erasures = newErasures()
	x.performer.erased = x.erasures
	x.asker = newAsker(x.performer, x.verifiers, cfg.Store, cfg.VerifyBackoff, cfg.Log)
	x.performer.asker = x.asker
	x.guardian = &guardian{gate: gate, marks: marks, end: cfg.Conn, clock: clk, partitions: cfg.Partitions,
		keys: cfg.Store.All, know: x.performer.know, log: cfg.Log, alarm: make(chan struct{}, 1)}
	if cfg.Members != nil {
		x.rollcall = &rollcall{peers: cfg.Members, self: cfg.Instance, life: cfg.Incarnation,
			patience: shortChecks*shortWait + cfg.LeaseTTL, log: cfg.Log}
		x.guardian.others = x.rollcall
	}
	x.log.suspect = x.guardian.suspect
}

// Run works until ctx ends. Then it begins nothing more, gives what runs up to Grace,
// interrupts the rest with tool.ErrInterrupted (recorded as unknown, "interrupted"),
// and returns nil; any other return is a fault. Every goroutine it started has ended
// by then. It can be called once.
func (x *Executor) Run(ctx context.Context) error {
	if x.used.Swap(true) {
		return errors.New("executor: Run was called before")
	}
	start, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	run, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	last, silence := context.WithCancel(context.WithoutCancel(ctx))
	defer silence()
	x.stages = stages{start, run, last}
	var once sync.Once
	var failure error
	x.fail = func(err error) {
		once.Do(func() { failure = err })
		stop(err)
	}
	if err := x.recall(last); err != nil {
		return fmt.Errorf("executor: %w", err)
	}
	x.cfg.Conn.OnDisconnect(x.guardian.disconnect)
	x.cfg.Conn.OnReconnect(x.guardian.suspect)
	x.guardian.suspect() // nothing is known of the log yet
	x.cfg.Log.Info().Str("instance", x.cfg.Instance).Str("incarnation", x.cfg.Incarnation).Msg("executor starts")
	if c := x.performer.crash; c != nil {
		x.cfg.Log.Error().Str("point", string(c.at)).Int64("passing", c.left.Load()).
			Msg(CrashPointEnv + " IS SET: THIS PROCESS WILL KILL ITSELF THERE; IT IS FOR TESTS ALONE")
	}

	var work sync.WaitGroup
	work.Go(func() {
		if err := x.guardian.run(last); err != nil { // until the last call is told
			x.fail(fmt.Errorf("executor: %w", err))
		}
	})
	endBooks := x.keepBooks(context.WithoutCancel(ctx))
	work.Go(func() { x.listen(last) })
	close(x.working)
	x.begin(start, &work)
	<-start.Done()
	done := x.desk.close()
	if !within(done, x.cfg.Grace) {
		interrupt(tool.ErrInterrupted)
		if !within(done, lastWords) {
			silence()
			<-done
		}
	}
	silence()
	work.Wait()
	endBooks() // whoever had something to note has ended
	for _, c := range x.owned {
		_ = c.Close() // frees idle connections; nothing is lost
	}
	once.Do(func() {}) // the goroutines have ended: failure is settled
	return failure
}

// keepBooks has the clerk work; end has it note what is left, and waits for that.
func (x *Executor) keepBooks(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		if err := x.clerk.run(ctx); err != nil {
			x.fail(fmt.Errorf("executor: %w", err))
		}
		close(ended)
	}()
	return func() { cancel(); <-ended }
}

// listen has the log checked when another executor asks for it.
func (x *Executor) listen(ctx context.Context) {
	if x.rollcall == nil {
		return
	}
	for {
		changed := x.cfg.Members.Changed() // before looking
		if x.rollcall.wanted() {
			x.guardian.look()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// begin starts what works beside the calls.
func (x *Executor) begin(ctx context.Context, work *sync.WaitGroup) {
	work.Go(func() {
		x.resume(ctx)
		x.followErasures(ctx, work)
	})
	work.Go(func() {
		if err := x.asker.run(ctx); err != nil {
			x.fail(fmt.Errorf("executor: %w", err))
		}
	})
	for p := range x.cfg.Partitions {
		work.Go(func() {
			err := x.cfg.Conn.Work(ctx, jet.WorkConfig{
				Stream: subjects.OutputsStream(p), Durable: Durable, Filter: subjects.OutLane(p, subjects.LaneCall),
				AckWait: x.cfg.AckWait, InFlight: crowds*x.desk.presentMax + headroom,
			}, x.deliver)
			if err != nil {
				x.fail(fmt.Errorf("executor: %w", err))
			}
		})
	}
}

// deliver works on one command until it is done with.
func (x *Executor) deliver(d jet.Delivery) {
	log := x.cfg.Log.With().Str("subject", d.Subject).Uint64("seq", d.Seq).Logger()
	_, turn, _, err := subjects.ParseOut(d.Subject)
	var j *job
	if err == nil {
		j, err = newJob(turn, d.Data)
	}
	switch {
	case err != nil:
		log.Error().Err(err).Msg("command is malformed")
		x.noted(d.Term())
		return
	case j == nil:
		x.noted(d.NakAfter(putOffNewer))
		return
	case j.cmd != nil && x.desk.crowded(turn.Tenant):
		x.noted(d.NakAfter(min(time.Duration(d.Delivered)*putOffCrowd, putOffCrowdMax)))
		return
	}
	j.redelivered = d.Redelivered
	if j = x.desk.take(x.stages.start, j, true); j == nil {
		x.noted(d.NakAfter(0))
		return
	}
	defer j.leave()
	x.accompany(d, j)
	switch {
	case j.err == nil:
		x.noted(d.Ack())
		x.performer.crash.pass(crashAcked)
	case errors.Is(j.err, errStopped):
		x.noted(d.NakAfter(0)) // another executor may go on at once
	default:
		x.noted(d.NakAfter(putOff))
	}
}

// accompany shows the log that the command is being worked on, until it is done with.
func (x *Executor) accompany(d jet.Delivery, j *job) {
	alive := time.NewTicker(x.cfg.AckWait / 3)
	defer alive.Stop()
	for {
		select {
		case <-j.done:
			return
		case <-alive.C:
			x.noted(d.InProgress())
		}
	}
}

// conduct brings a job to its outcome. It ends Run if this host's memory fails, and
// logs what needs a person.
func (x *Executor) conduct(j *job) error {
	if !x.erasures.enter(j.turn) {
		return x.performer.forget(x.stages.last, j)
	}
	defer x.erasures.leave(j.turn)
	err := x.performer.conduct(x.stages, j)
	switch {
	case err == nil, errors.Is(err, errStopped), errors.Is(err, errDeferred):
	case isFault(err):
		x.fail(fmt.Errorf("executor: call %s: %w", j.name, err))
	default:
		x.cfg.Log.Error().Err(err).Str("call", j.name).Str("key", j.key).Msg("call cannot go on")
	}
	return err
}

// noted logs an acknowledgement that did not go out. The command comes again, and
// meets what is known.
func (x *Executor) noted(err error) {
	if err != nil {
		x.cfg.Log.Debug().Err(err).Msg("acknowledgement failed")
	}
}

// recall takes over from the process before: its marks, and its claims without a
// report.
func (x *Executor) recall(ctx context.Context) error {
	if err := x.guardian.marks.load(); err != nil {
		return err
	}
	n, err := interrupt(ctx, x.cfg.Store, time.Now())
	if n > 0 {
		x.cfg.Log.Warn().Int("claims", n).Msg("the process before was interrupted")
	}
	return err
}

// interrupt reports the claims that the process before has left without a report. What
// those did is unknown, unless the log knows better.
func interrupt(ctx context.Context, m past, now time.Time) (n int, err error) {
	intents, err := m.Interrupted()
	if err != nil {
		return 0, err
	}
	for _, in := range intents {
		err := m.Report(ctx, keystore.Report{Key: in.Key, Token: in.Token, Call: in.Call,
			Outcome: effect.Unknown, ErrorClass: effect.Interrupted, Detail: "the process ended during the run", At: now})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
