package executor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

var linearKeys = flag.Int("claims.keys", 640, "effect keys that claimers fight for, two generations each")

const (
	linearClaimers    = 8
	linearGenerations = 2
	linearLanes       = 24 // keys at a time
	linearLease       = 400 * time.Millisecond
)

// TestClaimsLinearizable has claimers on eight connections fight for keys on three
// servers whose leaders step down and which are stopped and started: of each generation
// of a key's claims there is one owner, for the claimers and for the log, and each
// history is that of a register (I7). Some claimers stand still beyond their lease with
// a claim in hand, and some die while they claim.
func TestClaimsLinearizable(t *testing.T) {
	t.Parallel()
	f := newFight(t)
	stop := f.unrest(t)
	keys := *linearKeys
	if raceEnabled {
		keys /= 4 // for races between the claimers, fewer fights will do
	}
	next := atomic.Int64{}
	var lanes sync.WaitGroup
	for range linearLanes {
		lanes.Go(func() {
			for {
				n := int(next.Add(1))
				if n > keys || t.Failed() {
					return
				}
				f.key(t, n)
			}
		})
	}
	lanes.Wait()
	downs, restarts := stop()
	fmt.Printf("claims %d, keys %d, owners per key 1, step-downs %d, restarts %d (%d claimers died, %d stood still, %d looked back)\n",
		f.claims.Load(), keys, downs, restarts, f.died.Load(), f.still.Load(), f.unclear.Load())
	if n := int64(keys * linearGenerations * linearClaimers); f.claims.Load() != n {
		t.Errorf("%d claims, want %d", f.claims.Load(), n)
	}
}

// fight is the servers and the claimers.
type fight struct {
	ctx                          context.Context
	cluster                      *embed.Cluster
	hosts                        [linearClaimers]*performer
	claims, died, still, unclear atomic.Int64
}

func newFight(t *testing.T) *fight {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	cluster, err := embed.StartCluster(3, t.TempDir())
	check(t, err)
	t.Cleanup(cluster.Shutdown)
	f := &fight{ctx: ctx, cluster: cluster}
	for i := range f.hosts {
		c, err := jet.Connect(ctx, jet.Config{URL: cluster.URL(), Timeout: 2 * time.Second, Log: zerolog.Nop()})
		check(t, err)
		t.Cleanup(func() { _ = c.Close(ctx) }) // servers may be gone by then
		if i == 0 {
			check(t, c.Ensure(ctx, subjects.Layout{Partitions: 1, Replicas: 3}))
		}
		log := &fxLog{conn: c, partitions: 1, marks: newMarks(noMarks{}, 1), clock: systemClock{}, suspect: func() {}}
		f.hosts[i] = f.performer(fmt.Sprint("h", i), log)
	}
	return f
}

func (f *fight) performer(host string, log *fxLog) *performer {
	g := newGate()
	g.release(g.started())
	n := atomic.Int64{}
	return &performer{log: lookedBack{log, &f.unclear}, bodies: log, memory: noMemory{}, journal: noJournal{}, clock: systemClock{}, gate: g,
		pending: &unconfirmed{}, metrics: newMetrics(func() (int, error) { return 0, nil }), logger: zerolog.Nop(),
		host: host, lease: linearLease, token: func() string { return fmt.Sprintf("%s-%d", host, n.Add(1)) }}
}

// unrest has leaders step down, and stops and starts each server once, until stop.
func (f *fight) unrest(t *testing.T) (stop func() (downs, restarts int)) {
	t.Helper()
	nc, err := nats.Connect(f.cluster.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	check(t, err)
	ctx, cancel := context.WithCancel(f.ctx)
	var work sync.WaitGroup
	downs, restarts := 0, 0
	work.Go(func() {
		for systemClock.Sleep(systemClock{}, ctx, 1500*time.Millisecond) == nil {
			if _, err := nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+subjects.EffectsStream(0), nil, time.Second); err == nil {
				downs++
			}
		}
	})
	work.Go(func() {
		for i := range 3 {
			if systemClock.Sleep(systemClock{}, ctx, 2*time.Second) != nil {
				return
			}
			f.cluster.Stop(i)
			_ = systemClock.Sleep(systemClock{}, ctx, time.Second) // and start it in any case
			if err := f.cluster.Restart(i); err != nil {
				t.Errorf("restart server %d: %v", i, err)
				return
			}
			restarts++
		}
	})
	return func() (int, int) { cancel(); work.Wait(); nc.Close(); return downs, restarts }
}

