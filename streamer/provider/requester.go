package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/turnfold/turnfold/subjects/event"
)

// errorBytesMax bounds the body of an answer that is no stream.
const errorBytesMax = 64 << 10

// writeBufferBytes is small, because a connection writes one request, whose body goes past
// the buffer, and keeps it as long as the answer streams.
const writeBufferBytes = 1 << 10

// errQuiet ends the wait for usage after a finish. It is no fault.
var errQuiet = errors.New("provider: nothing more came after the finish")

// Config is what all attempts of a process share. Zero is ready for use.
type Config struct {
	TLS *tls.Config // nil means the system's roots
	// Trailing is how long an attempt waits, after a finish, for usage and the end of
	// the stream. Default 2s.
	Trailing time.Duration
}

// Requester sends requests. It is safe for concurrent use.
type Requester struct{ cfg Config }

// NewRequester makes a requester. It holds no connections: see transport.
func NewRequester(cfg Config) *Requester {
	if cfg.Trailing <= 0 {
		cfg.Trailing = 2 * time.Second
	}
	if cfg.TLS == nil {
		cfg.TLS = new(tls.Config)
	} else {
		cfg.TLS = cfg.TLS.Clone()
	}
	cfg.TLS.NextProtos = []string{"http/1.1"}
	if cfg.TLS.ClientSessionCache == nil {
		cfg.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(64) // saves a new connection half its handshake
	}
	return &Requester{cfg: cfg}
}

// attempt is one request on its way.
type attempt struct {
	api      API
	ep       Endpoint
	req      Request
	dec      Decoder
	watch    *watch
	trailing time.Duration
	progress func()
	emit     func(event.Body) error
	emitErr  error
	header   http.Header // of the answer, nil before it
	status   int
}

// Attempt makes exactly one HTTP request (I10) and returns how it ended:
// *event.AttemptFinished or *event.AttemptFailed, with an empty address. Pieces go to
// emit as soon as their bytes are here; progress, which may be nil, is called with
// each. The end of ctx closes the socket at once. If emit fails, so does the attempt,
// since its log has a gap then: class lost.
func (r *Requester) Attempt(ctx context.Context, api API, ep Endpoint, req Request, progress func(), emit func(event.Body) error) event.Body {
	a := &attempt{api: api, ep: ep.withDefaults(), req: req, dec: api.NewDecoder(),
		trailing: r.cfg.Trailing, progress: progress, emit: emit}
	wire, err := api.Encode(a.ep, req)
	if err != nil {
		return a.sealed(&event.AttemptFailed{Class: event.InvalidRequest, Detail: "the request cannot be encoded: " + err.Error()})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if a.ep.TotalTimeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, a.ep.TotalTimeout, &Fault{Class: event.Timeout, Retryable: true,
			Detail: fmt.Sprintf("not finished within %s", a.ep.TotalTimeout)})
		defer stop()
	}
	a.watch = &watch{cancel: cancel}
	defer a.watch.stop()
	return a.sealed(a.run(ctx, r.transport(ctx, a.ep.ConnectTimeout), wire))
}

func (a *attempt) run(ctx context.Context, tr *http.Transport, wire *Wire) event.Body {
	if ctx.Err() != nil {
		return Failed(blame(ctx, nil))
	}
	a.watch.enter(a.ep.ConnectTimeout, slow(event.Connection, "no connection within %s", a.ep.ConnectTimeout))
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		a.watch.enter(a.ep.HeaderTimeout, slow(event.Timeout, "no response header within %s", a.ep.HeaderTimeout))
	}})
	hr, err := a.request(ctx, wire)
	if err != nil {
		return &event.AttemptFailed{Class: event.InvalidRequest, Detail: err.Error()}
	}
	resp, err := tr.RoundTrip(hr) // no Client: it follows redirects
	if err != nil {
		return Failed(blame(ctx, err))
	}
	defer resp.Body.Close()
	a.status, a.header = resp.StatusCode, resp.Header
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return a.refused(resp.Body)
	}
	a.watch.enter(a.ep.StallTimeout, slow(event.Stall, "no content within %s", a.ep.StallTimeout))
	body := io.Reader(resp.Body)
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "text/event-stream" {
		var isStream bool
		if body, isStream = peeked(body); !isStream {
			return a.refused(body)
		}
	}
	return a.stream(ctx, body)
}

