package keystore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/turnfold/turnfold/subjects/effect"
)

// The rows, by first byte. All facts of a key lie together.
//
//	'k' key 't' token -> record          what is known of one claim
//	'k' key 'n' call  -> nothing         the call was withdrawn
//	'b' key token     -> bytes           a result body too large for its record
//	'p' key token     -> incarnation,    the claim is pending: not reported, or
//	                     command         its report is not published yet
//	'u' key call      -> doubt           an unknown outcome that its target is asked about
//	'm' name          -> number          of the store itself
//
// The pending rows are the index that makes a start fast: it reads them alone,
// however many keys there are.
const (
	rowFact    = 'k'
	rowBody    = 'b'
	rowPending = 'p'

	factToken  = 't'
	factNotRun = 'n'
)

var (
	rowVersion     = []byte("mversion")
	rowIncarnation = []byte("mincarnation")
)

// Packed texts start with one of these. Keys and UUIDs are most of what is
// stored, and their bytes do not compress, so they are stored as bytes.
const (
	packedText = 0 // length, bytes
	packedKey  = 1 // 32 bytes
	packedUUID = 2 // 16 bytes
)

// pack appends text such that no packed text is a prefix of another.
func pack(dst []byte, text string) []byte {
	if strings.HasPrefix(text, effect.KeyPrefix) {
		if sum, err := effect.ParseKey(text); err == nil {
			return append(append(dst, packedKey), sum[:]...)
		}
	}
	if id, ok := parseUUID(text); ok {
		return append(append(dst, packedUUID), id[:]...)
	}
	dst = binary.AppendUvarint(append(dst, packedText), uint64(len(text)))
	return append(dst, text...)
}

// parseUUID reads a UUID as its String spells it, and no other way of spelling one.
func parseUUID(text string) (id uuid.UUID, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	n := 0
	for i := 0; i < len(text); i += 2 {
		if text[i] == '-' {
			i++
		}
		high, low := hexDigit(text[i]), hexDigit(text[i+1])
		if high > 15 || low > 15 {
			return id, false
		}
		id[n] = high<<4 | low
		n++
	}
	return id, true
}

// hexDigit is the value of a lower-case digit; above 15 for anything else.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// unpack reads a packed text from the start of b, and returns what follows.
func unpack(b []byte) (text string, rest []byte, err error) {
	n, err := packedLen(b)
	if err != nil {
		return "", nil, err
	}
	rest = b[n:]
	switch b[0] {
	case packedKey:
		return effect.FormatKey([32]byte(b[1:n])), rest, nil
	case packedUUID:
		return uuid.UUID(b[1:n]).String(), rest, nil
	}
	_, size := binary.Uvarint(b[1:])
	return string(b[1+size : n]), rest, nil
}

// packedLen is the length of the packed text at the start of b.
func packedLen(b []byte) (int, error) {
	switch {
	case len(b) > 32 && b[0] == packedKey:
		return 33, nil
	case len(b) > 16 && b[0] == packedUUID:
		return 17, nil
	case len(b) > 0 && b[0] == packedText:
		if n, size := binary.Uvarint(b[1:]); size > 0 && n <= uint64(len(b)-1-size) {
			return 1 + size + int(n), nil
		}
	}
	return 0, fmt.Errorf("%w: packed text %q", ErrCorrupt, b)
}

// newRow starts a row of a key, with room for the rest of most.
func newRow(kind byte, key string) []byte {
	return pack(append(make([]byte, 0, 64), kind), key)
}

// factRow is the start of all fact rows of key.
func factRow(key string) []byte { return newRow(rowFact, key) }

func tokenRow(key, token string) []byte { return pack(append(factRow(key), factToken), token) }

func notRunRow(key, call string) []byte { return append(append(factRow(key), factNotRun), call...) }

func bodyRow(key, token string) []byte { return pack(newRow(rowBody, key), token) }

func pendingRow(key, token string) []byte { return pack(newRow(rowPending, key), token) }

// within bounds an iterator to the rows that start with prefix. No prefix here
// ends in 0xff all through, because each starts with a letter.
func within(prefix []byte) *pebble.IterOptions {
	end := slices.Clone(prefix)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return &pebble.IterOptions{LowerBound: prefix, UpperBound: end[:i+1]}
		}
	}
}

// get returns a copy of the value of row.
func get(r pebble.Reader, row []byte) (value []byte, ok bool, err error) {
	v, closer, err := r.Get(row)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	value = slices.Clone(v)
	return value, true, closer.Close()
}

// set and del fill a batch, which holds no more than memory can: they cannot
// fail, and a batch that did would fail to commit.
func set(b *pebble.Batch, row, value []byte) { _ = b.Set(row, value, nil) }
func del(b *pebble.Batch, row []byte)        { _ = b.Delete(row, nil) }
