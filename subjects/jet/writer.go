package jet

import (
	"context"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errSilent: the server neither stores nor says why.
var errSilent = errors.New("no word from the server")

const (
	orderedWindowMsgs  = 8192
	orderedWindowBytes = 32 << 20
	fencedWindowMsgs   = 1000
	fencedWindowBytes  = 16 << 20
)

// OrderedWriter adds messages to a stream that others write to as well.
//
// Invariant: its messages are stored in the order of Append, without a gap; after
// failures some may be stored again, as a repeat of a suffix of what is stored.
// Readers drop repeats.
//
// It may be used by several goroutines; the order of each is kept.
type OrderedWriter struct{ p *pipe }

// NewOrderedWriter makes a writer for the stream. Its goroutine starts at the first
// Append and ends with Close, or with the connection's.
func (c *Conn) NewOrderedWriter(stream string) *OrderedWriter {
	return &OrderedWriter{newPipe(c, stream, true, orderedWindowMsgs, orderedWindowBytes)}
}

// Append sends the message at once, or as soon as those before it could be sent. It
// blocks while too much is waiting. The writer keeps data until it is stored: do not
// change it. ErrRejected: too large, not appended.
func (w *OrderedWriter) Append(ctx context.Context, subject string, data []byte) error {
	_, err := w.p.append(ctx, entry{subject: subject, data: data}, nil)
	return err
}

// Flush returns when everything appended before is stored. An error says that ctx or
// the writer ended first; what was appended is still being sent until Close.
func (w *OrderedWriter) Flush(ctx context.Context) error { return w.p.flush(ctx) }

// Close flushes until ctx ends, and ends the writer in any case.
func (w *OrderedWriter) Close(ctx context.Context) error { return w.p.close(ctx) }

// FencedWriter is the only writer of a stream, for as long as it is.
//
// Invariant: its messages follow each other and the message it started after, with
// nothing between them. Each expects its predecessor's sequence, and a batch that
// tolerates no gap carries them. The expectation alone would not do: if a message is
// lost and another writer's takes its place, the next one's expectation holds again.
type FencedWriter struct {
	p    *pipe
	base uint64 // sequence of the message before the first
}

// NewFencedWriter makes a writer that continues the stream after sequence last (0: it
// is empty). Its goroutine starts at the first Append and ends with Close, or with
// the connection's.
func (c *Conn) NewFencedWriter(stream string, last uint64) *FencedWriter {
	return &FencedWriter{p: newPipe(c, stream, false, fencedWindowMsgs, fencedWindowBytes), base: last}
}

// Append sends the message and returns the sequence it will have if it is stored. It
// blocks while too much is waiting. After the first failure every call returns
// ErrFenced. ErrRejected: too large; nothing was sent and the writer goes on.
func (w *FencedWriter) Append(subject string, header map[string]string, data []byte) (uint64, error) {
	e := entry{subject: subject, header: toHeader(header), data: data}
	n, err := w.p.append(w.p.c.ctx, e, func(n uint64, h nats.Header) {
		h[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(w.base+n-1, 10)}
	})
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = ErrClosed
		}
		return 0, err
	}
	return w.base + n, nil
}

// Flush returns when everything appended before is stored, or with ErrFenced.
func (w *FencedWriter) Flush(ctx context.Context) error { return w.p.flush(ctx) }

// Err is ErrFenced once the writer has lost the stream, else nil.
func (w *FencedWriter) Err() error {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.err
}

// Last is the sequence of the last message appended; the next one will follow it.
func (w *FencedWriter) Last() uint64 {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.base + w.p.appended
}

// Stored is the sequence up to which messages are known to be stored.
func (w *FencedWriter) Stored() uint64 {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.base + w.p.acked
}

// Close flushes until ctx ends, and ends the writer in any case.
func (w *FencedWriter) Close(ctx context.Context) error { return w.p.close(ctx) }
