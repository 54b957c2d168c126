package reducer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

func TestMain(m *testing.M) {
	// The server keeps goroutines of its own for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop"))
}

const partitions = 2

// world is a log on disk with a server over it that can be stopped and started.
type world struct {
	t    *testing.T
	dir  string
	srv  *embed.Server
	conn *jet.Conn
	n    int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.up()
	t.Cleanup(w.down)
	return w
}

func (w *world) up() {
	w.t.Helper()
	srv, err := embed.Start(embed.Config{StoreDir: w.dir, Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.srv = srv
	w.conn, err = jet.Connect(context.Background(), jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Name: "test", Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.conn.Ensure(context.Background(), subjects.Layout{Partitions: partitions, Replicas: 1}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) down() {
	if w.srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = w.conn.Close(ctx)
	w.srv.Shutdown()
	w.srv = nil
}

// reduce runs a reducer; the returned function stops it and waits.
func (w *world) reduce(instance string) (stop func()) {
	w.t.Helper()
	w.n++
	log := zerolog.Nop()
	if testing.Verbose() && os.Getenv("REDUCER_LOG") != "" {
		log = zerolog.New(zerolog.NewTestWriter(w.t))
	}
	r, err := reducer.New(reducer.Config{Conn: w.conn, Partitions: partitions, Instance: instance,
		Incarnation: fmt.Sprint(w.n), LeaseTTL: time.Second, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("reducer ended with %v", err)
		}
	}
}

func (w *world) tell(t subjects.Turn, bodies ...event.Body) {
	w.t.Helper()
	p := t.Partition(partitions)
	for _, b := range bodies {
		data, err := event.Encode(b)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.conn.Publish(context.Background(), subjects.Events(p, t), nil, data); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) open(t subjects.Turn) {
	w.t.Helper()
	if err := turns.NewReader(w.conn, partitions).MarkOpen(context.Background(), t); err != nil {
		w.t.Fatal(err)
	}
	w.tell(t, opened())
}

// feed reads a turn's feed until an item of the given type comes.
func (w *world) feed(t subjects.Turn, until string) []feed.Output {
	w.t.Helper()
	p := t.Partition(partitions)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out []feed.Output
	err := w.conn.Tail(ctx, subjects.OutputsStream(p), []string{subjects.OutTurn(p, t)}, 1, func(m jet.Msg) error {
		o, err := feed.Decode(m.Data)
		if err != nil {
			return err
		}
		out = append(out, o)
		if o.Body.Type() == until {
			cancel()
		}
		return nil
	})
	if err != nil || len(out) == 0 || out[len(out)-1].Body.Type() != until {
		w.t.Fatalf("feed of %s: no %s; have %d items, %v", t, until, len(out), err)
	}
	return out
}

func (w *world) auditClean(t subjects.Turn) audit.Verdict {
	w.t.Helper()
	var v audit.Verdict
	for range 100 { // outputs may still be under way
		var err error
		if v, err = audit.Turn(context.Background(), w.conn, partitions, t); err != nil {
			w.t.Fatal(err)
		}
		if !v.OK || v.UnderWay == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !v.OK || v.UnderWay != 0 {
		w.t.Fatalf("audit of %s: %+v", t, v)
	}
	w.auditAll()
	return v
}

// auditAll reads whole partitions, which must come to the same as turn by turn.
func (w *world) auditAll() {
	w.t.Helper()
	var bad []audit.Verdict
	r, err := audit.Log{Conn: w.conn, Partitions: partitions}.All(context.Background(), audit.Scan{Each: func(v audit.Verdict) {
		if !v.OK {
			bad = append(bad, v)
		}
	}})
	if err != nil || !r.OK {
		w.t.Fatalf("audit of all: %+v, %+v, %v", r, bad, err)
	}
}

func opened() *event.TurnOpened {
	return &event.TurnOpened{At: time.Now().UTC().Format(time.RFC3339Nano), Digest: "d", Route: "default",
		Messages: []event.Message{{Role: "user", Content: "hi"}},
		Entries:  []event.Entry{{Provider: "main", API: "openai-chat", Model: "m"}},
		Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, BackoffBaseMS: 10, BackoffMaxMS: 20, RetryAfterMaxMS: 1000,
			AfterText: "reset", CallsPerTurn: 8, DeadlineMS: 60_000, AliveMS: 5000, PatienceMS: 10_000}}
}

// attempt is the events of one attempt with this text; finish says how it ends.
func attempt(step, n int, token, text string, finish bool) []event.Body {
	out := []event.Body{&event.AttemptStarted{Step: step, Attempt: n, Token: token, Provider: "main", API: "openai-chat", Model: "m"}}
	ord := 0
	at := func() event.At { ord++; return event.At{Step: step, Attempt: n, Token: token, Ord: ord - 1} }
	for _, r := range text {
		out = append(out, &event.TextDelta{At: at(), Text: string(r)})
	}
	if finish {
		return append(out, &event.AttemptFinished{At: at(), Finish: "stop"})
	}
	return append(out, &event.AttemptFailed{At: at(), Class: event.Connection, Retryable: true})
}

func turn(id string) subjects.Turn { return subjects.Turn{Tenant: subjects.LocalTenant, ID: id} }

func text(t *testing.T, items []feed.Output) string {
	t.Helper()
	for _, o := range items {
		if c, ok := o.Body.(*feed.Completion); ok {
			return c.Text
		}
	}
	t.Fatal("no completion")
	return ""
}

func TestTurnRunsToItsSavedMessage(t *testing.T) {
	w := newWorld(t)
	defer w.reduce("a")()
	one := turn("one")
	w.open(one)
	w.tell(one, attempt(1, 1, "t1", "Hel", false)...)
	w.tell(one, attempt(1, 2, "t2", "Hello.", true)...)
	items := w.feed(one, "message_saved")
	if got := text(t, items); got != "Hello." {
		t.Errorf("completion %q", got)
	}
	w.auditClean(one)
	val, _, ok, err := w.conn.Bucket(subjects.BucketMessages).Get(context.Background(), "local.one")
	if err != nil || !ok {
		t.Fatalf("message store: %q %v %v", val, ok, err)
	}
	w.eventuallyClosed(one)
}

func (w *world) eventuallyClosed(t subjects.Turn) {
	w.t.Helper()
	r := turns.NewReader(w.conn, partitions)
	deadline := time.Now().Add(time.Minute)
	for {
		open, err := r.Open(context.Background(), -1)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(open) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("still in the index of open turns: %v", open)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestTakeoverAtEveryOutput stops and starts the owner after every event of a turn;
// what it writes must not show where it was interrupted.
func TestTakeoverAtEveryOutput(t *testing.T) {
	w := newWorld(t)
	one := turn("one")
	events := append(attempt(1, 1, "t1", "ab", false), attempt(1, 2, "t2", "abcd", true)...)
	w.open(one)
	for _, e := range events {
		stop := w.reduce("a")
		w.tell(one, e)
		time.Sleep(15 * time.Millisecond) // sometimes before, sometimes after it is folded
		stop()
	}
	defer w.reduce("b")()
	if got := text(t, w.feed(one, "message_saved")); got != "abcd" {
		t.Errorf("completion %q", got)
	}
	w.auditClean(one)
}

// TestTwoOwnersAtOnce runs two reducers that both hold every lease, because they claim
// to be the same host; the fence alone must keep OUT right.
func TestTwoOwnersAtOnce(t *testing.T) {
	w := newWorld(t)
	stopA, stopB := w.reduce("same"), w.reduce("same")
	var all []subjects.Turn
	for i := range 20 {
		one := turn(fmt.Sprint("turn-", i))
		all = append(all, one)
		w.open(one)
		w.tell(one, attempt(1, 1, "t1", "half", false)...)
		w.tell(one, attempt(1, 2, "t2", "the whole answer", true)...)
	}
	for _, one := range all {
		if got := text(t, w.feed(one, "message_saved")); got != "the whole answer" {
			t.Errorf("%s: completion %q", one, got)
		}
		w.auditClean(one)
	}
	stopA()
	stopB()
}

func TestPoisonedEventStopsNobody(t *testing.T) {
	w := newWorld(t)
	defer w.reduce("a")()
	one, two := turn("one"), turn("two")
	w.open(one)
	w.open(two)
	for _, bad := range []string{"", "{", `{"v":1}`, `{"v":1,"kind":"text.delta","ord":"x"}`, `[1]`, `{"v":1,"kind":"made.up","x":1}`} {
		p := one.Partition(partitions)
		if _, err := w.conn.Publish(context.Background(), subjects.Events(p, one), nil, []byte(bad)); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []subjects.Turn{one, two} {
		w.tell(x, attempt(1, 1, "t", "fine", true)...)
		if got := text(t, w.feed(x, "message_saved")); got != "fine" {
			t.Errorf("%s: completion %q", x, got)
		}
		w.auditClean(x)
	}
	s, err := turns.NewReader(w.conn, partitions).Load(context.Background(), one, 0)
	if err != nil || s.Skipped != 6 {
		t.Errorf("skipped %d events of 6: %v", s.Skipped, err)
	}
}

// TestRewind loses the end of EV and keeps OUT: the owner must take back what was said
// of the lost events and go on from what there is.
func TestRewind(t *testing.T) {
	w := newWorld(t)
	stop := w.reduce("a")
	kept, lost, late := turn("kept"), turn("gone"), turn("later")
	w.open(kept)
	w.tell(kept, attempt(1, 1, "t1", "first", false)...)
	w.waitFor(kept, "reset")
	stop()
	w.down()
	old := filepath.Join(t.TempDir(), "old")
	copyTree(t, w.dir, old)
	w.up()
	stop = w.reduce("a")
	w.tell(kept, attempt(1, 2, "t2", "will be lost", true)...)
	w.feed(kept, "message_saved")
	w.open(lost)
	w.tell(lost, attempt(1, 1, "x", "never was", true)...)
	w.feed(lost, "message_saved")
	stop()
	w.down()
	for p := range partitions { // EV as it was, OUT as it is
		swapStream(t, w.dir, old, subjects.EventsStream(p))
	}
	w.up()
	defer w.reduce("b")()
	w.open(late)
	w.tell(kept, attempt(1, 2, "t3", "second", true)...)
	w.tell(late, attempt(1, 1, "y", "new", true)...)
	if got := text(t, w.feed(late, "message_saved")); got != "new" {
		t.Errorf("later turn: %q", got)
	}
	w.feed(lost, "error")
	shown := w.follow(kept)
	if shown != "second" {
		t.Errorf("a follower of the whole feed shows %q", shown)
	}
	w.auditClean(kept)
	w.auditClean(late)
}

func (w *world) waitFor(t subjects.Turn, typ string) { w.t.Helper(); w.feed(t, typ) }

// follow renders a whole feed, and waits for its last message_saved by text.
func (w *world) follow(t subjects.Turn) string {
	w.t.Helper()
	p := t.Partition(partitions)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shown, saved := map[int]string{}, false
	_ = w.conn.Tail(ctx, subjects.OutputsStream(p), []string{subjects.Out(p, t, subjects.LaneFeed)}, 1, func(m jet.Msg) error {
		o, err := feed.Decode(m.Data)
		if err != nil {
			return err
		}
		switch b := o.Body.(type) {
		case *feed.TextDelta:
			shown[o.Step] += b.Text
		case *feed.Reset:
			if o.Step == 0 {
				clear(shown)
				saved = false
			}
			delete(shown, o.Step)
		case *feed.MessageSaved:
			saved = true
			if shown[1] == "second" {
				cancel()
			}
		}
		return nil
	})
	if !saved {
		w.t.Error("no message_saved after the rewind")
	}
	return shown[1]
}
