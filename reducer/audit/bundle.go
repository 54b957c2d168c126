package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// A bundle is a file of lines. Each is {"sha":"<hex>","r":<record>}, where sha is the
// SHA-256 of the line's predecessor's sha and the record's bytes: a byte that is
// changed, missing, added or moved breaks the chain at its line. The first record is
// the Head; then come the owners' notes, the facts of effects, and events and outputs
// as cause and effect. The last line is {"manifest":…}, optionally signed; without it
// a bundle is cut off.

// BundleFormat is raised for a change that is not safe to ignore.
const BundleFormat = 1

// ErrBundle: bytes that are no whole bundle. The error says where and why.
var ErrBundle = errors.New("bundle is broken")

// Head says what a bundle is of.
type Head struct {
	Type       string    `json:"type"` // turnfold-bundle
	Format     int       `json:"format"`
	Deployment string    `json:"deployment"`
	Partitions int       `json:"partitions"`
	Turn       string    `json:"turn,omitzero"`  // tenant/turn, if it is of one
	Since      string    `json:"since,omitzero"` // RFC 3339, if it begins in the middle
	From       Positions `json:"-"`
	FromText   string    `json:"from"` // first sequences, ev:out for each partition
	Created    string    `json:"created"`
	Binary     string    `json:"binary"` // version of the writer
	Schema     int       `json:"schema"` // newest format of events and outputs that the writer knew
	Rules      int       `json:"rules"`  // newest rules of the fold that the writer knew
}

const bundleType = "turnfold-bundle"

// Record is a stored message in a bundle.
type Record struct {
	Stream  string            `json:"stream"`
	Seq     uint64            `json:"seq"`
	Subject string            `json:"subject"`
	Header  map[string]string `json:"header,omitzero"`
	Time    time.Time         `json:"time"`
	Data    string            `json:"data,omitzero"`   // as it was stored
	Data64  string            `json:"data64,omitzero"` // in base64, if it is no text
}

func recordOf(stream string, m jet.Msg) Record {
	r := Record{Stream: stream, Seq: m.Seq, Subject: m.Subject, Header: m.Header, Time: m.Time.UTC()}
	if utf8.Valid(m.Data) {
		r.Data = string(m.Data)
	} else {
		r.Data64 = base64.StdEncoding.EncodeToString(m.Data)
	}
	return r
}

// Msg is the message as the log had it.
func (r Record) Msg() (jet.Msg, error) {
	m := jet.Msg{Seq: r.Seq, Subject: r.Subject, Header: r.Header, Time: r.Time, Data: []byte(r.Data)}
	if r.Data64 != "" {
		var err error
		if m.Data, err = base64.StdEncoding.DecodeString(r.Data64); err != nil {
			return m, fmt.Errorf("%w: data64: %w", ErrBundle, err)
		}
	}
	return m, nil
}

// Range is what a bundle has of a stream.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Count uint64 `json:"count"`
}

// Manifest closes a bundle.
type Manifest struct {
	Format     int              `json:"format"`
	Deployment string           `json:"deployment"`
	Chain      string           `json:"chain"` // sha of the last record
	Lines      uint64           `json:"lines"` // records, the head included
	Turns      uint64           `json:"turns"` // opened in it
	Streams    map[string]Range `json:"streams"`
	// Pinned counts the turns by what they were opened with: the digest of their tools,
	// route and policy.
	Pinned map[string]uint64 `json:"pinned"`
	Rules  map[string]uint64 `json:"rules"` // turns by version of the fold's rules
}

// closing is a bundle's last line.
type closing struct {
	Manifest  json0  `json:"manifest"`
	Key       string `json:"key,omitzero"`       // ed25519, hex
	Signature string `json:"signature,omitzero"` // over the manifest's bytes, hex
}

// json0 is JSON that is kept as it is.
type json0 []byte

// MarshalJSON and UnmarshalJSON keep the bytes: they are what is signed.
func (j json0) MarshalJSON() ([]byte, error) { return j, nil }

// UnmarshalJSON copies the bytes.
func (j *json0) UnmarshalJSON(b []byte) error { *j = append((*j)[:0], b...); return nil }

// link chains a record to what is before it.
func link(before [32]byte, record []byte) [32]byte {
	h := sha256.New()
	h.Write(before[:])
	h.Write(record)
	return [32]byte(h.Sum(nil))
}

// Writer writes a bundle.
type Writer struct {
	w     io.Writer
	chain [32]byte
	m     Manifest
	buf   []byte
}

// NewWriter writes the head of a bundle.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	h.Type, h.Format, h.Schema, h.Rules = bundleType, BundleFormat, subjects.Version, event.Rules
	h.FromText = h.From.String()
	b := &Writer{w: w, m: Manifest{Format: BundleFormat, Deployment: h.Deployment, Streams: map[string]Range{},
		Pinned: map[string]uint64{}, Rules: map[string]uint64{}}}
	return b, b.line(h)
}

func (b *Writer) line(v any) error {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	b.chain = link(b.chain, raw)
	b.buf = append(append(append(append(append(b.buf[:0], lineHead...), hex.EncodeToString(b.chain[:])...), lineMid...), raw...), lineTail...)
	b.m.Lines++
	_, err = b.w.Write(b.buf)
	return err
}

// how a line is framed, to the byte.
const (
	lineHead = `{"sha":"`
	lineMid  = `","r":`
	lineTail = "}\n"
)

// Add writes a message of a stream.
func (b *Writer) Add(stream string, m jet.Msg) error {
	b.m.count(stream, m)
	return b.line(recordOf(stream, m))
}

// count keeps the manifest's figures; the reader keeps them too, and compares.
func (m *Manifest) count(stream string, msg jet.Msg) {
	r := m.Streams[stream]
	if r.Count == 0 {
		r.First = msg.Seq
	}
	r.First, r.Last = min(r.First, msg.Seq), max(r.Last, msg.Seq)
	r.Count++
	m.Streams[stream] = r
	body, err := event.Decode(msg.Data)
	if opened, ok := body.(*event.TurnOpened); err == nil && ok {
		m.Turns++
		m.Pinned[pinnedDigest(opened)]++
		m.Rules[fmt.Sprint(opened.Rules)]++
	}
}

func pinnedDigest(o *event.TurnOpened) string {
	raw, err := json.Marshal([]any{o.Tools, o.Route, o.Entries, o.Policy}, json.Deterministic(true))
	if err != nil {
		return "unreadable"
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Close writes the manifest, signed if there is a key.
func (b *Writer) Close(key ed25519.PrivateKey) error {
	b.m.Chain = hex.EncodeToString(b.chain[:])
	raw, err := json.Marshal(b.m, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	c := closing{Manifest: raw}
	if key != nil {
		c.Key = hex.EncodeToString(key.Public().(ed25519.PublicKey))
		c.Signature = hex.EncodeToString(ed25519.Sign(key, raw))
	}
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	_, err = b.w.Write(append(line, '\n'))
	return err
}