// request builds the one request. Without GetBody net/http cannot send the body a
// second time, and without an idempotency key it does not want to
// (net/http/transport.go, shouldRetryRequest and rewindBody).
func (a *attempt) request(ctx context.Context, wire *Wire) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, wire.Method, wire.URL, bytes.NewReader(wire.Body))
	if err != nil {
		return nil, errors.New("the endpoint's address is invalid") // not err: an address may hold a key
	}
	req.GetBody = nil
	req.Header.Set("User-Agent", "turnfold")
	for k, v := range wire.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	for k, v := range a.ep.Headers {
		req.Header.Set(k, v)
		if http.CanonicalHeaderKey(k) == "Host" {
			req.Host = v
		}
	}
	req.Header.Del("Idempotency-Key")
	req.Header.Del("X-Idempotency-Key")
	return req, nil
}

// refused judges an answer that is no stream. Its body may come slowly, or not at all;
// the status is enough then.
func (a *attempt) refused(body io.Reader) event.Body {
	a.watch.enter(a.ep.HeaderTimeout, slow(event.Timeout, "no response body within %s", a.ep.HeaderTimeout))
	data, _ := io.ReadAll(io.LimitReader(body, errorBytesMax))
	return a.dec.Status(a.status, a.header, data)
}

func (a *attempt) stream(ctx context.Context, body io.Reader) event.Body {
	trailer, _ := a.dec.(Trailer)
	trailing := false
	broken := readEvents(body, a.ep.EventBytesMax, func(name string, data []byte) (bool, error) {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		done, err := a.dec.Event(name, data, a.piece)
		if !trailing && trailer != nil && trailer.Trailing() {
			trailing = true
			a.watch.enter(a.trailing, errQuiet)
		}
		return done, err
	})
	if broken != nil {
		broken = blame(ctx, broken)
	}
	end := a.dec.End(broken)
	if a.emitErr != nil {
		return &event.AttemptFailed{Class: event.Lost, Detail: "a piece could not be stored", Retryable: true, Usage: usageOf(end)}
	}
	return end
}

// piece passes one piece on.
func (a *attempt) piece(b event.Body) error {
	a.watch.pause()
	defer a.watch.progress()
	if a.progress != nil {
		a.progress()
	}
	if err := a.emit(b); err != nil {
		a.emitErr = err
		return err
	}
	return nil
}

// transport makes a transport for one attempt. It uses a connection once and speaks
// HTTP/1.1 only: net/http re-sends by itself on a reused idle connection and after
// HTTP/2's GOAWAY and REFUSED_STREAM, and a connection that died while idle would cost
// an attempt. A fresh one costs a round trip for TCP, one for TLS with the session
// resumed, and some computing (both ends on two busy cores: 0.4 ms plain, 1.5 ms with
// TLS over a reused one; BenchmarkConnection), which is little beside the time to a
// first token. No proxy is taken from the environment. Dialling follows ctx, which the
// transport's own dials do not.
func (r *Requester) transport(ctx context.Context, connect time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: connect}
	dial := func(_ context.Context, network, addr string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, addr)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: dial,
		DialTLSContext: func(_ context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			cfg := r.cfg.TLS
			if cfg.ServerName == "" {
				cfg = cfg.Clone() // shares the session cache
				cfg.ServerName, _, _ = net.SplitHostPort(addr)
			}
			tc := tls.Client(conn, cfg)
			if err := tc.HandshakeContext(ctx); err != nil {
				conn.Close()
				return nil, err
			}
			return tc, nil
		},
		Protocols:              protocols,
		DisableKeepAlives:      true,
		DisableCompression:     true, // a compressor holds bytes back
		MaxResponseHeaderBytes: 256 << 10,
		WriteBufferSize:        writeBufferBytes,
	}
}

func slow(class event.Class, format string, limit time.Duration) *Fault {
	return &Fault{Class: class, Detail: fmt.Sprintf(format, limit), Retryable: true}
}

// blame finds out why err happened: an ended context closes the socket, and then the
// socket's error says nothing.
func blame(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var f *Fault
	var u *url.Error
	switch {
	case errors.As(cause, &f), cause == errQuiet:
		return cause
	case cause != nil:
		return &Fault{Class: event.Cancelled, Detail: "the attempt was cancelled"}
	case errors.As(err, &f):
		return err
	case errors.As(err, &u):
		err = u.Err // not the address, which may hold a key
	}
	return &Fault{Class: event.Connection, Detail: "the connection broke", Err: err, Retryable: true}
}
