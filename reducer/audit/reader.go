package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// lineBytesMax bounds a line of a bundle: the largest message, every byte of it
// escaped. A longer one is hostile.
const lineBytesMax = 64 << 20

// ErrForeign: a bundle, but not one of this kind, deployment or signer.
var ErrForeign = errors.New("bundle is foreign")

// Reader reads a bundle and believes nothing: every line is held against the chain
// before it is looked at.
type Reader struct {
	// Head is known from NewReader on, Manifest from the end on.
	Head     Head
	Manifest Manifest
	// Key is the signer's, if the bundle is signed; known from the end on.
	Key ed25519.PublicKey

	scan  *bufio.Scanner
	chain [32]byte
	line  uint64
	seen  Manifest
}

func broken(line uint64, format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %w", ErrBundle, line, fmt.Errorf(format, args...))
}

// NewReader reads the head.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{scan: bufio.NewScanner(r)}
	b.scan.Buffer(make([]byte, 64<<10), lineBytesMax)
	b.scan.Split(WholeLines)
	raw, err := b.record()
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, broken(1, "there is no head")
	}
	if err := Strict(raw, &b.Head); err != nil || b.Head.Type != bundleType {
		return nil, fmt.Errorf("%w: it is no %s: %w", ErrForeign, bundleType, errors.Join(err, errors.New("no head")))
	}
	if b.Head.Format > BundleFormat || b.Head.Schema > subjects.Version || b.Head.Rules > event.Rules {
		return nil, fmt.Errorf("bundle: %w: format %d, schema %d, rules %d; known are %d, %d, %d", subjects.ErrNewer,
			b.Head.Format, b.Head.Schema, b.Head.Rules, BundleFormat, subjects.Version, event.Rules)
	}
	if b.Head.From, err = ParsePositions(b.Head.FromText); err != nil || len(b.Head.From) != b.Head.Partitions || b.Head.Partitions < 1 {
		return nil, broken(1, "from %q is not of %d partitions", b.Head.FromText, b.Head.Partitions)
	}
	b.seen = Manifest{Format: b.Head.Format, Deployment: b.Head.Deployment, Streams: map[string]Range{},
		Pinned: map[string]uint64{}, Rules: map[string]uint64{}}
	return b, nil
}

// WholeLines splits at newlines, and does not take a last line without one for whole.
func WholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// Strict reads JSON that has no member twice, none unknown, and no depth to drown in.
func Strict(raw []byte, v any) error {
	return json.Unmarshal(raw, v, json.RejectUnknownMembers(true))
}

// record is the next record's bytes; nil at the manifest.
func (b *Reader) record() ([]byte, error) {
	b.line++
	if !b.scan.Scan() {
		switch err := b.scan.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return nil, broken(b.line, "it is longer than %d bytes", lineBytesMax)
		case err != nil:
			return nil, broken(b.line, "it is cut off: %w", err)
		}
		return nil, broken(b.line, "the bundle is cut off: there is no manifest")
	}
	text := b.scan.Bytes()
	if bytes.HasPrefix(text, []byte(`{"manifest":`)) {
		return nil, b.end(bytes.TrimSuffix(text, []byte("\n")))
	}
	const frame = len(lineHead) + 64 + len(lineMid)
	if len(text) < frame+len(lineTail) || string(text[:len(lineHead)]) != lineHead ||
		string(text[frame-len(lineMid):frame]) != lineMid || string(text[len(text)-len(lineTail):]) != lineTail {
		return nil, broken(b.line, "it is no line of a bundle")
	}
	raw := text[frame : len(text)-len(lineTail)]
	next := link(b.chain, raw)
	if string(text[len(lineHead):len(lineHead)+64]) != hex.EncodeToString(next[:]) {
		return nil, broken(b.line, "it, or the line before it, was changed, moved, added or taken away: the chain breaks")
	}
	b.chain = next
	return raw, nil
}

// Next is the next message and its stream; io.EOF at the end of a bundle that is whole.
func (b *Reader) Next() (string, jet.Msg, error) {
	raw, err := b.record()
	if err != nil {
		return "", jet.Msg{}, err
	}
	if raw == nil {
		return "", jet.Msg{}, io.EOF
	}
	var r Record
	if err := Strict(raw, &r); err != nil {
		return "", jet.Msg{}, broken(b.line, "%w", err)
	}
	m, err := r.Msg()
	if err != nil {
		return "", m, broken(b.line, "%w", err)
	}
	b.seen.count(r.Stream, m)
	return r.Stream, m, nil
}

// Line is the number of the last line read.
func (b *Reader) Line() uint64 { return b.line }

func (b *Reader) end(text []byte) error {
	var c closing
	if err := Strict(text, &c); err != nil {
		return broken(b.line, "manifest: %w", err)
	}
	again, err := json.Marshal(c)
	if err != nil || !bytes.Equal(again, text) {
		return broken(b.line, "manifest: it is not as it was written")
	}
	if err := Strict(c.Manifest, &b.Manifest); err != nil {
		return broken(b.line, "manifest: %w", err)
	}
	b.seen.Chain, b.seen.Lines = hex.EncodeToString(b.chain[:]), b.line-1
	if b.line == 1 || !reflect.DeepEqual(b.seen, b.Manifest) {
		return broken(b.line, "manifest: it is of %d lines ending in %.16s…, here are %d ending in %.16s…",
			b.Manifest.Lines, b.Manifest.Chain, b.seen.Lines, b.seen.Chain)
	}
	if b.scan.Scan() || b.scan.Err() != nil {
		return broken(b.line+1, "something follows the manifest")
	}
	if c.Signature == "" && c.Key == "" {
		return nil
	}
	key, err1 := hex.DecodeString(c.Key)
	sig, err2 := hex.DecodeString(c.Signature)
	if err := errors.Join(err1, err2); err != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, c.Manifest, sig) {
		return broken(b.line, "the signature does not fit the manifest")
	}
	b.Key = key
	return nil
}
