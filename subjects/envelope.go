package subjects

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the format version that every event and output carries as "v". It is
// raised only for a change that is not safe to ignore; see docs/architecture.md,
// "Growing the formats".
const Version = 1

// ErrNewer: written by a binary whose format this one does not know. Upgrade.
var ErrNewer = errors.New("subjects: format is newer than this binary")

// ErrMalformed: bytes that are no event or output. Set it aside; it stays malformed.
var ErrMalformed = errors.New("subjects: malformed")

// Seal joins the members of two structs into one JSON object, head first. Equal
// values give equal bytes: audits compare them.
func Seal(head, body any) ([]byte, error) {
	h, err := json.Marshal(head, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("seal head: %w", err)
	}
	b, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("seal body: %w", err)
	}
	if len(h) < 2 || len(b) < 2 || h[len(h)-1] != '}' || b[0] != '{' {
		return nil, fmt.Errorf("seal: head and body must be objects, not %.20s and %.20s", h, b)
	}
	if len(b) == 2 {
		return h, nil
	}
	out := make([]byte, 0, len(h)+len(b))
	out = append(out, h[:len(h)-1]...)
	if len(h) > 2 {
		out = append(out, ',')
	}
	return append(out, b[1:]...), nil
}

// Open decodes the members of data that v knows; others are left alone. Numbers and
// names are taken as they are: a repeated member or invalid UTF-8 is ErrMalformed.
func Open(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// IsObject reports whether data is one JSON object and nothing else.
func IsObject(data []byte) bool {
	t := bytes.TrimSpace(data)
	return len(t) > 0 && t[0] == '{' && jsontext.Value(t).IsValid()
}
