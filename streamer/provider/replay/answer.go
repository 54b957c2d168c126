package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// answer plays one request's recording and reports whether the connection stays open.
func (s *Server) answer(ctx context.Context, c net.Conn, br *bufio.Reader, req *http.Request, a Asked) bool {
	e := Entry{N: a.N, Conn: a.Conn, OnConn: a.OnConn, Method: a.Method, Path: a.Path}
	p, ok := s.cfg.Pick(a)
	if !ok {
		p = Play{Recording: nothing}
	} else {
		e.Recording = p.Recording.Name
	}
	sc := play(p.Recording, p.Fault)
	e.Of, e.End = len(p.Recording.Response.Body), sc.end
	w := &wire{c: c, chunked: req.ProtoAtLeast(1, 1)}
	keep := false
	switch {
	case sc.end == EndBefore:
		w.reset()
	case req.Method == http.MethodHead || sc.status == http.StatusNoContent || sc.status == http.StatusNotModified:
		w.chunked, sc.pieces = false, nil
		keep = w.head(sc, !req.Close) == nil && !req.Close
		e.Status = sc.status
	default:
		stays := w.chunked && sc.end == EndEOF && !req.Close
		e.Status = sc.status
		if err := w.head(sc, stays); err == nil {
			e.Bytes = w.pieces(ctx, sc.pieces)
		}
		keep = w.end(sc.end, br) && stays
	}
	e.Left = w.err != nil
	s.note(e)
	return keep && w.err == nil
}

// nothing is what a request gets for which there is no recording.
var nothing = &Recording{Response: Response{Status: http.StatusNotFound, End: EndEOF,
	Header: http.Header{"Content-Type": {"application/json"}},
	Body:   []byte(`{"error":{"type":"not_found_error","message":"No recording answers this request."}}` + "\n"),
	Writes: []Write{{Bytes: len(`{"error":{"type":"not_found_error","message":"No recording answers this request."}}` + "\n")}}}}

// wire is the answering side of a connection. Each piece reaches the socket in a write
// of its own.
type wire struct {
	c       net.Conn
	chunked bool
	err     error // of the first write that failed
}

func (w *wire) write(data []byte) error {
	if w.err == nil {
		_, w.err = w.c.Write(data)
	}
	return w.err
}

// head sends everything before the body.
func (w *wire) head(sc script, stays bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", sc.status, http.StatusText(sc.status))
	for _, name := range slices.Sorted(maps.Keys(sc.header)) {
		if slices.Contains(framing, http.CanonicalHeaderKey(name)) {
			continue
		}
		for _, v := range sc.header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	if w.chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if !stays {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return w.write([]byte(b.String()))
}

// pieces sends the body and gives how much of it was written.
func (w *wire) pieces(ctx context.Context, ps []piece) (sent int) {
	var buf []byte
	for _, p := range ps {
		if p.wait > 0 && !wait(ctx, p.wait) {
			w.err = context.Cause(ctx)
			return sent
		}
		if len(p.data) == 0 {
			continue // as a chunk it would be the last one
		}
		if w.chunked {
			buf = fmt.Appendf(buf[:0], "%x\r\n", len(p.data))
			buf = append(append(buf, p.data...), "\r\n"...)
		} else {
			buf = append(buf[:0], p.data...)
		}
		if w.write(buf) != nil {
			return sent
		}
		sent += len(p.data)
	}
	return sent
}

// end ends the answer and reports whether another request may follow.
func (w *wire) end(how End, br *bufio.Reader) bool {
	if w.err != nil {
		return false
	}
	switch how {
	case EndEOF:
		return !w.chunked || w.write([]byte("0\r\n\r\n")) == nil
	case EndReset:
		w.reset()
	case EndHang:
		_, _ = io.Copy(io.Discard, br) // until the client goes, or the server is closed
	}
	return false
}

// deliveryMax bounds the wait for a client that does not read.
const deliveryMax = time.Second

// reset breaks the connection: with nothing to linger for, closing sends a reset. What
// was written must have arrived by then, since a reset throws away what is under way.
func (w *wire) reset() {
	if tcp, ok := w.c.(*net.TCPConn); ok {
		for until := time.Now().Add(deliveryMax); unacked(tcp) > 0 && time.Now().Before(until); {
			time.Sleep(50 * time.Microsecond)
		}
		_ = tcp.SetLinger(0)
	}
	_ = w.c.Close()
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
