package bench

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// synthetic is a provider in this process, over loopback HTTP like any other, that does
// as little as it can: whatever it costs is counted as the pipeline's.
type synthetic struct {
	listener net.Listener
	server   *http.Server
	began    time.Time
	rate     float64 // deltas per second of each stream; 0: as fast as they arrive
	silent   bool    // streams stay open after their first delta
	started  atomic.Int64
	written  atomic.Int64
	arrived  atomic.Int64  // told by the reader of the feeds
	over     chan struct{} // closed when every stream shall finish
}

func newSynthetic(rate float64) (*synthetic, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &synthetic{listener: l, began: time.Now(), rate: rate, over: make(chan struct{})}
	s.server = &http.Server{Handler: http.HandlerFunc(s.handle), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(l) }() // ends with close
	return s, nil
}

func (s *synthetic) url() string { return "http://" + s.listener.Addr().String() + "/v1" }
func (s *synthetic) close()      { _ = s.server.Close() }

const (
	chunkHead = `data: {"choices":[{"index":0,"delta":{"content":"`
	chunkTail = ` "}}]}` + "\n\n"
	chunkLast = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	// aheadMax is how many deltas of all streams may be under way without a rate. More
	// would measure queues; a pipeline that is never out of work is saturated.
	aheadMax = 16_384
)

// paceMin is how often a stream of a high rate writes what is due by then. Waking for each
// delta would measure the machine's timers.
const paceMin = 5 * time.Millisecond

func (s *synthetic) handle(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what is asked for does not matter
	w.Header().Set("Content-Type", "text/event-stream")
	n := s.started.Add(1)
	out := &reply{s: s, w: w, rc: http.NewResponseController(w)}
	switch {
	case !out.deltas(1): // a reply without content is none
	case s.silent:
		s.wait(r, nil)
	case s.rate > 0:
		s.paced(r, out, n)
	default:
		for s.wait(r, over) && out.deltas(1) {
			for s.written.Load()-s.arrived.Load() > aheadMax && s.wait(r, over) {
				time.Sleep(time.Millisecond)
			}
		}
	}
	_, _ = io.WriteString(w, chunkLast) // the streamer may have gone
}

// over is a time that has come.
var over = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// wait returns true when the time has come, false when the stream shall finish.
func (s *synthetic) wait(r *http.Request, c <-chan time.Time) bool {
	select {
	case <-s.over:
		return false
	case <-r.Context().Done():
		return false
	default:
	}
	select {
	case <-s.over:
		return false
	case <-r.Context().Done():
		return false
	case <-c:
		return true
	}
}

// paced writes at the rate, from a moment on that is this stream's own: streams do not
// speak in chorus.
func (s *synthetic) paced(r *http.Request, out *reply, n int64) {
	every := max(time.Duration(float64(time.Second)/s.rate), paceMin)
	if !s.wait(r, time.After(every*time.Duration(n%97)/97)) {
		return
	}
	began, written := time.Now(), 0
	t := time.NewTicker(every)
	defer t.Stop()
	for s.wait(r, t.C) {
		due := int(time.Since(began).Seconds()*s.rate) - written
		if due < 1 {
			continue
		}
		if !out.deltas(due) {
			return
		}
		written += due
	}
}

// reply is one stream of the model.
type reply struct {
	s   *synthetic
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte
}

// deltas writes n deltas that are due, each an event of its own, at once: a write for each
// would take nearly half of two cores at half of saturation, and measure the model. False
// when the reader has gone.
func (o *reply) deltas(n int) bool {
	o.buf = o.buf[:0]
	for range n {
		o.buf = o.s.chunk(o.buf)
	}
	_, err := o.w.Write(o.buf)
	return err == nil && o.rc.Flush() == nil
}

// chunk is one delta; its word is when it was written.
func (s *synthetic) chunk(buf []byte) []byte {
	s.written.Add(1)
	buf = append(buf, chunkHead...)
	buf = strconv.AppendInt(buf, time.Since(s.began).Microseconds(), 10)
	return append(buf, chunkTail...)
}
