package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// RecorderConfig is where a recorder sends requests and keeps what came.
type RecorderConfig struct {
	// Upstream is the provider's address, such as https://host/v1. Requests must lie
	// under its path.
	Upstream string
	Dir      string // made if it is missing
	// Done is called with each request's outcome, in the order in which they end; may
	// be nil.
	Done func(Recorded)
	// Transport overrides how upstream is reached; nil means HTTP/1.1 over connections
	// that are used once.
	Transport http.RoundTripper
}

// Recorded is what became of one request.
type Recorded struct {
	File   string // empty if nothing was kept
	Method string
	Path   string // redacted
	Status int
	Bytes  int
	End    End
	// Warnings name what may be a secret in a body. Bodies are kept as they are.
	Warnings []string
	Err      error // nothing was kept, or upstream gave no answer
}

// Recorder is a reverse proxy that passes every byte on at once and keeps a recording
// of each request. It asks upstream exactly once per request (I10).
type Recorder struct {
	upstream  *url.URL
	store     *store
	done      func(Recorded)
	transport http.RoundTripper
	mu        sync.Mutex // one outcome at a time
}

// NewRecorder makes a recorder and its folder.
func NewRecorder(cfg RecorderConfig) (*Recorder, error) {
	u, err := url.Parse(cfg.Upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("replay: upstream is no http or https address") // it may hold a key: not named
	}
	if u.RawQuery != "" || u.User != nil {
		return nil, errors.New("replay: upstream has a query or a user; send those with each request")
	}
	st, err := openStore(cfg.Dir)
	if err != nil {
		return nil, err
	}
	r := &Recorder{upstream: u, store: st, done: cfg.Done, transport: cfg.Transport}
	if r.transport == nil {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		// See provider.Requester: net/http re-sends by itself on a reused connection.
		r.transport = &http.Transport{Protocols: protocols, DisableKeepAlives: true, DisableCompression: true,
			TLSHandshakeTimeout: 10 * time.Second, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}
	}
	return r, nil
}

// Path is the part of upstream's address that a base_url must have.
func (r *Recorder) Path() string { return strings.TrimRight(r.upstream.Path, "/") }

// ServeHTTP passes one request on and records it.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	began := time.Now()
	hide := newSecrets(req)
	out := Recorded{Method: req.Method, Path: hide.clean(req.URL.RequestURI())}
	defer func() { r.tell(out) }()
	refuse := func(status int, err error) {
		out.Err = err
		http.Error(w, err.Error(), status)
	}
	if p := r.Path(); p != "" && req.URL.Path != p && !strings.HasPrefix(req.URL.Path, p+"/") {
		refuse(http.StatusNotFound, fmt.Errorf("the path does not begin with %s; the base_url must end with it", p))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, requestBytesMax))
	if err != nil {
		refuse(http.StatusBadRequest, errors.New("the request's body cannot be read"))
		return
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	res, err := r.transport.RoundTrip(r.request(ctx, req, body))
	if err != nil {
		refuse(http.StatusBadGateway, fmt.Errorf("upstream gave no answer: %w", bare(err)))
		return
	}
	defer res.Body.Close()
	rec := &Recording{Request: Request{Method: req.Method, Path: out.Path, Header: hide.header(req.Header), Body: body},
		Response: Response{Status: res.StatusCode, Header: hide.header(res.Header)}}
	pass(w, res, began, &rec.Response)
	out.Status, out.Bytes, out.End = res.StatusCode, len(rec.Response.Body), rec.Response.End
	out.Warnings = hide.warnings(rec)
	out.File, out.Err = r.store.save(began, rec)
	breakOff(w, rec.Response.End)
}

func (r *Recorder) tell(out Recorded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil {
		r.done(out)
	}
}

// request is the one that goes upstream. Compression is not asked for: a compressor
// holds bytes back, and a recording of it could not be read.
func (r *Recorder) request(ctx context.Context, req *http.Request, body []byte) *http.Request {
	u := *req.URL
	u.Scheme, u.Host = r.upstream.Scheme, r.upstream.Host
	out := &http.Request{Method: req.Method, URL: &u, Host: r.upstream.Host, Header: req.Header.Clone(),
		ContentLength: int64(len(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	unframe(out.Header)
	out.Header.Del("Accept-Encoding")
	out.Header.Del("Expect")
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = nil // nothing is added
	}
	return out.WithContext(ctx)
}

// unframe takes out what belongs to the connection.
func unframe(h http.Header) {
	for _, v := range h.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range framing {
		h.Del(name)
	}
}

// pass hands the answer on, each read as a write of its own, and notes it.
func pass(w http.ResponseWriter, res *http.Response, began time.Time, to *Response) {
	head := res.Header.Clone()
	unframe(head)
	for name, values := range head {
		w.Header()[name] = slices.Clone(values)
	}
	w.WriteHeader(res.StatusCode)
	rc := http.NewResponseController(w)
	_ = rc.Flush() // the head must not wait for the first token; a broken client is met below
	buf := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			to.Body = append(to.Body, buf[:n]...)
			to.Writes = append(to.Writes, Write{After: time.Since(began).Truncate(time.Microsecond), Bytes: n})
			if _, werr := w.Write(buf[:n]); werr != nil || rc.Flush() != nil {
				to.End = EndHang
				return
			}
		}
		if err != nil {
			to.End = endOf(res, err)
			return
		}
	}
}

// endOf tells how upstream ended. The end of the request's context is the client's
// going: nothing more came by then.
func endOf(res *http.Response, err error) End {
	switch {
	case err == io.EOF:
		return EndEOF
	case res.Request != nil && res.Request.Context().Err() != nil:
		return EndHang
	case errors.Is(err, syscall.ECONNRESET):
		return EndReset
	}
	return EndClose
}

// breakOff ends the client's connection as upstream's ended.
func breakOff(w http.ResponseWriter, how End) {
	switch how {
	case EndReset:
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			(&wire{c: c}).reset()
			return
		}
		fallthrough
	case EndClose:
		panic(http.ErrAbortHandler) // net/http's way to close inside a body
	}
}

// bare is an error without the address that was asked, which may hold a key.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