// key fights for one key, a generation after the other, and checks its history.
func (f *fight) key(t *testing.T, n int) {
	key := effect.FormatKey([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	var history []porcupine.Operation
	for g := 1; g <= linearGenerations; g++ {
		ops, owner := f.generation(t, key, g, rng)
		history = append(history, ops...)
		if t.Failed() || owner == "" {
			return
		}
		call := nowNS()
		f.release(t, key, owner, rng.IntN(12) == 0)
		history = append(history, porcupine.Operation{Input: claimOp{"released", g, owner}, Call: call, Return: nowNS()})
	}
	if !porcupine.CheckOperations(register, history) {
		t.Errorf("key %d: no register has this history: %+v", n, history)
	}
}

var linearBegan = time.Now()

func nowNS() int64 { return int64(time.Since(linearBegan)) }

// generation has everybody claim at once, and gives the owner as the log knows it.
func (f *fight) generation(t *testing.T, key string, g int, rng *rand.Rand) ([]porcupine.Operation, string) {
	var ready, fight sync.WaitGroup
	ready.Add(linearClaimers)
	ops := make([]porcupine.Operation, linearClaimers)
	errs := make([]error, linearClaimers)
	for i, p := range f.hosts {
		mortal, moment := rng.IntN(60) == 0, time.Duration(rng.IntN(8000))*time.Microsecond
		fight.Go(func() {
			k, err := f.know(p, key)
			ready.Done()
			ready.Wait()
			if err != nil {
				errs[i] = err
				return
			}
			last := f.ctx
			if mortal {
				var cancel context.CancelFunc
				last, cancel = context.WithTimeout(f.ctx, moment)
				defer cancel()
			}
			j := bareJob(subjects.Turn{Tenant: "local", ID: "t"}, fmt.Sprintf("%d.%d", g, i), key)
			j.cmd = &feed.CallCommand{}
			call := nowNS()
			c, won, err := p.claim(stages{f.ctx, f.ctx, last}, j, k, 0)
			f.claims.Add(1)
			op := claimOp{"lost", g, c.fact.Token}
			switch {
			case errors.Is(err, errStopped):
				op.what = "died"
				f.died.Add(1)
			case err != nil:
				errs[i] = err
			case won:
				op.what = "won"
			}
			ops[i] = porcupine.Operation{ClientId: i, Input: op, Call: call, Return: nowNS()}
		})
	}
	fight.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
		return nil, ""
	}
	return f.owned(t, key, g, ops)
}

// owned holds what the claimers believe against the log.
func (f *fight) owned(t *testing.T, key string, g int, ops []porcupine.Operation) ([]porcupine.Operation, string) {
	k, err := f.know(f.hosts[0], key)
	check(t, err)
	var owner effect.Token
	open := 0
	for _, tok := range k.view.Tokens {
		if tok.Open() {
			owner = tok
			open++
		}
	}
	if len(k.view.Tokens) != g || open != 1 {
		t.Errorf("generation %d of %s has %d claims, %d of them open", g, key, len(k.view.Tokens), open)
		return nil, ""
	}
	var out []porcupine.Operation
	for i, o := range ops {
		op := o.Input.(claimOp)
		mine := owner.Call == callName(subjects.Turn{Tenant: "local", ID: "t"}, fmt.Sprintf("%d.%d", g, i))
		switch {
		case op.what == "died" && mine:
			op.what, o.Return = "won", math.MaxInt64 // nobody has told it
		case op.what == "died":
			continue
		case (op.what == "won") != mine:
			t.Errorf("claimer %d of generation %d of %s: %s, and the owner is %s of call %s", i, g, key, op.what, owner.ID, owner.Call)
		}
		op.token = owner.ID
		o.Input = op
		out = append(out, o)
	}
	return out, owner.ID
}

// release ends a generation: the owner reports, or another host takes over once its
// lease is over.
func (f *fight) release(t *testing.T, key, token string, still bool) {
	p := f.hosts[1]
	if !still {
		check(t, p.log.Append(f.ctx, key, effect.Fact{Kind: effect.KindReport, Token: token, Call: "c", Outcome: effect.Failed}, nil))
		return
	}
	f.still.Add(1)
	late := *p
	late.host = "watcher"
	j := bareJob(subjects.Turn{Tenant: "local", ID: "t"}, "9.9", key)
	j.patient = true
	for {
		k, err := f.know(&late, key)
		check(t, err)
		d := k.view.Decide(effect.Keyed, j.name, effect.Limits{})
		if d.Kind != effect.Wait {
			return
		}
		check(t, late.await(f.ctx, j, k, d))
	}
}

// know reads a key's facts until that succeeds.
func (f *fight) know(p *performer, key string) (k knowledge, err error) {
	for {
		if k, err = p.know(f.ctx, key); err == nil || f.ctx.Err() != nil {
			return k, err
		}
	}
}
