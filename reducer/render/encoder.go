package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/turnfold/turnfold/subjects/feed"
)

// Item is an item of a feed, with the bytes it was read from if there are any. They
// pass through unchanged, so that a reader gets what the log holds, members that this
// binary does not know included.
type Item struct {
	feed.Output
	Raw []byte
}

// Read decodes an item of the log.
func Read(raw []byte) (Item, error) {
	o, err := feed.Decode(raw)
	if err != nil {
		return Item{}, fmt.Errorf("read item: %w", err)
	}
	return Item{o, raw}, nil
}

func (i Item) bytes() ([]byte, error) {
	if i.Raw != nil {
		return i.Raw, nil
	}
	return feed.Encode(i.Output)
}

// errLine: an item cannot be a line of its own.
var errLine = errors.New("render: item holds a line break")

// Encoder writes a feed in the form that one kind of client reads. Every method
// appends to dst, like append.
type Encoder interface {
	ContentType() string
	// Begin is what comes before the first item.
	Begin(dst []byte) []byte
	Append(dst []byte, it Item) ([]byte, error)
	// Ping shows that the connection lives, and changes nothing.
	Ping(dst []byte, turn string) []byte
	// End is what comes last. Why is empty after an item that ends the turn; else it says
	// to people why no more comes although the turn has not ended.
	End(dst []byte, why string) []byte
}

// NDJSON is one JSON object a line.
type NDJSON struct{}

// ContentType is application/x-ndjson.
func (NDJSON) ContentType() string { return "application/x-ndjson" }

// Begin adds nothing.
func (NDJSON) Begin(dst []byte) []byte { return dst }

// Append adds the item's line.
func (NDJSON) Append(dst []byte, it Item) ([]byte, error) {
	raw, err := it.bytes()
	if err != nil {
		return dst, err
	}
	if bytes.IndexByte(raw, '\n') >= 0 {
		return dst, errLine
	}
	return append(append(dst, raw...), '\n'), nil
}

// Ping adds an item of type ping.
func (NDJSON) Ping(dst []byte, turn string) []byte {
	raw, err := feed.Encode(feed.Output{Turn: turn, Body: &feed.Ping{}})
	if err != nil {
		return append(dst, '\n') // an empty line is skipped too
	}
	return append(append(dst, raw...), '\n')
}

// End adds nothing: the last item says that it is the last.
func (NDJSON) End(dst []byte, _ string) []byte { return dst }

// SSE is Server-Sent Events: the item's id is the event's, so that a browser goes on
// from there by itself.
type SSE struct {
	// Retry is how long the browser waits before it connects again. Zero leaves it to
	// the browser.
	Retry time.Duration
}

// ContentType is text/event-stream.
func (SSE) ContentType() string { return "text/event-stream" }

// Begin adds the reconnection time.
func (s SSE) Begin(dst []byte) []byte {
	if s.Retry <= 0 {
		return dst
	}
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, s.Retry.Milliseconds(), 10)
	return append(dst, "\n\n"...)
}

// Append adds the item's event. It has no event name: all of them reach onmessage,
// and readers look at the type.
func (SSE) Append(dst []byte, it Item) ([]byte, error) {
	raw, err := it.bytes()
	if err != nil {
		return dst, err
	}
	if bytes.ContainsAny(raw, "\r\n") {
		return dst, errLine
	}
	if it.ID != "" {
		dst = append(append(append(dst, "id: "...), it.ID...), '\n')
	}
	dst = append(append(dst, "data: "...), raw...)
	return append(dst, "\n\n"...), nil
}

// Ping adds a comment.
func (SSE) Ping(dst []byte, _ string) []byte { return append(dst, ": ping\n\n"...) }

// End adds nothing: a browser connects again, and gets the rest or is stopped.
func (SSE) End(dst []byte, _ string) []byte { return dst }

// Lines writes items to w as they are, for readers that are programs.
type Lines struct{ W io.Writer }

// Apply writes one item's line.
func (l Lines) Apply(it Item) error {
	line, err := NDJSON{}.Append(nil, it)
	if err != nil {
		return err
	}
	_, err = l.W.Write(line)
	return err
}
