package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/executor"
	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// rigPartitions is the default of an embedded deployment.
const rigPartitions = 4

// rigTools declares the tool that does nothing.
const rigTools = `tools:
  - name: nothing
    description: Does nothing.
    effect: keyed
    identity: [order_id]
    parameters: {type: object, required: [order_id], properties: {order_id: {type: string}, note: {type: string}}}
    run: {command: {argv: ["true"]}}
`

const rigAnswer = `{"refund":"F-1","status":"accepted"}`

// nothing is a runner that does nothing.
type nothing struct{}

func (nothing) Run(context.Context, tool.Call) tool.Result {
	return tool.Result{Outcome: effect.Succeeded, Body: rigAnswer, Ran: true}
}

// rig is a log, an executor with its memory, and a second memory for the bare loop.
type rig struct {
	faultOf
	next   atomic.Int64
	server *embed.Server
	conn   *jet.Conn
	store  *keystore.Store
	other  *keystore.Store
	x      *executor.Executor
	stop   context.CancelFunc
	ended  chan error
}

func newRig(ctx context.Context, dir string) (g *rig, err error) {
	g = &rig{ended: make(chan error, 1), stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	set, err := tool.Parse("tools.yaml", []byte(rigTools))
	if err != nil {
		return g, err
	}
	if g.server, err = embed.Start(embed.Config{StoreDir: filepath.Join(dir, "nats"), Log: zerolog.Nop()}); err != nil {
		return g, err
	}
	if g.conn, err = jet.Connect(ctx, jet.Config{URL: g.server.URL(), User: g.server.User(), Password: g.server.Password(), Log: zerolog.Nop()}); err != nil {
		return g, err
	}
	if err := g.conn.Ensure(ctx, subjects.Layout{Partitions: rigPartitions, Replicas: 1}); err != nil {
		return g, err
	}
	if g.store, err = keystore.Open(filepath.Join(dir, "store"), keystore.Config{Host: "bench", Log: zerolog.Nop()}); err != nil {
		return g, err
	}
	if g.other, err = keystore.Open(filepath.Join(dir, "bare"), keystore.Config{Host: "bench", Log: zerolog.Nop()}); err != nil {
		return g, err
	}
	g.x, err = executor.New(executor.Config{Conn: g.conn, Store: g.store, Tools: set, Runners: map[string]tool.Runner{"nothing": nothing{}},
		Turns: turns.NewReader(g.conn, rigPartitions), Partitions: rigPartitions, Instance: "bench", Incarnation: uuid.NewString(),
		Log: zerolog.Nop()})
	if err != nil {
		return g, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	go func() { g.ended <- g.x.Run(run) }()
	return g, nil
}

func (g *rig) close() error {
	g.stop()
	var errs []error
	if g.x != nil {
		errs = append(errs, <-g.ended)
	}
	for _, s := range []*keystore.Store{g.store, g.other} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if g.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		errs = append(errs, g.conn.Close(ctx))
	}
	if g.server != nil {
		g.server.Shutdown()
	}
	return errors.Join(errs...)
}

// call is the n-th command, as the fold would issue it.
func call(n int64) (subjects.Turn, *feed.CallCommand) {
	t := subjects.Turn{Tenant: subjects.LocalTenant, ID: fmt.Sprintf("0190a1b2-0000-7000-8000-%012d", n)}
	args := fmt.Sprintf(`{"order_id":"R-%d","note":"the customer was charged twice"}`, n)
	identity := fmt.Sprintf(`{"order_id":"R-%d"}`, n)
	return t, &feed.CallCommand{V: 1, In: uint64(n), Call: "1.0", Tool: "nothing", Args: args,
		Key:    effect.Meaning{Tenant: t.Tenant, Scope: t.ID, Tool: "nothing", Identity: identity}.Key(),
		Effect: "keyed", TimeoutMS: 10_000, ID: "call_1", Identity: effect.IdentityDigest(identity)}
}

// effect has the executor bring a fresh call to its outcome.
func (g *rig) effect(ctx context.Context, n int64) error {
	t, c := call(n)
	raw, err := feed.Encode(feed.Output{ID: "1.0", Turn: t.ID, Step: 1, Attempt: 1, Body: c})
	if err != nil {
		return err
	}
	return g.x.Perform(ctx, t, raw)
}

// bare does the durable operations of one effect, with the same bytes.
func (g *rig) bare(ctx context.Context, n int64) error {
	t, c := call(n)
	raw, err := feed.Encode(feed.Output{ID: "1.0", Turn: t.ID, Step: 1, Attempt: 1, Body: c})
	if err != nil {
		return err
	}
	p, token, name := subjects.KeyPartition(c.Key, rigPartitions), uuid.NewString(), t.String()+"/1.0"
	sum := sha256.Sum256([]byte(rigAnswer))
	claim := effect.EncodeFact(effect.Fact{Kind: effect.KindClaim, Token: token, Call: name, Host: "bench", Input: c.In, Identity: c.Identity})
	report := effect.EncodeFact(effect.Fact{Kind: effect.KindReport, Token: token, Call: name, Outcome: effect.Succeeded,
		BodyDigest: hex.EncodeToString(sum[:]), Host: "bench"})
	settled, err := event.Encode(&event.CallSettled{Call: "1.0", Key: c.Key, Outcome: event.OutcomeSucceeded, Result: rigAnswer})
	if err != nil {
		return err
	}
	if err := g.other.NotRun(ctx, c.Key, "a"+string(raw)); err != nil { // a row of the size of an intent
		return err
	}
	if _, err := g.conn.ClaimFact(ctx, p, c.Key, claim, 0); err != nil {
		return err
	}
	if err := g.other.NotRun(ctx, c.Key, "b"+strings.Repeat("x", 120)); err != nil { // and of a report
		return err
	}
	if err := g.conn.PutBody(ctx, p, c.Key, token, []byte(rigAnswer)); err != nil {
		return err
	}
	if _, err := g.conn.Publish(ctx, subjects.Effect(p, c.Key), nil, report); err != nil {
		return err
	}
	_, err = g.conn.Publish(ctx, subjects.Events(t.Partition(rigPartitions), t), nil, settled)
	return err
}
