package jet

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrConflict: a compare-and-set did not apply, or may not have. It means look,
	// not lost: read the subject back and compare what is stored with what was sent.
	ErrConflict = errors.New("jet: conflict")
	// ErrUnclear: no answer, or none that says whether the write is stored. Read back,
	// or send again if a repeat does no harm.
	ErrUnclear = errors.New("jet: unclear whether stored")
	// ErrFull: the log has no room. What was to be written is most likely not stored;
	// look, as after ErrUnclear.
	ErrFull = errors.New("jet: log is full")
	// ErrRejected: the log refused the write and did not store it; the same write will
	// be refused again.
	ErrRejected = errors.New("jet: rejected")
	// ErrFenced: this writer no longer continues the stream. Drop all state that its
	// writes rest on, read the stream's last message, and start from there.
	ErrFenced = errors.New("jet: fenced")
	// ErrLayout: the deployment was created with another layout. Start with that one;
	// a layout cannot change.
	ErrLayout = errors.New("jet: layout differs")
	// ErrIdentity: a file that shows who this process is, or whom it trusts, is of no
	// use. Correct the configuration.
	ErrIdentity = errors.New("jet: cannot identify")
	// ErrRewound: the log ends before what this tail has delivered: its end was lost
	// and sequences are used again. Read again from what can be trusted.
	ErrRewound = errors.New("jet: log has lost its end")
	// ErrClosed: the connection or writer was closed by this process.
	ErrClosed = errors.New("jet: closed")
	// ErrCorrupt: stored content does not match its digest. It will not on another
	// try either; treat it as missing.
	ErrCorrupt = errors.New("jet: content does not match its digest")
	// ErrNotFound: no such content.
	ErrNotFound = errors.New("jet: not found")
)

// Codes of the server's answers. The client library has no names for the second
// and the third; its names for those of fast ingest are off by two.
const (
	codeWrongLastSeq         = 10071 // compare-and-set: the last sequence is another
	codeWrongLastSeqConstant = 10164 // compare-and-set: a write is in flight, at more than one replica
	codeNoResources          = 10023 // the account's or the server's limit of storage
	codeNoStorage            = 10047
	codeNotStored            = 10077 // the stream's limit, or an error of the disk
	codeStreamNotFound       = 10059
	codeNoMessage            = 10037
	codeNoPeers              = 10005 // no place for a replica: a peer is offline, say
)

// apiError is the server's error member.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// classify says in our terms what a failed write means for the caller.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var ours *apiError
	var theirs *jetstream.APIError
	switch {
	case errors.As(err, &ours):
		return classifyCode(ours.Code, ours.ErrCode, err)
	case errors.As(err, &theirs):
		return classifyCode(theirs.Code, int(theirs.ErrorCode), err)
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject),
		errors.Is(err, nats.ErrHeadersNotSupported), errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w: %w", ErrRejected, err)
	default: // timeouts, no responders, disconnects
		return fmt.Errorf("%w: %w", ErrUnclear, err)
	}
}

func classifyCode(status, code int, err error) error {
	switch {
	case code == codeWrongLastSeq || code == codeWrongLastSeqConstant:
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case code == codeNoResources || code == codeNoStorage || code == codeNotStored:
		return fmt.Errorf("%w: %w: %w", ErrUnclear, ErrFull, err)
	case status == 400 || status == 403:
		return fmt.Errorf("%w: %w", ErrRejected, err)
	default: // 404 while a stream moves, 429, 500, 503: may pass
		return fmt.Errorf("%w: %w", ErrUnclear, err)
	}
}

// ended says that the caller asked for the end.
func ended(ctx context.Context) bool { return ctx.Err() != nil }
