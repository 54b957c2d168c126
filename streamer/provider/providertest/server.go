// Package providertest is a provider that sends exactly the bytes it is told to.
//
// Invariant: nothing is added to an answer but the HTTP frame, each write reaches the
// socket as it was given, and every request that reached the server is on record. Mock
// servers built on net/http can do neither: no cut within a frame, no reset on purpose.
package providertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// End is how an answer ends after its last write.
type End int

// The ends.
const (
	Clean  End = iota // the body's last chunk, then close
	Closed            // no length, no chunks: the close is the end
	Cut               // close without the body's last chunk
	Reset             // RST
	Hang              // nothing more, until the client closes
	Stay              // the body's last chunk; the connection stays open
)

// Answer is the answer to one request.
type Answer struct {
	Status int // 0 means 200; -1 sends nothing before End
	Header map[string]string
	Writes [][]byte // of the body
	// Before is called before write i and before the end, which has i = len(Writes).
	Before func(i int)
	End    End
}

// Body makes an answer of one write.
func Body(body string, end End) Answer { return Answer{Writes: [][]byte{[]byte(body)}, End: end} }

// Bytewise makes an answer of one write per byte.
func Bytewise(body string, end End) Answer {
	a := Answer{End: end}
	for i := range len(body) {
		a.Writes = append(a.Writes, []byte{body[i]})
	}
	return a
}

// Request is a request that reached the server.
type Request struct {
	Conn   int // number of the connection, from 1
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
}

// Server gives its answers in order, the last one again and again.
type Server struct {
	URL string
	// ClientClosed gets the time at which a client closed a connection that hung.
	ClientClosed chan time.Time

	ln net.Listener
	wg sync.WaitGroup

	mu       sync.Mutex
	answers  []Answer
	requests []Request
	conns    map[net.Conn]bool
	accepted int
	closed   bool
}

// Start listens on a free loopback port until the test ends.
func Start(t testing.TB, answers ...Answer) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://" + ln.Addr().String(), ClientClosed: make(chan time.Time, 16), ln: ln,
		answers: answers, conns: map[net.Conn]bool{}}
	s.wg.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

// Answer replaces the answers that follow.
func (s *Server) Answer(answers ...Answer) {
	s.mu.Lock()
	s.answers = answers
	s.mu.Unlock()
}

// Requests lists what came, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) stop() {
	s.ln.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			c.Close()
		}
		s.conns[c] = true
		s.accepted++
		n := s.accepted
		s.mu.Unlock()
		s.wg.Go(func() { s.serve(c, n) })
	}
}

func (s *Server) serve(c net.Conn, n int) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	br := bufio.NewReader(c)
	for {
		hr, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(hr.Body)
		if err != nil {
			return
		}
		if !s.answer(c, br, s.take(Request{n, hr.Method, hr.URL, hr.Header, body})) {
			return
		}
	}
}

func (s *Server) take(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return a
}

// answer reports whether the connection stays open.
func (s *Server) answer(c net.Conn, br *bufio.Reader, a Answer) bool {
	chunked := a.End != Closed
	if a.Status >= 0 {
		if _, err := io.WriteString(c, head(a, chunked)); err != nil {
			return false
		}
	}
	for i, w := range a.Writes {
		if a.Before != nil {
			a.Before(i)
		}
		if len(w) == 0 {
			continue // as a chunk it would be the last one
		}
		var err error
		if chunked {
			_, err = fmt.Fprintf(c, "%x\r\n%s\r\n", len(w), w)
		} else {
			_, err = c.Write(w)
		}
		if err != nil {
			return false
		}
	}
	if a.Before != nil {
		a.Before(len(a.Writes))
	}
	switch a.End {
	case Clean, Stay:
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err == nil && a.End == Stay
	case Reset:
		c.(*net.TCPConn).SetLinger(0)
	case Hang:
		io.Copy(io.Discard, br)
		s.ClientClosed <- time.Now()
	}
	return false
}

func head(a Answer, chunked bool) string {
	var b strings.Builder
	status := a.Status
	if status == 0 {
		status = 200
	}
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	if _, set := a.Header["Content-Type"]; !set {
		b.WriteString("Content-Type: text/event-stream\r\n")
	}
	if chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if a.End != Stay {
		b.WriteString("Connection: close\r\n")
	}
	for k, v := range a.Header {
		fmt.Fprintf(&b, "%s: %s\r\n", k, v)
	}
	b.WriteString("\r\n")
	return b.String()
}
