package tool

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnfold/turnfold/subjects/effect"
)

// hangUp cuts the connection that a request came on.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// However the answer of a call is lost, the call is sent once.
func TestMCPNeverSendsAgain(t *testing.T) {
	event := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	for _, c := range []struct {
		name  string
		spoil func(w http.ResponseWriter)
		class string
		want  effect.Outcome
	}{
		{"reset before an answer", hangUp, ClassConnection, effect.Unknown},
		{"stream without a result", func(w http.ResponseWriter) { event(w, ": hello\n\n") }, ClassConnection, effect.Unknown},
		{"stream cut", func(w http.ResponseWriter) { event(w, "data: {\"jso"); hangUp(w) }, ClassConnection, effect.Unknown},
		{"resumable stream cut", func(w http.ResponseWriter) { event(w, "id: 7_1\nretry: 10\ndata:\n\n"); hangUp(w) }, "", effect.Unknown},
		{"half an answer", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"jsonrpc"`)
		}, ClassConnection, effect.Unknown},
		{"no JSON", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `<html>`)
		}, ClassConnection, effect.Unknown},
		{"500", func(w http.ResponseWriter) { w.WriteHeader(500) }, "http_500", effect.Unknown},
		{"503", func(w http.ResponseWriter) { w.WriteHeader(503) }, "http_503", effect.Unknown},
		{"429", func(w http.ResponseWriter) { w.WriteHeader(429) }, "http_429", effect.Failed},
		{"409", func(w http.ResponseWriter) { w.WriteHeader(409) }, "http_409", effect.Unknown},
		{"403", func(w http.ResponseWriter) { w.WriteHeader(403) }, "http_403", effect.Failed},
		{"redirect", func(w http.ResponseWriter) { w.Header().Set("Location", "/again"); w.WriteHeader(307) }, "http_307", effect.Failed},
		{"accepted", func(w http.ResponseWriter) { w.WriteHeader(202) }, ClassConnection, effect.Unknown},
		{"refused", func(w http.ResponseWriter) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"no"}}`)
		}, "rpc_32600", effect.Failed},
		{"asks back", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":%ID%,"result":{"resultType":"input_required","inputRequests":{},"content":[]}}`)
		}, ClassInputRequired, effect.Unknown},
	} {
		for _, class := range []effect.Class{effect.Keyed, effect.Once} {
			t.Run(c.name+" "+string(class), func(t *testing.T) {
				t.Parallel()
				b := startBroker(t, nil, func(n int, w http.ResponseWriter, serve func()) {
					if n != 2 {
						serve()
						return
					}
					c.spoil(&stamper{ResponseWriter: w})
				})
				d := mcpTool(b.server(), "echo", class)
				d.Timeout = 2 * time.Second
				r := newRunner(t, d, RunnerConfig{})
				check(t, r.Run(t.Context(), mcpCall(`{}`)), effect.Succeeded, "", true)
				got := r.Run(t.Context(), mcpCall(`{}`))
				want := c.class
				if want == "" {
					want = got.ErrorClass // whether the server or the clock ends it
				}
				check(t, got, c.want, want, true)
				if n := b.seen(); n != 2 {
					t.Errorf("%d calls were sent, want 2", n)
				}
				check(t, r.Run(t.Context(), mcpCall(`{}`)), effect.Succeeded, "", true)
				if len(b.keys) > 0 {
					t.Errorf("the key was sent with %v", b.keys)
				}
			})
		}
	}
}

// stamper puts the id of the second call of a session into an answer.
type stamper struct{ http.ResponseWriter }

func (s *stamper) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stamper) Write(p []byte) (int, error) {
	n := len(p)
	_, err := s.ResponseWriter.Write(bytes.ReplaceAll(p, []byte("%ID%"), []byte("4")))
	return n, err
}

// A server that restarted knows no session. It says so before it calls a tool, so the
// call goes to a new session.
func TestMCPSessionGone(t *testing.T) {
	b := startBroker(t, nil, func(n int, w http.ResponseWriter, serve func()) {
		if n == 2 || n == 4 || n == 5 {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		serve()
	})
	r := newRunner(t, mcpTool(b.server(), "echo", effect.Once), RunnerConfig{})
	check(t, r.Run(t.Context(), mcpCall(`{}`)), effect.Succeeded, "", true)
	check(t, r.Run(t.Context(), mcpCall(`{}`)), effect.Succeeded, "", true)
	check(t, r.Run(t.Context(), mcpCall(`{}`)), effect.Failed, "http_404", true)
	if n := b.seen(); n != 5 {
		t.Errorf("%d calls", n)
	}
}

// A server that keeps what it said lets the SDK fetch the answer of a call whose
// connection was cut. It is fetched, not asked for again.
func TestMCPResumes(t *testing.T) {
	b := startBroker(t, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}, nil)
	b.spoil = func(n int, w http.ResponseWriter, serve func()) {
		if n == 1 {
			time.AfterFunc(100*time.Millisecond, b.cut)
		}
		serve()
	}
	d := mcpTool(b.server(), "slow", effect.Once)
	d.Timeout = 20 * time.Second
	got := newRunner(t, d, RunnerConfig{}).Run(t.Context(), mcpCall(`{}`))
	if check(t, got, effect.Succeeded, "", true); got.Body != "done" || b.seen() != 1 || b.gets == 0 {
		t.Errorf("%q after %d calls and %d fetches", got.Body, b.seen(), b.gets)
	}
}

// Whatever the SDK should ever try by itself, a call leaves once.
func TestMCPSecondSendIsRefused(t *testing.T) {
	b := startBroker(t, nil, nil)
	for way, server := range map[string]*MCPServer{"http": b.server(), "stdio": stdioServer(t, "tools")} {
		r := newRunner(t, mcpTool(server, "echo", effect.Once), RunnerConfig{}).(*mcpRunner)
		s, err := r.link.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := r.flight(aCall())
		if err := s.call(t.Context(), f, "echo", nil, map[string]any{}); err != nil {
			t.Fatal(err)
		}
		if err := s.call(t.Context(), f, "echo", nil, map[string]any{}); err == nil || !strings.Contains(err.Error(), errResent.Message) {
			t.Errorf("%s: a second send ended in %v", way, err)
		}
		check(t, r.Run(t.Context(), mcpCall(`{}`)), effect.Succeeded, "", true) // the session goes on
	}
	if n := b.seen(); n != 2 {
		t.Errorf("%d calls were sent, want 2", n)
	}
}
