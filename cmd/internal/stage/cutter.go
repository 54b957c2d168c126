package stage

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
)

// Cutter stands between a client and turnfold, and breaks one connection right after an
// answer has said a word.
type Cutter struct {
	listener net.Listener
	target   string
	word     []byte
	once     sync.Once
}

// NewCutter listens until it is closed, for what is at base. No word: nothing is broken.
func NewCutter(base, word string) (*Cutter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cutter{listener: l, target: strings.TrimPrefix(base, "http://"), word: []byte(word)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	return c, nil
}

// Base is the URL that clients call instead.
func (c *Cutter) Base() string { return "http://" + c.listener.Addr().String() }

// Close takes no more connections; those that are open go on.
func (c *Cutter) Close() { _ = c.listener.Close() }

func (c *Cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	var seen []byte
	buf := make([]byte, 512)
	for {
		n, err := server.Read(buf)
		seen = append(seen, buf[:n]...)
		hit := len(c.word) > 0 && bytes.Contains(seen, c.word)
		if len(seen) > 4096 {
			seen = seen[len(seen)-1024:]
		}
		if _, werr := client.Write(buf[:n]); werr != nil || err != nil {
			return
		}
		if hit {
			broken := false
			c.once.Do(func() { broken = true })
			if broken {
				_ = client.(*net.TCPConn).SetLinger(0)
				return
			}
		}
	}
}
