package streamer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Started once per process by the log's server, and never stopped.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*ipQueue[...]).push"))
}

// testWait bounds every wait of a test; only a failing test reaches it.
const testWait = time.Minute // only a failing test waits so long

const testPartitions = 2

// world is a log with a small reducer, for streamers to work in.
type world struct {
	t     testing.TB
	cfg   embed.Config
	mu    sync.Mutex
	srv   *embed.Server
	conn  *jet.Conn
	turns *turns.Reader

	seen   []event.Event // of all turns, as the log has them
	when   []time.Time   // of their arrival here
	change chan struct{}
	states map[subjects.Turn]fold.State
	// hold keeps commands back from OUT.
	hold bool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, cfg: embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()},
		change: make(chan struct{}), states: map[subjects.Turn]fold.State{}}
	w.start()
	w.cfg.Port = w.srv.Port()
	t.Cleanup(func() { w.srv.Shutdown() })
	w.conn = w.connect()
	if err := w.conn.Ensure(w.context(), subjects.Layout{Partitions: testPartitions, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	w.turns = turns.NewReader(w.conn, testPartitions)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for p := range testPartitions {
		wg.Go(func() {
			if err := w.conn.Tail(ctx, subjects.EventsStream(p), nil, 1, func(m jet.Msg) error { return w.reduce(ctx, p, m) }); err != nil {
				t.Errorf("reducer: %v", err)
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

func (w *world) start() {
	srv, err := embed.Start(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.srv = srv
}

func (w *world) connect() *jet.Conn {
	w.t.Helper()
	c, err := jet.Connect(w.context(), jet.Config{URL: w.srv.URL(), User: w.srv.User(), Password: w.srv.Password()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testWait)
	w.t.Cleanup(cancel)
	return ctx
}

// reduce is the reducer: the fold, and its step lane on OUT.
func (w *world) reduce(ctx context.Context, p int, m jet.Msg) error {
	_, turn, err := subjects.ParseEvents(m.Subject)
	if err != nil {
		return err
	}
	e, err := turns.Decode(turn, m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	s, ok := w.states[turn]
	if !ok {
		s.Turn = turn
	}
	next, outs := fold.Apply(s, e)
	w.states[turn] = next
	w.seen, w.when = append(w.seen, e), append(w.when, time.Now())
	close(w.change)
	w.change = make(chan struct{})
	hold := w.hold
	w.mu.Unlock()
	for _, o := range outs {
		if o.Body.Lane() == subjects.LaneStep && !hold {
			w.command(ctx, p, turn, o)
		}
	}
	return nil
}

func (w *world) command(ctx context.Context, p int, turn subjects.Turn, o feed.Output) {
	data, err := feed.Encode(o)
	if err != nil {
		w.t.Error(err)
	}
	for ctx.Err() == nil {
		if _, err = w.conn.Publish(ctx, subjects.Out(p, turn, o.Body.Lane()), nil, data); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// until waits for the first events that satisfy enough.
func (w *world) until(what string, enough func([]event.Event) bool) []event.Event {
	w.t.Helper()
	deadline := time.After(testWait)
	for {
		w.mu.Lock()
		seen, change := w.seen[:len(w.seen):len(w.seen)], w.change
		w.mu.Unlock()
		if enough(seen) {
			return seen
		}
		select {
		case <-change:
		case <-deadline:
			w.t.Fatalf("%s: after %s there is\n%s", what, testWait, kinds(seen))
		}
	}
}

func (w *world) untilKind(kind string, n int) []event.Event {
	w.t.Helper()
	return w.until(fmt.Sprintf("%d %s", n, kind), func(seen []event.Event) bool { return count(seen, kind) >= n })
}

func count(seen []event.Event, kind string) int {
	n := 0
	for _, e := range seen {
		if e.Body.Kind() == kind {
			n++
		}
	}
	return n
}

func kinds(seen []event.Event) string {
	var b strings.Builder
	for _, e := range seen {
		data, _ := json.Marshal(e.Body)
		fmt.Fprintf(&b, "%d %s %.200s\n", e.Seq, e.Body.Kind(), data)
	}
	return b.String()
}

func (w *world) state(t subjects.Turn) fold.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.states[t]
}

// publish puts a body on a turn's subject.
func (w *world) publish(t subjects.Turn, b event.Body) uint64 {
	w.t.Helper()
	data, err := event.Encode(b)
	if err != nil {
		w.t.Fatal(err)
	}
	seq, err := w.conn.Publish(w.context(), subjects.Events(t.Partition(testPartitions), t), nil, data)
	if err != nil {
		w.t.Fatal(err)
	}
	return seq
}

// turn opens a turn with a fast policy; change may alter it.
func (w *world) turn(id string, change func(*event.TurnOpened)) subjects.Turn {
	w.t.Helper()
	t := subjects.Turn{Tenant: "acme", ID: id}
	if err := w.turns.MarkOpen(w.context(), t); err != nil {
		w.t.Fatal(err)
	}
	o := &event.TurnOpened{
		At: "2026-01-01T00:00:00Z", Digest: "d", System: "Be brief.", Route: "default",
		Messages: []event.Message{{Role: "user", Content: "Where is my parcel?"}},
		Entries:  []event.Entry{{Provider: "main", API: openaichat.Name, Model: "m-small"}},
		Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, BackoffBaseMS: 4, BackoffMaxMS: 8, RetryAfterMaxMS: 1000,
			AfterText: "reset", CallsPerTurn: 8, DeadlineMS: 60000, AliveMS: 5000, PatienceMS: 30000},
	}
	if change != nil {
		change(o)
	}
	w.publish(t, o)
	return t
}

// streamer makes one that asks the provider at url; change may alter it.
func (w *world) streamer(url string, change func(*Config)) *Streamer {
	w.t.Helper()
	cfg := Config{
		Conn: w.conn, Turns: w.turns, Partitions: testPartitions, Instance: "host-1", Incarnation: "now",
		Providers: map[string]Provider{"main": {API: openaichat.API{}, Endpoint: func() (provider.Endpoint, error) {
			return provider.Endpoint{BaseURL: url, Key: "k"}, nil
		}}},
		Log: zerolog.New(io.Discard),
	}
	if os.Getenv("STREAMER_TEST_LOG") != "" {
		cfg.Log = zerolog.New(os.Stderr).With().Timestamp().Logger()
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// run runs a streamer until stop, or the test's end.
func (w *world) run(s *Streamer) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("run: %v", err)
			}
		})
	}
	w.t.Cleanup(stop)
	return stop
}

// stream gives an attempt's model stream in order, repeats dropped, and fails on a gap.
func stream(t testing.TB, seen []event.Event, turn subjects.Turn, step, attempt int) []event.Body {
	t.Helper()
	var out []event.Body
	token := ""
	for _, e := range seen {
		if e.Turn != turn {
			continue
		}
		if s, ok := e.Body.(*event.AttemptStarted); ok && s.Step == step && s.Attempt == attempt {
			if token != "" {
				t.Fatalf("step %d attempt %d was opened twice", step, attempt)
			}
			token = s.Token
		}
		b, ok := e.Body.(event.Streamed)
		if !ok || b.Place().Step != step || b.Place().Attempt != attempt {
			continue
		}
		if at := b.Place(); at.Token != token {
			t.Fatalf("%s at %d has token %q, opened by %q", e.Body.Kind(), e.Seq, at.Token, token)
		} else if at.Ord > len(out) {
			t.Fatalf("ord %d after %d at %d", at.Ord, len(out)-1, e.Seq)
		} else if at.Ord == len(out) {
			out = append(out, b)
		}
	}
	return out
}

func textIn(bodies []event.Body) string {
	var out strings.Builder
	for _, b := range bodies {
		if d, ok := b.(*event.TextDelta); ok {
			out.WriteString(d.Text)
		}
	}
	return out.String()
}

// Chunks of a Chat Completions stream.
func says(text string) []byte { return chunk(fmt.Sprintf(`{"content":%q}`, text), "null") }

func calls(index int, id, name, args string) []byte {
	quoted, _ := json.Marshal(args)
	return chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]}`,
		index, id, name, quoted), "null")
}

func adds(index int, args string) []byte {
	quoted, _ := json.Marshal(args)
	return chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, index, quoted), "null")
}

func stops(reason string) []byte {
	return []byte(string(chunk(`{}`, `"`+reason+`"`)) +
		`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}` + "\n\ndata: [DONE]\n\n")
}

func chunk(delta, finish string) []byte {
	return []byte(`data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n")
}
