package tool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// idleMax is how long a connection is kept for the next call. It is shorter than the
// idle timeouts of common servers (2 to 5 s and up), because a request written into
// a connection that the server is closing is lost without a trace.
const idleMax = 1500 * time.Millisecond

// newTransport makes a transport that sends a request exactly once: no HTTP/2 (its
// client sends again after GOAWAY), no compression, and for once tools no reuse of
// connections, whose closing could turn a call that never ran into an unknown.
func newTransport(class effect.Class) *http.Transport {
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		DisableKeepAlives:      class == effect.Once,
		DisableCompression:     true,
		IdleConnTimeout:        idleMax,
		MaxIdleConnsPerHost:    64,
		MaxResponseHeaderBytes: 1 << 20,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}

// countedConn knows whether anything was written, and can be sealed: after that
// nothing is. So "nothing was written" holds for good.
type countedConn struct {
	net.Conn
	mu      sync.Mutex
	sealed  bool
	written int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.sealed {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	c.written += int64(len(p)) // before the write: what may have left counts
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *countedConn) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

func (c *countedConn) seal() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.written
}

// carrier notes which connection a request got, and where it stood.
type carrier struct {
	mu     sync.Mutex
	conn   *countedConn
	before int64
	other  bool // a connection that cannot tell
}

func (c *carrier) got(info httptrace.GotConnInfo) {
	conn := info.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	counted, ok := conn.(*countedConn)
	if !ok {
		c.other = true
		return
	}
	c.conn, c.before = counted, counted.count()
}

// wrote ends the connection's use and tells whether any of the request left.
func (c *carrier) wrote() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.other {
		return true
	}
	return c.conn != nil && c.conn.seal() > c.before
}

// httpAnswer is what one send brought.
type httpAnswer struct {
	status  int
	header  http.Header
	body    []byte
	over    bool  // the body is longer than answerBytesMax
	bodyErr error // the body broke off
	err     error // no answer
	wrote   bool  // with err: some of the request may have left
}

// why says what went wrong, without the address, which may hold a secret.
func (a httpAnswer) why() string {
	err := a.err
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return "no such host"
	case errors.As(err, &op):
		err = op.Err
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// send makes one HTTP request, exactly once.
func (r *httpRunner) send(ctx context.Context, c Call) httpAnswer {
	if ctx.Err() != nil {
		return httpAnswer{err: context.Cause(ctx)}
	}
	var carry carrier
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: carry.got})
	body, address := argsOf(c), r.url
	if r.method == http.MethodGet {
		body = ""
	}
	if r.asks {
		address = strings.ReplaceAll(address, "{key}", url.PathEscape(c.Key))
	}
	req, err := http.NewRequestWithContext(traced, r.method, address, strings.NewReader(body))
	if err != nil {
		return httpAnswer{err: err}
	}
	// Without GetBody the transport cannot rewind the body, so it never sends again by
	// itself, as it otherwise would for a request with an Idempotency-Key.
	req.GetBody = nil
	req.Header = r.headers.Clone()
	if body == "" {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "turnfold")
	}
	req.Header.Set(r.keyHeader, c.Key)
	req.Header.Set("Turnfold-Turn", c.Turn)
	req.Header.Set("Turnfold-Step", strconv.Itoa(c.Step))
	req.Header.Set("Turnfold-Attempt", strconv.Itoa(c.Attempt))
	req.Header.Set("Turnfold-Call", c.Call)
	if r.sign != nil {
		r.sign(req.Header, messageID(c), time.Now(), body)
	}
	// The bare transport: no redirects, no cookies.
	res, err := r.transport.RoundTrip(req)
	if err != nil {
		return httpAnswer{err: err, wrote: carry.wrote()}
	}
	a := httpAnswer{status: res.StatusCode, header: res.Header}
	defer func() { _ = res.Body.Close() }() // everything wanted has been read
	a.body, a.bodyErr = io.ReadAll(io.LimitReader(res.Body, answerBytesMax+1))
	if len(a.body) > answerBytesMax {
		a.body, a.over = nil, true
	}
	return a
}

// messageID names a call across tries and tenants, for receivers that drop what they
// have seen. It has no full stop, which separates the signed parts.
func messageID(c Call) string {
	return fmt.Sprintf("%s/%s/%s", c.Tenant, c.Turn, strings.ReplaceAll(c.Call, ".", "-"))
}
