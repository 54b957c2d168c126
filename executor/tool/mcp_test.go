package tool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnfold/turnfold/subjects/effect"
)

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }

func mcpCall(args string) Call {
	c := aCall()
	c.Args = args
	return c
}

// servers are the ways to reach the same tools.
func servers(t *testing.T) map[string]*MCPServer {
	return map[string]*MCPServer{
		"stdio":     stdioServer(t, "tools"),
		"stateful":  startBroker(t, nil, nil).server(),
		"json":      startBroker(t, &mcp.StreamableHTTPOptions{JSONResponse: true}, nil).server(),
		"stateless": startBroker(t, &mcp.StreamableHTTPOptions{Stateless: true}, nil).server(),
	}
}

func TestMCPCalls(t *testing.T) {
	for way, server := range servers(t) {
		t.Run(way, func(t *testing.T) {
			server.HeadersEnv = map[string]string{"Authorization": "AUTH"}
			cfg := RunnerConfig{Env: func(k string) (string, bool) { return "secret", k == "AUTH" }, links: &links{}}
			run := func(name, args string, class effect.Class, change func(m *MCP)) Result {
				d := mcpTool(server, name, class)
				if change != nil {
					change(d.Run.MCP)
				}
				return newRunner(t, d, cfg).Run(t.Context(), mcpCall(args))
			}
			args, wants := `{"b": 9007199254740993, "a": 49.00, "c": "<é\u0041>", "d": 1e400}`, []string{"9007199254740993", "49.00", "1e400"}
			if way == "stateless" { // this server refuses what is too large for a float
				args, wants = strings.Replace(args, "1e400", "1e300", 1), wants[:2]
			}
			head := ""
			if server.URL != "" {
				head = "tfk1_k 1.0 secret"
			}
			got := run("echo", args, effect.Keyed, nil)
			check(t, got, effect.Succeeded, "", true)
			for _, want := range append(wants, "|tfk1_k|"+head) {
				if !strings.Contains(got.Body, want) {
					t.Errorf("%q has no %q", got.Body, want)
				}
			}
			got = run("echo", `{"a":1 }`, effect.Once, func(m *MCP) { m.KeyMeta, m.KeyHeader, m.KeyArgument = false, false, "key" })
			if !strings.HasPrefix(got.Body, `{"a":1,"key":"tfk1_k"}|<nil>|`) || strings.Contains(strings.Split(got.Body, "|")[2], "tfk1_k") {
				t.Errorf("key as argument: %q", got.Body)
			}
			if got = run("echo", ` `, effect.Keyed, func(m *MCP) { m.KeyArgument = "key" }); !strings.HasPrefix(got.Body, `{"key":"tfk1_k"}|`) {
				t.Errorf("no arguments: %q", got.Body)
			}
			check(t, run("echo", `{"k\u0065y":"mine"}`, effect.Keyed, func(m *MCP) { m.KeyArgument = "key" }), effect.Failed, ClassArguments, false)
			check(t, run("echo", `[1]`, effect.Keyed, nil), effect.Failed, ClassArguments, false)
			if got = run("exact", `{}`, effect.Read, nil); got.Body != `{"id":9007199254740993,"sum":49.00}` {
				t.Errorf("structured %q", got.Body)
			}
			if got = run("image", `{}`, effect.Read, nil); !strings.HasPrefix(got.Body, `{"content":[{"type":"text","text":"a"},{"type":"image"`) {
				t.Errorf("image %q", got.Body)
			}
			check(t, run("broken", `{}`, effect.Read, nil), effect.Failed, ClassTool, true)
			check(t, run("broken", `{}`, effect.Keyed, nil), effect.Unknown, ClassTool, true)
			check(t, run("broken", `{}`, effect.Once, nil), effect.Unknown, ClassTool, true)
			got = run("classed", `{}`, effect.Once, func(m *MCP) { m.ErrorsFail = true })
			check(t, got, effect.Failed, "no_order", true)
			if got = run("broken", `{}`, effect.Keyed, nil); got.Body != "no such order" {
				t.Errorf("body %q", got.Body)
			}
			check(t, run("absent", `{}`, effect.Read, nil), effect.Failed, "rpc_32602", true)
			check(t, run("absent", `{}`, effect.Once, nil), effect.Unknown, "rpc_32602", true)
		})
	}
}

func TestMCPProgressAndEnds(t *testing.T) {
	for way, server := range servers(t) {
		t.Run(way, func(t *testing.T) {
			r := newRunner(t, mcpTool(server, "slow", effect.Keyed), RunnerConfig{})
			var mu sync.Mutex
			var heard []string
			over := false
			c := mcpCall(`{}`)
			c.Progress = func(message string, percent int) {
				mu.Lock()
				defer mu.Unlock()
				if over {
					t.Error("progress after the end")
				}
				heard = append(heard, fmt.Sprintf("%s %d%%", message, percent))
			}
			check(t, r.Run(t.Context(), c), effect.Succeeded, "", true)
			mu.Lock()
			over = true
			if got := strings.Join(heard, ", "); got != "part 1 25%, part 2 50%" && way != "json" {
				t.Errorf("heard %q", got)
			}
			mu.Unlock()

			endless := newRunner(t, mcpTool(server, "endless", effect.Keyed), RunnerConfig{})
			c = mcpCall(`{}`)
			c.Timeout = 500 * time.Millisecond
			check(t, endless.Run(t.Context(), c), effect.Unknown, ClassTimeout, true)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(500*time.Millisecond, func() { cancel(ErrInterrupted) })
			check(t, endless.Run(ctx, mcpCall(`{}`)), effect.Unknown, ClassInterrupted, true)
			check(t, endless.Run(ctx, mcpCall(`{}`)), effect.Failed, ClassInterrupted, false)
			check(t, r.Run(t.Context(), mcpCall(`{}`)), effect.Succeeded, "", true)
		})
	}
}

