package executor

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// testsAtOnce is how many tests run side by side unless -parallel says otherwise: they wait
// for leases, elections and reconnects far longer than they compute.
const testsAtOnce = 8

func TestMain(m *testing.M) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue && runtime.GOMAXPROCS(0) < testsAtOnce {
		if err := p.Value.Set(strconv.Itoa(testsAtOnce)); err != nil {
			panic(err) // our own number
		}
	}
	goleak.VerifyTestMain(m,
		// Started once per process by the log's server, and never stopped.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*ipQueue[...]).push"))
}

const (
	testPartitions = 2
	testWait       = time.Minute // only a failing test waits so long
	testLease      = 400 * time.Millisecond
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testWait); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, testWait)
		}
	}
}

// world is one log, one target, and any number of hosts.
type world struct {
	t      testing.TB
	ctx    context.Context
	server *embed.Server
	config embed.Config
	conn   *jet.Conn
	reader *turns.Reader
	target *target
	tools  *tool.Set
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*testWait)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, target: newTarget(t)}
	w.tools = w.declare("")
	w.config = embed.Config{StoreDir: filepath.Join(t.TempDir(), "log"), Log: zerolog.Nop()}
	w.serve()
	w.config.Port = w.server.Port()
	t.Cleanup(func() { w.server.Shutdown() })
	w.conn = w.connect()
	w.ensure()
	w.reader = turns.NewReader(w.conn, testPartitions)
	return w
}

func (w *world) declare(more string) *tool.Set {
	w.t.Helper()
	const one = `
  - name: %s
    parameters: {type: object, required: [order], properties: {order: {type: string}}}
    effect: %s
    identity: "*"
    timeout: %s
    run: {http: {url: "%s/%s"}}
`
	var b strings.Builder
	b.WriteString("tools:")
	for _, class := range []string{"read", "keyed", "once"} {
		fmt.Fprintf(&b, one, class, class, "10s", w.target.URL, class)
	}
	set, err := tool.Parse("tools.yaml", []byte(b.String()+more))
	check(w.t, err)
	return set
}

func (w *world) serve() {
	w.t.Helper()
	var err error
	w.server, err = embed.Start(w.config)
	check(w.t, err)
	if w.conn != nil {
		eventually(w.t, "connected again", func() bool {
			_, err := w.conn.State(w.ctx, subjects.EventsStream(0))
			return err == nil
		})
	}
}

// publish stores a message, perhaps more than once.
func (w *world) publish(subject string, data []byte) {
	w.t.Helper()
	eventually(w.t, "published", func() bool {
		_, err := w.conn.Publish(w.ctx, subject, nil, data)
		return err == nil
	})
}

func (w *world) ensure() {
	w.t.Helper()
	check(w.t, w.conn.Ensure(w.ctx, subjects.Layout{Partitions: testPartitions, Replicas: 1}))
}

func (w *world) connect() *jet.Conn {
	w.t.Helper()
	c, err := jet.Connect(w.ctx, jet.Config{URL: w.server.URL(), User: w.server.User(), Password: w.server.Password(), Log: testLog("log")})
	check(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testWait)
		defer cancel()
		check(w.t, c.Close(ctx))
	})
	return c
}

// loseEffects restarts the server without the effect streams.
func (w *world) loseEffects() {
	w.t.Helper()
	w.server.Shutdown()
	dirs, err := filepath.Glob(filepath.Join(w.config.StoreDir, "jetstream", "*", "streams", "TF_FX_*"))
	check(w.t, err)
	if len(dirs) != testPartitions {
		w.t.Fatalf("found effect streams %v", dirs)
	}
	for _, d := range dirs {
		check(w.t, os.RemoveAll(d))
	}
	w.serve()
	w.ensure()
}

