// Package replay plays a model provider from recordings of its bytes, and makes such
// recordings.
//
// Invariant: what a client gets is what the recording and its fault say, byte for byte,
// and nothing else: no write is merged, held back, repaired or repeated, equal requests
// in equal order get equal bytes, and every request is counted before it is answered. A
// recording holds a body exactly as it came, and no secret of the request's headers or
// address.
//
// Servers built on net/http can do neither: they merge small writes, and cannot reset a
// connection before the answer's head or in the middle of a chunk on purpose.
package replay

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"
)

// version of the file format. An older binary refuses a newer one.
const version = 1

// Recording is one request and what a provider answered, byte for byte.
type Recording struct {
	// Name is the file's name without its folder, for people.
	Name string
	// Request is zero for a recording that is only a body: it answers any request.
	Request  Request
	Response Response
}

// Request is what was asked. Secrets in its headers and address are redacted; its body
// is as it was sent.
type Request struct {
	Method string
	Path   string // with its query
	Header http.Header
	Body   []byte
}

// Response is what came.
type Response struct {
	Status int
	Header http.Header // without what frames the body: the server frames it anew
	Body   []byte
	// Writes are the pieces in which the body came. Their lengths add up to the body's.
	Writes []Write
	End    End
}

// Write is one piece of a body.
type Write struct {
	After time.Duration // since the request
	Bytes int
}

// End is how an answer ends.
type End string

// The ends.
const (
	// EndRecorded is the end that the recording has.
	EndRecorded End = ""
	// EndEOF is a clean end of the body, as any HTTP layer sees it.
	EndEOF End = "eof"
	// EndClose closes the connection inside the body.
	EndClose End = "close"
	// EndReset breaks the connection with a TCP reset.
	EndReset End = "reset"
	// EndHang sends nothing more until the client goes. A recording ends so whose client
	// went before the answer was over.
	EndHang End = "hang"
	// EndBefore resets the connection before the answer's first byte.
	EndBefore End = "before"
)

// Ends are the words for the ends that a fault can ask for.
var Ends = []End{EndEOF, EndClose, EndReset, EndHang, EndBefore}

// Body makes a recording of a body alone: a whole event stream in one write.
func Body(name string, body []byte) *Recording {
	r := &Recording{Name: name, Response: Response{Status: http.StatusOK, Body: body, End: EndEOF,
		Header: http.Header{"Content-Type": {"text/event-stream"}}}}
	if len(body) > 0 {
		r.Response.Writes = []Write{{Bytes: len(body)}}
	}
	return r
}

// file is a recording as it lies on disk. Names of members never change their meaning.
type file struct {
	V        int           `json:"v"`
	Request  *fileRequest  `json:"request,omitzero"`
	Response *fileResponse `json:"response"`
}

type fileRequest struct {
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Header http.Header `json:"headers,omitzero"`
	fileBody
}

type fileResponse struct {
	Status int         `json:"status"`
	Header http.Header `json:"headers,omitzero"`
	fileBody
	Writes []fileWrite `json:"writes,omitzero"`
	End    End         `json:"end"`
}

// fileBody is text where the bytes are UTF-8, so that people can read and edit it.
type fileBody struct {
	Text   *string `json:"body,omitzero"`
	Base64 *string `json:"body_base64,omitzero"`
}

type fileWrite struct {
	AfterMicros int64 `json:"after_us"`
	Bytes       int   `json:"bytes"`
}

func newFileBody(b []byte) fileBody {
	s := string(b)
	if !utf8.ValidString(s) {
		s = base64.StdEncoding.EncodeToString(b)
		return fileBody{Base64: &s}
	}
	return fileBody{Text: &s}
}

func (b fileBody) bytes(at string) ([]byte, error) {
	switch {
	case b.Text != nil && b.Base64 != nil:
		return nil, fmt.Errorf("%s.body and %s.body_base64: only one of them can be the body", at, at)
	case b.Base64 != nil:
		out, err := base64.StdEncoding.Strict().DecodeString(*b.Base64)
		if err != nil {
			return nil, fmt.Errorf("%s.body_base64: %w", at, err)
		}
		return out, nil
	case b.Text != nil:
		return []byte(*b.Text), nil
	}
	return nil, nil
}

// check reports every fault of a recording at once, each with its member.
func (f *file) check() error {
	if f.V != version {
		return fmt.Errorf("v: is %d; this turnfold reads %d", f.V, version)
	}
	if f.Response == nil {
		return errors.New("response: is missing")
	}
	var errs []error
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if q := f.Request; q != nil {
		if q.Method == "" {
			say("request.method: is missing")
		}
		if q.Path == "" || q.Path[0] != '/' {
			say("request.path: is %q; it must begin with a slash", q.Path)
		}
	}
	r := f.Response
	if r.Status < 200 || r.Status > 599 {
		say("response.status: is %d; it must be 200 to 599", r.Status)
	}
	switch r.End {
	case EndEOF, EndClose, EndReset, EndHang:
	case EndBefore:
		if r.Text != nil && *r.Text != "" || r.Base64 != nil && *r.Base64 != "" {
			say("response.end: is %q, so that there can be no body", r.End)
		}
	default:
		say("response.end: is %q; write one of %v", r.End, Ends)
	}
	return errors.Join(append(errs, checkHeader("response.headers", r.Header))...)
}

// checkWrites holds the pieces against the body.
func checkWrites(writes []Write, bodyBytes int) error {
	sum, last := 0, time.Duration(0)
	for i, w := range writes {
		at := fmt.Sprintf("response.writes[%d]", i)
		switch {
		case w.Bytes < 1:
			return fmt.Errorf("%s.bytes: is %d; a write has at least one byte", at, w.Bytes)
		case w.After < last:
			return fmt.Errorf("%s.after_us: is earlier than the write before it", at)
		}
		last = w.After
		sum += min(w.Bytes, fileBytesMax) // so that no number of writes overflows
	}
	if sum != bodyBytes {
		return fmt.Errorf("response.writes: they add up to %d bytes; the body has %d", sum, bodyBytes)
	}
	return nil
}
