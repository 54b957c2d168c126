package tool

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// flight is one call on its way, and what is known of it. It travels in the call's
// context, so that whatever the SDK does in between, the places where bytes leave and
// come in know whose they are.
type flight struct {
	tool     string
	header   http.Header // sent with the call, and with nothing else
	once     bool        // a tool that may not be sent over a connection that may be closing
	progress func(message string, percent int)

	mu     sync.Mutex
	id     jsonrpc.ID
	begun  bool // it was given to the transport, which happens once
	armed  bool // its HTTP request is yet to come
	sent   bool // some of it may have left
	gone   bool // the server does not know the session
	answer flightAnswer

	telling sync.Mutex
	landed  bool // nobody wants to hear of progress any more
}

// flightAnswer is what came back; at most one member is set.
type flightAnswer struct {
	raw    []byte // the result as it came
	fault  *jsonrpc.Error
	status int // of an HTTP answer that is neither
}

type flightKey struct{}

func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// begin is true once.
func (f *flight) begin(id jsonrpc.ID, stdio bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun {
		return false
	}
	f.id, f.begun, f.armed, f.sent = id, true, !stdio, stdio
	return true
}

// takeOff is true for the one HTTP request that carries the call.
func (f *flight) takeOff() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	armed := f.armed
	f.armed = false
	return armed
}

func (f *flight) note(change func(f *flight)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *flight) known() (sent bool, answer flightAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent, f.answer
}

// retry says that the call certainly reached no tool and another session may do better.
func (f *flight) retry(s *session, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return true
	}
	return !f.begun && (s.ended() || errors.Is(err, mcp.ErrConnectionClosed))
}

// tell passes progress on, until land.
func (f *flight) tell(message string, percent int) {
	f.telling.Lock()
	defer f.telling.Unlock()
	if !f.landed && f.progress != nil {
		f.progress(message, percent)
	}
}

func (f *flight) land() {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.landed = true
}
