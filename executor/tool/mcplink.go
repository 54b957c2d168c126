package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverGrace is how long a server program may take to end after its input was closed.
const serverGrace = 2 * time.Second

// errNotStarted marks a server program that cannot be started.
var errNotStarted = errors.New("the server's program cannot be started")

// links are the servers that a process talks to, one link for each.
type links struct {
	mu   sync.Mutex
	open map[*MCPServer]*link
}

// join gives the link to a server for one more tool.
func (ls *links) join(server *MCPServer, cfg RunnerConfig) (*link, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, ok := ls.open[server]; ok {
		l.tools++
		return l, nil
	}
	l := &link{of: ls, server: server, tools: 1, gate: make(chan struct{}, 1), headers: http.Header{}}
	var err error
	if l.env, err = environment(cfg, server.Env, server.PassEnv); err != nil {
		return nil, err
	}
	for name, value := range server.Headers {
		l.headers.Set(name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(server.HeadersEnv)) {
		variable := server.HeadersEnv[name]
		value, ok := cfg.Env(variable)
		if !ok || !headerValue(value) {
			return nil, fmt.Errorf("headers_env.%s: set the environment variable %s to a header value", name, variable)
		}
		l.headers.Set(name, value)
	}
	if ls.open == nil {
		ls.open = map[*MCPServer]*link{}
	}
	ls.open[server] = l
	return l, nil
}

// link holds the one session with a server. It is opened by the first call that needs
// it, and again after it was lost.
type link struct {
	of      *links
	server  *MCPServer
	env     []string
	headers http.Header
	tools   int // under of.mu
	// unlearned leaves out the list of tools, which the SDK would keep to itself.
	unlearned bool

	gate    chan struct{} // held while current is looked at or changed
	current *session
	closing sync.WaitGroup
}

// leave ends the session when the last tool leaves.
func (l *link) leave() {
	l.of.mu.Lock()
	l.tools--
	last := l.tools == 0
	if last {
		delete(l.of.open, l.server)
	}
	l.of.mu.Unlock()
	if !last {
		return
	}
	l.gate <- struct{}{}
	s := l.current
	l.current = nil
	<-l.gate
	if s != nil {
		l.end(s)
	}
	l.closing.Wait()
}

// session gives the present session, or opens one.
func (l *link) session(ctx context.Context) (*session, error) {
	select {
	case l.gate <- struct{}{}:
		defer func() { <-l.gate }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.current != nil && !l.current.ended() {
		return l.current, nil
	}
	if old := l.current; old != nil {
		l.current = nil
		l.end(old)
	}
	s, err := l.connect(ctx)
	l.current = s
	return s, err
}

// drop gives up a session that has shown to be lost.
func (l *link) drop(s *session) {
	l.gate <- struct{}{}
	defer func() { <-l.gate }()
	if l.current == s {
		l.current = nil
		l.end(s)
	}
}

// end closes a session aside: a server may take its time.
func (l *link) end(s *session) {
	l.closing.Go(s.close)
}

// session is one session with a server.
type session struct {
	client *mcp.ClientSession
	wire   *wire
	dead   chan struct{} // closed when the connection has ended
	kill   func()        // ends the server program, and with it the connection
	free   func()
	tokens atomic.Int64
	flying sync.Map // progress token → flight
}

func (s *session) ended() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

func (s *session) close() {
	_ = s.client.Close() // nothing can be done about a server that will not end well
	<-s.dead
	s.kill()
	s.free()
}

// connect opens a session. The SDK gets no way to act on its own: no capabilities, no
// answers to a server that asks back, no stream beside the calls.
func (l *link) connect(ctx context.Context) (*session, error) {
	s := &session{dead: make(chan struct{}), kill: func() {}, free: func() {}}
	var version atomic.Pointer[string]
	var complaint tail
	transport := l.transport(s, &version, &complaint)
	client := mcp.NewClient(&mcp.Implementation{Name: "turnfold", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			s.heard(req.Params)
		},
	})
	var started atomic.Bool
	kill := s.kill
	s.kill = func() {
		if started.Load() {
			kill()
		}
	}
	stop := context.AfterFunc(ctx, s.kill) // else the SDK waits for a mute program
	var err error
	s.client, err = client.Connect(ctx, wired{transport, func(c mcp.Connection) *wire {
		started.Store(true)
		s.wire = &wire{Connection: c, stdio: l.server.URL == "", version: &version,
			waiting: map[jsonrpc.ID]*flight{}, hello: map[jsonrpc.ID]bool{}}
		return s.wire
	}}, nil)
	if !stop() && err == nil {
		err = context.Cause(ctx)
		s.kill()
		_ = s.client.Close() // it has been killed
	}
	if err != nil {
		s.kill()
		s.free()
		if s.wire == nil && l.server.URL == "" {
			return nil, fmt.Errorf("%w: %s", errNotStarted, plain(err))
		}
		return nil, errors.New("no session: " + l.why(ctx, err, &complaint))
	}
	agreed := s.client.InitializeResult().ProtocolVersion
	version.Store(&agreed)
	go func() {
		_ = s.client.Wait() // why it ended, the calls are told
		close(s.dead)
	}()
	l.learn(ctx, s, agreed)
	return s, nil
}

// learn reads the list of tools where the protocol has arguments repeated in headers,
// which only the list names. Without the list the server refuses such a call, and says so.
func (l *link) learn(ctx context.Context, s *session, version string) {
	if l.server.URL == "" || version < statelessVersion || l.unlearned {
		return
	}
	for _, err := range s.client.Tools(ctx, nil) {
		if err != nil {
			return
		}
	}
}

// why says why there is no session: what the SDK says, and the program's last words.
func (l *link) why(ctx context.Context, err error, complaint *tail) string {
	text := plain(err)
	if cause := context.Cause(ctx); cause != nil {
		text = plain(cause)
	}
	if lines := strings.Fields(strings.ToValidUTF8(string(complaint.last()), "\uFFFD")); len(lines) > 0 {
		text += "; the program says: " + plain(errors.New(strings.Join(lines, " ")))
	}
	return text
}

func (l *link) transport(s *session, version *atomic.Pointer[string], complaint *tail) mcp.Transport {
	if l.server.URL != "" {
		t := newTripper(l.headers, version)
		s.free = t.closeIdle
		return &mcp.StreamableClientTransport{Endpoint: l.server.URL, DisableStandaloneSSE: true, MaxEventSize: rpcBytesMax,
			HTTPClient: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	}
	cmd := exec.Command(l.server.Argv[0], l.server.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = l.server.Dir, l.env, complaint, pipeGrace
	ownGroup(cmd)
	s.kill = func() { killGroup(cmd) }
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: serverGrace}
}

// heard passes a server's progress on to the call that it belongs to.
func (s *session) heard(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	f, ok := s.flying.Load(token)
	if !ok {
		return
	}
	percent := 0
	if p.Total > 0 && p.Progress > 0 {
		percent = int(min(100*p.Progress/p.Total, 100))
	}
	f.(*flight).tell(p.Message, percent)
}

// call sends a call and waits for its end. It returns soon after the context's end,
// even if the server's program does not read its input.
func (s *session) call(ctx context.Context, f *flight, tool string, meta mcp.Meta, args any) error {
	params := &mcp.CallToolParams{Meta: meta, Name: tool, Arguments: args}
	if f.progress != nil {
		token := fmt.Sprintf("turnfold-%d", s.tokens.Add(1))
		params.SetProgressToken(token)
		s.flying.Store(token, f)
		defer s.flying.Delete(token)
	}
	defer f.land()
	defer s.wire.forget(f)
	ended := make(chan error, 1)
	go func() {
		_, err := s.client.CallTool(context.WithValue(ctx, flightKey{}, f), params)
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	for range 2 {
		select {
		case err := <-ended:
			return err
		case <-time.After(strayGrace):
			s.kill()
		}
	}
	return context.Cause(ctx)
}
