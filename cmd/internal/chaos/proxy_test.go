package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy is the way to a server, which can be broken: then every connection is, or
// silent: then nothing is, and nothing gets through.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	state    passage
	conns    map[net.Conn]bool
	changed  chan struct{}
}

type passage int

const (
	whole passage = iota
	broken
	silent
)

// newProxy listens on a host's address for a server.
func newProxy(t *testing.T, host, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}, changed: make(chan struct{})}
	go p.serve()
	t.Cleanup(func() { _ = l.Close(); p.set(broken) })
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		go p.carry(in)
	}
}

func (p *proxy) carry(in net.Conn) {
	out, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil || !p.add(in, out) {
		_ = in.Close()
		if out != nil {
			_ = out.Close()
		}
		return
	}
	var both sync.WaitGroup
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(passing{to, p}, from) // ends with either side
		_, _ = to.Close(), from.Close()
	}
	both.Go(func() { pipe(out, in) })
	both.Go(func() { pipe(in, out) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, in)
	delete(p.conns, out)
}

// passing writes when something gets through.
type passing struct {
	net.Conn
	p *proxy
}

func (w passing) Write(data []byte) (int, error) {
	w.p.through()
	return w.Conn.Write(data)
}

// through waits while the way is silent.
func (p *proxy) through() {
	for {
		p.mu.Lock()
		state, changed := p.state, p.changed
		p.mu.Unlock()
		if state != silent {
			return
		}
		<-changed
	}
}

func (p *proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == broken {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

func (p *proxy) set(state passage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	close(p.changed)
	p.changed = make(chan struct{})
	if state == broken {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}
