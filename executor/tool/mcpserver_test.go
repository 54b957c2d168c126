package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnfold/turnfold/subjects/effect"
)

// anyObject is the schema of a tool that takes what it gets.
var anyObject = json.RawMessage(`{"type":"object"}`)

// testServer is an MCP server whose tools say what they saw.
func testServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	add := func(name string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: anyObject}, h)
	}
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		head := ""
		if r.Extra != nil && r.Extra.Header != nil {
			head = r.Extra.Header.Get("Idempotency-Key") + " " + r.Extra.Header.Get("Turnfold-Call") + " " + r.Extra.Header.Get("Authorization")
		}
		return text(fmt.Sprintf("%s|%v|%s", r.Params.Arguments, r.Params.Meta[MetaKey], head)), nil
	})
	add("exact", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := text("ten")
		r.StructuredContent = json.RawMessage(`{"id":9007199254740993,"sum":49.00}`)
		return r, nil
	})
	add("image", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}, &mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"}}}, nil
	})
	add("broken", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := text("no such order")
		res.IsError = true
		return res, nil
	})
	add("classed", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := text("")
		res.IsError, res.StructuredContent = true, json.RawMessage(`{"error":{"class":"no_order"}}`)
		return res, nil
	})
	add("slow", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := 1; i <= 2; i++ {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Message: fmt.Sprint("part ", i), Progress: float64(i), Total: 4})
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
		return text("done"), nil
	})
	add("endless", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select { // longer than any test waits, and still an end for its server
		case <-ctx.Done():
		case <-time.After(4 * time.Second):
		}
		return nil, errors.New("too late")
	})
	add("die", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	return s
}

// serveStdio is this test binary as a server program.
func serveStdio(mode string) int {
	switch mode {
	case "mute": // reads nothing, says nothing
		select {}
	case "deaf": // agrees to a session, then reads nothing
		for _, answer := range []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}}`} {
			fmt.Println(answer)
			time.Sleep(100 * time.Millisecond)
		}
		select {}
	case "fails":
		fmt.Fprintln(os.Stderr, "no licence")
		return 1
	}
	if err := testServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// stdioServer declares this test binary.
func stdioServer(t *testing.T, mode string) *MCPServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &MCPServer{Name: "test", Argv: []string{self}, Dir: t.TempDir(), Env: map[string]string{"MCP_TEST_SERVER": mode}}
}

func mcpTool(s *MCPServer, name string, class effect.Class) *Declaration {
	return &Declaration{Name: name, Effect: class, Timeout: 5 * time.Second,
		Run: Run{MCP: &MCP{Server: s, Tool: name, KeyMeta: true, KeyHeader: true, ErrorsFail: class == effect.Read}}}
}

// broker is a streamable HTTP server that counts calls and can spoil their answers.
type broker struct {
	url   string
	mu    sync.Mutex
	calls int
	gets  int
	spoil func(n int, w http.ResponseWriter, serve func()) // of the n-th call, from 1
	keys  []string
	cut   func() // every connection
}

func (b *broker) seen() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

func startBroker(t *testing.T, o *mcp.StreamableHTTPOptions, spoil func(n int, w http.ResponseWriter, serve func())) *broker {
	t.Helper()
	server := testServer()
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, o)
	b := &broker{spoil: spoil}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct{ Method string }
		_ = json.Unmarshal(body, &m)
		r.Body = io.NopCloser(newReader(body))
		if r.Method == http.MethodGet {
			b.mu.Lock()
			b.gets++
			b.mu.Unlock()
		}
		if m.Method != "tools/call" {
			if k := r.Header.Get("Idempotency-Key"); k != "" {
				b.mu.Lock()
				b.keys = append(b.keys, m.Method)
				b.mu.Unlock()
			}
			inner.ServeHTTP(w, r)
			return
		}
		b.mu.Lock()
		b.calls++
		n := b.calls
		b.mu.Unlock()
		if b.spoil == nil {
			inner.ServeHTTP(w, r)
			return
		}
		b.spoil(n, w, func() { inner.ServeHTTP(w, r) })
	}))
	t.Cleanup(func() {
		for ss := range server.Sessions() {
			_ = ss.Close()
		}
		s.CloseClientConnections()
		s.Close()
	})
	b.url, b.cut = s.URL, s.CloseClientConnections
	return b
}

func (b *broker) server() *MCPServer { return &MCPServer{Name: "test", URL: b.url} }
