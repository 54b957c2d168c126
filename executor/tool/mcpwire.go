package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnfold/turnfold/subjects/effect"
)

// rpcBytesMax bounds a message of a server, in bytes. It leaves room for an answer of
// answerBytesMax that says everything twice, as text and as structured content.
const rpcBytesMax = 4 * answerBytesMax

// refusedBytesMax bounds what is read of an HTTP answer that refuses.
const refusedBytesMax = 1 << 20

// statelessVersion is the first protocol version without sessions over HTTP.
const statelessVersion = "2026-07-28"

// errResent is what the SDK gets if it ever tries to send a call again. The code is
// the one by which transports reject a message without breaking the connection.
var errResent = &jsonrpc.Error{Code: -32005, Message: "turnfold: a call is sent once"}

// wire stands between the SDK and its transport. It sees that a call is sent once, and
// keeps answers as they came.
type wire struct {
	mcp.Connection
	stdio   bool
	version *atomic.Pointer[string] // of the protocol, once it is agreed on

	mu      sync.Mutex
	waiting map[jsonrpc.ID]*flight
	hello   map[jsonrpc.ID]bool
}

// wired is a transport whose connections are wires.
type wired struct {
	mcp.Transport
	make func(mcp.Connection) *wire
}

func (t wired) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return t.make(c), nil
}

// Write implements mcp.Connection.
func (w *wire) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return w.Connection.Write(ctx, msg)
	}
	f := flightOf(ctx)
	switch {
	case req.Method == "initialize":
		w.mu.Lock()
		w.hello[req.ID] = true
		w.mu.Unlock()
	case f != nil: // whatever else the SDK sends on its behalf is no call, or a second one
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !f.begin(req.ID, w.stdio) {
			return errResent
		}
		w.mu.Lock()
		w.waiting[req.ID] = f
		w.mu.Unlock()
	}
	return w.Connection.Write(ctx, msg)
}

// Read implements mcp.Connection.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := w.Connection.Read(ctx)
	res, ok := msg.(*jsonrpc.Response)
	if err != nil || !ok {
		return msg, err
	}
	w.mu.Lock()
	f, hello := w.waiting[res.ID], w.hello[res.ID]
	delete(w.waiting, res.ID)
	delete(w.hello, res.ID)
	w.mu.Unlock()
	if hello {
		var v struct {
			Version string `json:"protocolVersion"`
		}
		if json.Unmarshal(res.Result, &v) == nil && v.Version != "" {
			w.version.Store(&v.Version)
		}
	}
	if f != nil {
		f.note(func(f *flight) {
			if res.Error == nil {
				f.answer = flightAnswer{raw: bytes.Clone(res.Result)}
			} else if fault := (*jsonrpc.Error)(nil); errors.As(res.Error, &fault) {
				f.answer = flightAnswer{fault: fault} // any other error is the SDK's own
			}
		})
	}
	return msg, nil
}

// forget drops a call that nobody waits for any more.
func (w *wire) forget(f *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, one := range w.waiting {
		if one == f {
			delete(w.waiting, id)
		}
	}
}

// tripper sends the SDK's requests, each exactly once: the SDK takes any error here
// for "never sent" and any trouble with an answer for the end of the session, so what
// concerns one call is noted in its flight and told as an error of that request alone.
type tripper struct {
	shared, fresh *http.Transport // fresh: a connection for each request
	headers       http.Header
	version       *atomic.Pointer[string]
}

// RoundTrip implements http.RoundTripper.
func (t *tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	f := flightOf(req.Context())
	call := f != nil && req.Method == http.MethodPost && f.takeOff()
	ctx := req.Context()
	var carry carrier
	if call {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: carry.got})
	}
	req = req.Clone(ctx)
	req.GetBody = nil // so that the transport cannot send it again by itself
	for name, values := range t.headers {
		req.Header[name] = values
	}
	if v := t.version.Load(); v != nil && req.Header.Get("Mcp-Protocol-Version") == "" {
		req.Header.Set("Mcp-Protocol-Version", *v)
	}
	switch {
	case f != nil && req.Method == http.MethodPost && !call:
		return t.cancel(req)
	case !call:
		return t.shared.RoundTrip(req)
	}
	if req.Header.Get("Mcp-Method") != "" && req.Header.Get("Mcp-Name") == "" {
		req.Header.Set("Mcp-Name", f.tool) // the SDK leaves it out where a number is too large for it
	}
	for name, values := range f.header {
		req.Header[name] = values
	}
	transport := t.shared
	if f.once {
		transport = t.fresh
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		f.note(func(f *flight) { f.sent = carry.wrote() })
		return nil, errors.New(httpAnswer{err: err}.why())
	}
	f.note(func(f *flight) { f.sent = true })
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return refusedTrip(f, req, res)
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "application/json" {
		return wholeTrip(res)
	}
	return res, nil
}

// cancel tells the server that nobody waits for a call any more. It is a courtesy: a
// server that refuses it would make the SDK give up the session with all its calls.
// Where a protocol version has no sessions, the end of the request has told it already.
func (t *tripper) cancel(req *http.Request) (*http.Response, error) {
	if v := t.version.Load(); v == nil || *v < statelessVersion {
		if res, err := t.shared.RoundTrip(req); err == nil {
			_ = res.Body.Close() // only told, never asked
		}
	} else {
		_ = req.Body.Close() // never read
	}
	return &http.Response{StatusCode: http.StatusAccepted, Status: "202 Accepted", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// refusedTrip notes an answer that is not the call's. Only the one that says that the
// session is gone goes on to the SDK, which ends it.
func refusedTrip(f *flight, req *http.Request, res *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, refusedBytesMax))
	_ = res.Body.Close() // everything wanted has been read
	res.Body = io.NopCloser(bytes.NewReader(body))
	answer := flightAnswer{status: res.StatusCode}
	if err == nil {
		if msg, err := jsonrpc.DecodeMessage(body); err == nil {
			if r, ok := msg.(*jsonrpc.Response); ok {
				var fault *jsonrpc.Error
				if errors.As(r.Error, &fault) {
					answer = flightAnswer{fault: fault}
				}
			}
		}
	}
	gone := res.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != ""
	f.note(func(f *flight) { f.answer, f.gone = answer, gone })
	if gone {
		return res, nil
	}
	return nil, fmt.Errorf("status %d", res.StatusCode)
}

// wholeTrip reads an answer to its end, because the SDK gives up the session with all
// its calls if one answer breaks off.
func wholeTrip(res *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, rpcBytesMax+1))
	_ = res.Body.Close() // everything wanted has been read
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer broke off: %w", err)
	case len(body) > rpcBytesMax:
		return nil, fmt.Errorf("the answer has more than %d bytes", rpcBytesMax)
	}
	if _, err := jsonrpc.DecodeMessage(body); err != nil {
		return nil, errors.New("the answer is no JSON-RPC message")
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

func newTripper(headers http.Header, version *atomic.Pointer[string]) *tripper {
	return &tripper{shared: newTransport(effect.Keyed), fresh: newTransport(effect.Once), headers: headers, version: version}
}

func (t *tripper) closeIdle() {
	t.shared.CloseIdleConnections()
	t.fresh.CloseIdleConnections()
}
