package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// requestBytesMax bounds the body of one request.
	requestBytesMax = 64 << 20
	// requestTimeout bounds how long a request may take to arrive.
	requestTimeout = time.Minute
	// entriesMax bounds the journal; counts go on.
	entriesMax = 100_000
)

// Asked is a request that reached the server.
type Asked struct {
	N      int // of the request, from 1
	Conn   int // number of its connection, from 1
	OnConn int // of the request on its connection, from 1
	Method string
	Path   string // with its query
	Header http.Header
	Body   []byte
}

// Entry is what became of a request. It holds neither headers nor bodies.
type Entry struct {
	N         int    `json:"n"`
	Conn      int    `json:"conn"`
	OnConn    int    `json:"on_conn"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Recording string `json:"recording,omitempty"` // its name; empty if nothing fits
	Status    int    `json:"status,omitempty"`    // 0: nothing was sent
	Bytes     int    `json:"bytes"`               // of the body, sent
	Of        int    `json:"of"`                  // of the body, recorded
	End       End    `json:"end"`
	// Left: the client went before the end.
	Left bool `json:"left,omitempty"`
}

// Config is what a server plays.
type Config struct {
	Pick Pick
	// Done is called after each request, one at a time, in the order in which they end;
	// may be nil.
	Done func(Entry)
}

// Server answers requests with recordings. It is safe for concurrent use.
type Server struct {
	cfg Config

	done     sync.Mutex // one call of Done at a time
	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
	requests int
	journal  []Entry
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Pick == nil {
		return nil, errors.New("replay: nothing to play: Pick is nil")
	}
	return &Server{cfg: cfg, conns: map[net.Conn]bool{}}, nil
}

// Run serves on ln until ctx ends; then it closes ln and every connection and returns
// nil. Every goroutine that it started has ended by then.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	stop := context.AfterFunc(ctx, func() {
		_ = ln.Close() // the accept below says what else is wrong
		s.closeConns()
	})
	defer func() {
		cancel()
		stop()
		_ = ln.Close()
		s.closeConns()
		wg.Wait()
	}()
	for {
		c, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("replay: accept: %w", err)
		}
		n := s.enter(c)
		wg.Go(func() {
			defer s.leave(c)
			s.serve(ctx, c, n)
		})
		if ctx.Err() != nil {
			s.closeConns() // it may have come in after the first sweep
		}
	}
}

// Requests counts the requests that came.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Journal lists the requests that ended, in that order; of very many, the latest. A
// client may have its whole answer a moment before the entry is here.
func (s *Server) Journal() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Entry(nil), s.journal...)
}

func (s *Server) enter(c net.Conn) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = true
	s.accepted++
	return s.accepted
}

func (s *Server) leave(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) closeConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return s.requests
}

func (s *Server) note(e Entry) {
	s.done.Lock()
	defer s.done.Unlock()
	s.mu.Lock()
	if len(s.journal) == entriesMax {
		s.journal = append(s.journal[:0:0], s.journal[entriesMax/2:]...)
	}
	s.journal = append(s.journal, e)
	s.mu.Unlock()
	if s.cfg.Done != nil {
		s.cfg.Done(e)
	}
}

// serve answers the requests of one connection.
func (s *Server) serve(ctx context.Context, c net.Conn, conn int) {
	br := bufio.NewReader(c)
	for on := 1; ; on++ {
		_ = c.SetReadDeadline(time.Time{}) // an idle connection may stay
		if _, err := br.Peek(1); err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(requestTimeout))
		req, body, err := read(c, br)
		if err != nil {
			if errors.Is(err, errRequest) {
				_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			}
			return
		}
		_ = c.SetReadDeadline(time.Time{})
		asked := Asked{N: s.count(), Conn: conn, OnConn: on, Method: req.Method, Path: req.URL.RequestURI(), Header: req.Header, Body: body}
		if !s.answer(ctx, c, br, req, asked) {
			return
		}
	}
}

// errRequest: what came is no request that can be answered.
var errRequest = errors.New("replay: bad request")

// read takes one whole request.
func read(c net.Conn, br *bufio.Reader) (*http.Request, []byte, error) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	if req.Header.Get("Expect") == "100-continue" { // clients wait for it before they send the body
		if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, nil, err
		}
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, requestBytesMax+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) > requestBytesMax:
		return nil, nil, fmt.Errorf("%w: the body is over %d MiB", errRequest, requestBytesMax>>20)
	}
	return req, body, nil
}
