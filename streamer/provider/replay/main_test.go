package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server until the test ends.
func start(t *testing.T, pick Pick) (*Server, string) {
	t.Helper()
	s, err := New(Config{Pick: pick})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, ln.Addr().String()
}

// dial makes a request on a raw connection.
func dial(t *testing.T, addr, method, path, body string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	ask(t, c, method, path, body)
	return c, bufio.NewReader(c)
}

func ask(t *testing.T, c net.Conn, method, path, body string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body); err != nil {
		t.Fatal(err)
	}
}

// got is an answer as far as it came.
type got struct {
	status int
	header http.Header
	body   string
	end    End
}

func answerOf(t *testing.T, br *bufio.Reader) got {
	t.Helper()
	res, err := http.ReadResponse(br, &http.Request{Method: "POST"})
	if err != nil {
		return got{end: ended(err)}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(data), ended(err)}
}

func ended(err error) End {
	var n net.Error
	switch {
	case err == nil:
		return EndEOF
	case errors.Is(err, syscall.ECONNRESET):
		return EndReset
	case errors.As(err, &n) && n.Timeout():
		return EndHang
	}
	return EndClose
}
