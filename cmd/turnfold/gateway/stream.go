package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/feed"
)

const (
	// writeTimeout bounds one write, not a feed: a client that takes nothing for so long
	// is gone, or will come back with its position.
	writeTimeout = 2 * time.Minute

	// Bounds of the buffers that an open feed keeps between two sends. Most sends are of
	// one small item, and most feeds are silent most of the time.
	keptBytesMax = 2 << 10
	keptItemsMax = 16

	// sseRetry is how long a browser waits before it connects again.
	sseRetry = time.Second
)

// view is how a client wants to see a feed.
type view struct {
	enc    render.Encoder
	header map[string]string // beside those of every feed
	// hold: the client cannot retract, so an attempt is sent once it has won.
	hold bool
	// compact: what the log has is sent as what it amounts to.
	compact bool
	// whole: the answer is one document, whose status is known at its end.
	whole bool
	// linger bounds the wait for the saved message after the completion, for clients to
	// which the answer's end means the turn's. Zero waits until it comes.
	linger time.Duration
}

// nativeView reads the parameters of a feed in turnfold's own form.
func nativeView(r *http.Request) (view, error) {
	v := view{enc: encoderFor(r)}
	q := r.URL.Query()
	switch reset := q.Get("reset"); reset {
	case "hold":
		v.hold = true
	case "", "send":
	default:
		return v, fault{http.StatusUnprocessableEntity, "reset", "must be send or hold"}
	}
	switch compact := q.Get("compact"); compact {
	case "1", "true":
		v.compact = true
	case "", "0", "false":
	default:
		return v, fault{http.StatusUnprocessableEntity, "compact", "must be 1 or 0"}
	}
	return v, nil
}

// stream writes a feed to one client. Each send is one write and one flush.
type stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	enc   render.Encoder
	hold  *render.Hold // nil: items are sent as they come
	whole bool
	turn  string
	buf   []byte
	items []render.Item // of the send under way
}

// encoderFor picks the form that the request accepts: NDJSON unless SSE is asked for.
func encoderFor(r *http.Request) render.Encoder {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			kind, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "text/event-stream":
				return render.SSE{Retry: sseRetry}
			case "application/x-ndjson":
				return render.NDJSON{}
			}
		}
	}
	return render.NDJSON{}
}

// begin sends the head of the answer and a first byte, so that no proxy takes the
// server for dead and sends the request again.
func begin(w http.ResponseWriter, t subjects.Turn, v view, resumed bool) (*stream, error) {
	s := &stream{w: w, rc: http.NewResponseController(w), enc: v.enc, whole: v.whole, turn: t.ID}
	if v.hold {
		s.hold = &render.Hold{Resumed: resumed}
	}
	h := w.Header()
	h.Set("Content-Type", s.enc.ContentType())
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Turnfold-Turn", t.ID)
	h.Set("Content-Location", "/v1/turns/"+t.ID)
	for name, value := range v.header {
		h.Set(name, value)
	}
	if s.whole {
		return s, nil
	}
	w.WriteHeader(http.StatusOK)
	s.buf = s.enc.Begin(s.buf[:0])
	s.buf = s.enc.Ping(s.buf, s.turn)
	return s, s.flush()
}

func (s *stream) ping() error {
	s.buf = s.enc.Ping(s.buf[:0], s.turn)
	return s.flush()
}

// takenBack is what a client that cannot retract is told when it would have to.
const takenBack = "What was sent of this turn has been taken back; read it from its start."

// send writes items that are waiting anyway as one.
func (s *stream) send(items ...render.Item) error {
	if s.hold == nil {
		return s.write(items)
	}
	s.items = s.items[:0]
	var err error
	for _, it := range items {
		if s.items, err = s.hold.Apply(s.items, it); err != nil {
			s.items = append(s.items, render.Item{Output: feed.Output{ID: "error.taken_back", Turn: s.turn,
				Body: &feed.Error{Message: takenBack, Class: "taken_back"}}})
			break
		}
	}
	err = errors.Join(s.write(s.items), err)
	clear(s.items)
	return err
}

func (s *stream) write(items []render.Item) error {
	s.buf = s.buf[:0]
	for _, it := range items {
		var err error
		if s.buf, err = s.enc.Append(s.buf, it); err != nil {
			return fmt.Errorf("send item %s: %w", it.ID, err)
		}
	}
	return s.flush()
}

// end writes what comes last; why is empty if the turn has ended.
func (s *stream) end(why string) error {
	s.buf = s.enc.End(s.buf[:0], why)
	if s.whole {
		status := http.StatusOK
		if e, ok := s.enc.(interface{ Status() int }); ok {
			status = e.Status()
		}
		s.w.WriteHeader(status)
	}
	return s.flush()
}

// fail ends the feed of a turn that could not be opened.
func (s *stream) fail(class, message string) error {
	return s.send(render.Item{Output: feed.Output{ID: "error." + class, Turn: s.turn,
		Body: &feed.Error{Message: message, Class: class}}})
}

func (s *stream) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	if cap(s.buf) > keptBytesMax {
		s.buf = nil // what the log had, or one large item, is not held for the rest of the feed
	}
	if cap(s.items) > keptItemsMax {
		s.items = nil
	}
	return s.rc.Flush()
}