func testLog(who string) zerolog.Logger {
	if os.Getenv("EXECUTOR_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "05.000"}).With().Timestamp().Str("who", who).Logger()
}

// call writes a turn whose model has asked for one call per argument text, and gives
// the commands as the fold issues them. The turn is not in the index of open ones, so
// that only a command brings a call to an executor.
func (w *world) call(turn, name string, args ...string) []feed.Output {
	w.t.Helper()
	return w.callOf(subjects.LocalTenant, turn, name, args...)
}

func (w *world) callOf(tenant, turn, name string, args ...string) []feed.Output {
	w.t.Helper()
	t := subjects.Turn{Tenant: tenant, ID: turn}
	at := event.At{Step: 1, Attempt: 1, Token: "a"}
	class := name
	if _, ok := map[string]bool{"read": true, "keyed": true, "once": true}[name]; !ok {
		class = "once"
	}
	bodies := []event.Body{
		&event.TurnOpened{At: "2026-11-29T00:00:00Z", Digest: "d", Messages: []event.Message{{Role: "user", Content: "x"}},
			Route: "default", Entries: []event.Entry{{Provider: "main", API: "openai-chat", Model: "m"}},
			Tools:  []event.Tool{{Name: name, Effect: class, IdentityAll: true, Repeat: "per_call", TimeoutMS: 10_000}},
			Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, CallsPerTurn: 64, DeadlineMS: 600_000, AliveMS: 5000, PatienceMS: 10_000}},
		&event.AttemptStarted{Step: 1, Attempt: 1, Token: "a", Provider: "main"},
	}
	for i, a := range args {
		bodies = append(bodies, &event.CallDelta{At: at, Index: i, ID: fmt.Sprint("c", i), Name: name, Args: a})
		at.Ord++
	}
	bodies = append(bodies, &event.AttemptFinished{At: at, Finish: "tool_calls"})
	for _, b := range bodies {
		data, err := event.Encode(b)
		check(w.t, err)
		w.publish(subjects.Events(t.Partition(testPartitions), t), data)
	}
	state, err := w.reader.Load(w.ctx, t, 0)
	check(w.t, err)
	out := state.Pending()
	if len(out) != len(args) {
		w.t.Fatalf("%d commands for %d calls", len(out), len(args))
	}
	return out
}

func keyOf(o feed.Output) string {
	switch b := o.Body.(type) {
	case *feed.CallCommand:
		return b.Key
	case *feed.CallWithdraw:
		return b.Key
	}
	return ""
}

// command puts commands on the log.
func (w *world) command(out ...feed.Output) {
	w.t.Helper()
	for _, o := range out {
		data, err := feed.Encode(o)
		check(w.t, err)
		t := subjects.Turn{Tenant: subjects.LocalTenant, ID: o.Turn}
		w.publish(subjects.Out(t.Partition(testPartitions), t, subjects.LaneCall), data)
	}
}

// again is the same effect asked for by another call.
func again(o feed.Output, call string) feed.Output {
	c := *o.Body.(*feed.CallCommand)
	c.Call = call
	o.Body = &c
	return o
}

func withdrawal(o feed.Output) feed.Output {
	c := o.Body.(*feed.CallCommand)
	o.Body = &feed.CallWithdraw{V: 1, Call: c.Call, Key: c.Key}
	return o
}

// settlements lists what a turn was told of a call.
func (w *world) settlements(turn, call string) []*event.CallSettled {
	w.t.Helper()
	var found []*event.CallSettled
	t := subjects.Turn{Tenant: subjects.LocalTenant, ID: turn}
	err := w.reader.Each(w.ctx, t, 0, func(e event.Event) error {
		if b, ok := e.Body.(*event.CallSettled); ok && b.Call == call {
			found = append(found, b)
		}
		return nil
	})
	check(w.t, err)
	return found
}

// settled waits for what the turn is first told of a call.
func (w *world) settled(turn, call string) *event.CallSettled {
	w.t.Helper()
	var all []*event.CallSettled
	eventually(w.t, turn+"/"+call+" settled", func() bool {
		all = w.settlements(turn, call)
		return len(all) > 0
	})
	return all[0]
}

func (w *world) facts(key string) []effect.Fact {
	w.t.Helper()
	msgs, _, err := w.conn.FactsOf(w.ctx, subjects.KeyPartition(key, testPartitions), key)
	check(w.t, err)
	var facts []effect.Fact
	for _, m := range msgs {
		f, err := effect.DecodeFact(m.Data)
		check(w.t, err)
		facts = append(facts, f)
	}
	return facts
}

func want(t testing.TB, b *event.CallSettled, outcome event.Outcome, class string, replayed bool) {
	t.Helper()
	if b.Outcome != outcome || b.ErrorClass != class || b.Replayed != replayed {
		t.Fatalf("settled %+v; want %s %q replayed=%v", *b, outcome, class, replayed)
	}
}

// target is the other side: a server that counts what it was asked to do.
type target struct {
	*httptest.Server
	mu    sync.Mutex
	runs  map[string]int // by key
	serve func(w http.ResponseWriter, r *http.Request, run int)
}

func newTarget(t testing.TB) *target {
	g := &target{runs: map[string]int{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Server.Close)
	return g
}

func (g *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(tool.KeyHeaderDefault)
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	g.runs[key]++
	run, serve := g.runs[key], g.serve
	g.mu.Unlock()
	if serve != nil {
		serve(w, r, run)
		return
	}
	fmt.Fprintf(w, `{"run":%d,"args":%s}`, run, body)
}

// behave changes what the target does.
func (g *target) behave(f func(w http.ResponseWriter, r *http.Request, run int)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serve = f
}

func (g *target) count(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs[key]
}

func (g *target) total() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, c := range g.runs {
		n += c
	}
	return n
}