// What a server says after it was told to stop may tell how its tool stopped in the
// middle: only a success is believed, whatever the declaration says of errors.
func TestMCPErrorAfterTheStop(t *testing.T) {
	r := newRunner(t, &Declaration{Name: "pay", Effect: effect.Once, Run: Run{MCP: &MCP{
		Server: &MCPServer{Name: "x", Argv: []string{"./not-there"}}, Tool: "pay", ErrorsFail: true}}}, RunnerConfig{}).(*mcpRunner)
	stopped, stop := context.WithCancelCause(t.Context())
	stop(ErrInterrupted)
	late, done := context.WithTimeoutCause(t.Context(), 0, errTimeout)
	defer done()
	refusal := &jsonrpc.Error{Code: -32601, Message: "cancelled"}
	for _, c := range []struct {
		ctx     context.Context
		answer  flightAnswer
		outcome effect.Outcome
		class   string
	}{
		{t.Context(), flightAnswer{raw: []byte(`{"isError":true,"content":[]}`)}, effect.Failed, ClassTool},
		{late, flightAnswer{raw: []byte(`{"isError":true,"content":[]}`)}, effect.Unknown, ClassTimeout},
		{stopped, flightAnswer{raw: []byte(`{"isError":true,"content":[]}`)}, effect.Unknown, ClassInterrupted},
		{stopped, flightAnswer{raw: []byte(`{"content":[{"type":"text","text":"paid"}]}`)}, effect.Succeeded, ""},
		{t.Context(), flightAnswer{fault: refusal}, effect.Failed, "rpc_32601"},
		{late, flightAnswer{fault: refusal}, effect.Unknown, ClassTimeout},
		{t.Context(), flightAnswer{status: 404}, effect.Failed, "http_404"},
		{stopped, flightAnswer{status: 404}, effect.Unknown, ClassInterrupted},
	} {
		f := r.flight(mcpCall(`{}`))
		f.sent, f.answer = true, c.answer
		check(t, r.result(c.ctx, f, nil), c.outcome, c.class, true)
	}
}

// A server program that dies in a call leaves the call unknown; the next call gets a
// new one.
func TestMCPProgramDies(t *testing.T) {
	server, cfg := stdioServer(t, "tools"), RunnerConfig{links: &links{}}
	die := newRunner(t, mcpTool(server, "die", effect.Keyed), cfg)
	echo := newRunner(t, mcpTool(server, "echo", effect.Keyed), cfg)
	for range 3 {
		check(t, echo.Run(t.Context(), mcpCall(`{}`)), effect.Succeeded, "", true)
		check(t, die.Run(t.Context(), mcpCall(`{}`)), effect.Unknown, ClassConnection, true)
	}
}

func TestMCPProgramsThatDoNotAnswer(t *testing.T) {
	started := time.Now()
	for _, c := range []struct {
		mode, class string
		outcome     effect.Outcome
		ran         bool
	}{
		{"mute", ClassConnection, effect.Failed, false},
		{"fails", ClassConnection, effect.Failed, false},
		{"deaf", ClassTimeout, effect.Unknown, true},
	} {
		d := mcpTool(stdioServer(t, c.mode), "echo", effect.Keyed)
		d.Timeout = time.Second
		got := newRunner(t, d, RunnerConfig{}).Run(t.Context(), mcpCall(`{"a":"`+strings.Repeat("x", 1<<20)+`"}`))
		check(t, got, c.outcome, c.class, c.ran)
		if c.mode == "fails" && !strings.Contains(got.Detail, "no licence") {
			t.Errorf("detail %q", got.Detail)
		}
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
	d := mcpTool(&MCPServer{Name: "x", Argv: []string{"./not-there"}}, "echo", effect.Once)
	check(t, newRunner(t, d, RunnerConfig{}).Run(t.Context(), mcpCall(`{}`)), effect.Failed, ClassNotStarted, false)
	d = mcpTool(&MCPServer{Name: "x", URL: "http://127.0.0.1:1"}, "echo", effect.Once)
	check(t, newRunner(t, d, RunnerConfig{}).Run(t.Context(), mcpCall(`{}`)), effect.Failed, ClassConnection, false)
}

// Tools of a server share its session, and many calls run on it at a time.
func TestMCPOneSession(t *testing.T) {
	b := startBroker(t, nil, nil)
	set := parse(t, `mcp_servers: {shop: {url: "`+b.url+`"}}
tools:
- {name: a, effect: read, run: {mcp: {server: shop, tool: slow}}}
- {name: b, effect: keyed, identity: "*", run: {mcp: {server: shop, tool: echo}}}
`)
	runners, err := NewRunners(set, RunnerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r := runners[[]string{"a", "b"}[i%2]]
			if got := r.Run(t.Context(), mcpCall(`{}`)); got.Outcome != effect.Succeeded {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	a, z := runners["a"].(*mcpRunner), runners["b"].(*mcpRunner)
	if a.link != z.link || a.link.current == nil || b.gets != 0 {
		t.Errorf("links %p %p, %d streams beside the calls", a.link, z.link, b.gets)
	}
	for _, r := range runners {
		if err := r.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}
