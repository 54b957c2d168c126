package provider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tmaxmax/go-sse"

	"github.com/turnfold/turnfold/subjects/event"
)

// lines reads ahead to a line's end. The SSE parser looks at its whole buffer again
// after each read, so that an event of many megabytes that arrives in small packets
// would cost the square of its size. No event ends without a line end, so waiting for
// one delays nothing. An error comes alone, after the bytes before it: otherwise it
// would depend on the packets whether an event at the limit is over it.
type lines struct {
	r   io.Reader
	err error
}

func (l *lines) Read(p []byte) (n int, err error) {
	for n < len(p) && l.err == nil {
		var m int
		m, l.err = l.r.Read(p[n:])
		n += m
		if bytes.IndexByte(p[n-m:n], '\n') >= 0 || bytes.IndexByte(p[n-m:n], '\r') >= 0 {
			break
		}
	}
	if n == 0 {
		err = l.err
	}
	return n, err
}

// readEvents hands each event's type and data to take, until it is done, fails, or the
// stream ends. The data is valid during the call. An event that the end of the stream
// cut is dropped, as the SSE specification says; so is one without data.
func readEvents(r io.Reader, bytesMax int, take func(name string, data []byte) (done bool, err error)) error {
	var buf []byte
	for ev, err := range sse.Read(&lines{r: r}, &sse.ReadConfig{MaxEventSize: bytesMax}) {
		if errors.Is(err, bufio.ErrTooLong) {
			// Another attempt would be as long, so it is no use to retry; and the
			// operator must learn which limit to raise.
			return &Fault{Class: event.ServerError, Detail: fmt.Sprintf("a server-sent event is over the limit of %d bytes", bytesMax)}
		}
		if err != nil {
			return err
		}
		if ev.Data == "" {
			continue
		}
		buf = append(buf[:0], ev.Data...)
		if done, err := take(ev.Type, buf); done || err != nil {
			return err
		}
	}
	return nil
}

// peeked looks whether a body that is not declared as an event stream is one all the
// same: compatible servers get the type wrong, and proxies answer 200 with a page. No
// line of an event stream begins with a brace, bracket or angle.
func peeked(body io.Reader) (r io.Reader, isStream bool) {
	br := bufio.NewReader(body)
	first, err := br.Peek(1)
	return br, err != nil || bytes.IndexByte([]byte("{[<"), first[0]) < 0
}
