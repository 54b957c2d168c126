package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const testPartitions = 2

// world is a log, an owner of its partitions, and a gateway, over real sockets.
type world struct {
	t      testing.TB
	conn   *jet.Conn
	turns  *turns.Reader
	g      *Gateway
	base   string
	client *http.Client

	mu      sync.Mutex
	streams map[string]bool // turns whose attempts run by themselves
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	return newWorldOn(t, embed.Config{}, change)
}

// newWorldOn is newWorld on a server of this configuration.
func newWorldOn(t testing.TB, server embed.Config, change func(*Config)) *world {
	t.Helper()
	server.StoreDir, server.Log = t.TempDir(), zerolog.Nop()
	srv, err := embed.Start(server)
	must(t, err)
	t.Cleanup(srv.Shutdown)
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := jet.Connect(ctx, jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Log: zerolog.Nop()})
	must(t, err)
	must(t, conn.Ensure(ctx, subjects.Layout{Partitions: testPartitions, Replicas: 1}))
	w := &world{t: t, conn: conn, turns: turns.NewReader(conn, testPartitions), streams: map[string]bool{}}
	cfg := Config{
		Conn: conn, Turns: w.turns, Partitions: testPartitions, Log: zerolog.Nop(),
		Routes: map[string][]event.Entry{routeDefault: {{Provider: "main", API: "openai-chat", Model: "m"}}},
		Tools:  []event.Tool{{Name: "issue_refund", Effect: "keyed", IdentityAll: true, Repeat: "never", TimeoutMS: 1000, Cap: 2, Approval: "always"}, {Name: "find", Effect: "read", Repeat: "per_call", TimeoutMS: 1000, Cap: 2}},
		Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, BackoffBaseMS: 1, BackoffMaxMS: 2, AfterText: "reset", CallsPerTurn: 8, DeadlineMS: 600_000, AliveMS: 5000, PatienceMS: 10_000},
	}
	if change != nil {
		change(&cfg)
	}
	w.g, err = New(cfg)
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.g.Run(ctx) })
	for p := range testPartitions {
		wg.Go(func() { w.own(ctx, p) })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	hs := &http.Server{Handler: w.g.Handler(), ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(128 << 10) // so that a slow reader is felt soon
		return ctx
	}}
	wg.Go(func() { _ = hs.Serve(l) })
	w.base = "http://" + l.Addr().String()
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	t.Cleanup(func() {
		cancel()
		w.client.CloseIdleConnections()
		must(t, hs.Close())
		must(t, conn.Close(context.Background()))
		wg.Wait()
	})
	return w
}

// own folds a partition, runs the attempts of turns in streams, and saves messages.
func (w *world) own(ctx context.Context, p int) {
	states := map[subjects.Turn]fold.State{}
	_ = w.conn.Tail(ctx, subjects.EventsStream(p), nil, 1, func(m jet.Msg) error {
		_, t, err := subjects.ParseEvents(m.Subject)
		if err != nil {
			return err
		}
		e, _ := turns.Decode(t, m)
		s, ok := states[t]
		if !ok {
			s = fold.State{Turn: t}
		}
		s, outs, _ := fold.Guarded(s, e)
		states[t] = s
		for _, o := range outs {
			data, err := feed.Encode(o)
			if err != nil {
				return err
			}
			if _, err := w.conn.Publish(ctx, subjects.Out(p, t, o.Body.Lane()), nil, data); err != nil {
				return err
			}
			switch b := o.Body.(type) {
			case *feed.StepCommand:
				if w.auto(t.ID) {
					w.attempt(t, o.Step, o.Attempt, strings.SplitAfter("Here is turn "+t.ID+" for you. ", " ")...)
				}
			case *feed.Completion:
				w.event(t, &event.MessageSaved{MessageID: "msg_" + b.Finish})
			}
		}
		return nil
	})
}

func (w *world) auto(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[id] || strings.HasPrefix(id, "auto-")
}

func (w *world) event(t subjects.Turn, b event.Body) {
	data, err := event.Encode(b)
	if err == nil {
		_, err = w.conn.Publish(context.Background(), subjects.Events(t.Partition(testPartitions), t), nil, data)
	}
	if err != nil {
		w.t.Error(err)
	}
}

func local(id string) subjects.Turn { return subjects.Turn{Tenant: subjects.LocalTenant, ID: id} }

func (w *world) start(t subjects.Turn, step, attempt int) event.At {
	at := event.At{Step: step, Attempt: attempt, Token: fmt.Sprintf("k-%d-%d", step, attempt)}
	w.event(t, &event.AttemptStarted{Step: step, Attempt: attempt, Token: at.Token, Provider: "main"})
	return at
}

func (w *world) say(t subjects.Turn, at *event.At, texts ...string) {
	for _, s := range texts {
		if s == "" {
			continue
		}
		w.event(t, &event.TextDelta{At: *at, Text: s})
		at.Ord++
	}
}

// attempt runs a whole attempt that says these texts.
func (w *world) attempt(t subjects.Turn, step, attempt int, texts ...string) {
	at := w.start(t, step, attempt)
	w.say(t, &at, texts...)
	w.event(t, &event.AttemptFinished{At: at, Finish: "stop"})
}

func (w *world) do(method, path, body string, header ...string) *http.Response {
	w.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, w.base+path, rd)
	must(w.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := w.client.Do(req)
	must(w.t, err)
	return res
}

// call reads a whole answer.
func (w *world) call(method, path, body string, header ...string) (int, http.Header, string) {
	w.t.Helper()
	res := w.do(method, path, body, header...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(w.t, err)
	return res.StatusCode, res.Header, string(data)
}

// items parses an NDJSON answer, pings left out.
func items(t testing.TB, body string) []feed.Output {
	t.Helper()
	var out []feed.Output
	for line := range strings.Lines(body) {
		o, err := feed.Decode([]byte(strings.TrimSpace(line)))
		must(t, err)
		if o.Body.Type() != "ping" {
			out = append(out, o)
		}
	}
	return out
}

func ids(list []feed.Output) []string {
	var out []string
	for _, o := range list {
		out = append(out, o.ID)
	}
	return out
}

func shown(list []feed.Output) string {
	var r render.Renderer
	for _, o := range list {
		r.Apply(o)
	}
	return r.Text()
}

// nextItem reads one item of an open NDJSON answer, pings left out.
func nextItem(t testing.TB, r *bufio.Reader) feed.Output {
	t.Helper()
	for {
		line, err := r.ReadBytes('\n')
		must(t, err)
		o, err := feed.Decode(bytes.TrimSpace(line))
		must(t, err)
		if o.Body.Type() != "ping" {
			return o
		}
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return string(data)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t testing.TB, what string, f func() bool) {
	t.Helper()
	until := time.Now().Add(time.Minute)
	for !f() {
		if time.Now().After(until) {
			t.Fatalf("%s: not within a minute", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }
