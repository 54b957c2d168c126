package keystore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// record is what the host knows of one claim.
type record struct {
	claimed    bool // by this host; else it only has a report on it
	call       string
	epoch      uint64
	generation int
	input      uint64
	identity   string // digest of what the key stood for; may be empty
	claimedAt  time.Time

	outcome    effect.Outcome // empty while there is no report
	class      string
	detail     string
	reportedAt time.Time
	place      place
	digest     [sha256.Size]byte
	body       []byte // if it is inline
}

// place is where the result body is.
type place byte

const (
	bodyNone      place = iota
	bodyInline          // in the record; its digest is computed when needed
	bodyRowed           // in its own row
	bodyElsewhere       // only the digest is known here
)

// bodyInlineMax is the largest body that is kept in its record. Above it, a row
// of its own costs less than reading past the body whenever facts are read.
const bodyInlineMax = 512

const (
	recordVersion = 1

	flagClaimed      = 1 << 0
	flagIdentity     = 1 << 1 // the identity follows, as 16 bytes
	flagIdentityText = 1 << 2 // or as text, if it is no digest of ours
	flagsKnown       = flagClaimed | flagIdentity | flagIdentityText
)

// outcomeCodes are stored; never reuse a number.
var outcomeCodes = []effect.Outcome{0: "", 1: effect.Succeeded, 2: effect.Failed, 3: effect.Unknown}

func outcomeCode(o effect.Outcome) (byte, bool) {
	for i, known := range outcomeCodes {
		if o == known {
			return byte(i), true
		}
	}
	return 0, false
}

func (r record) encode() []byte {
	b := make([]byte, 0, 64+len(r.call)+len(r.class)+len(r.detail)+len(r.body))
	code, _ := outcomeCode(r.outcome) // checked when the report came in
	flags := byte(0)
	if r.claimed {
		flags |= flagClaimed
	}
	digest, packed := packIdentity(r.identity)
	switch {
	case packed:
		flags |= flagIdentity
	case r.identity != "":
		flags |= flagIdentityText
	}
	b = append(b, recordVersion, flags, code, byte(r.place))
	switch {
	case packed:
		b = append(b, digest...)
	case r.identity != "":
		b = appendText(b, r.identity)
	}
	b = appendText(b, r.call)
	b = binary.AppendUvarint(b, r.epoch)
	b = binary.AppendUvarint(b, uint64(r.generation))
	b = binary.AppendUvarint(b, r.input)
	b = appendTime(b, r.claimedAt)
	if r.outcome == "" {
		return b
	}
	b = appendTime(b, r.reportedAt)
	b = appendText(b, r.class)
	b = appendText(b, r.detail)
	switch r.place {
	case bodyInline:
		b = append(b, r.body...)
	case bodyRowed, bodyElsewhere:
		b = append(b, r.digest[:]...)
	}
	return b
}

func decodeRecord(b []byte) (record, error) {
	if len(b) < 4 || b[0] != recordVersion || b[1]&^flagsKnown != 0 || int(b[2]) >= len(outcomeCodes) || place(b[3]) > bodyElsewhere {
		return record{}, fmt.Errorf("%w: record head %x", ErrCorrupt, b[:min(4, len(b))])
	}
	r := record{claimed: b[1]&flagClaimed != 0, outcome: outcomeCodes[b[2]], place: place(b[3])}
	d := reader{rest: b[4:]}
	switch b[1] & (flagIdentity | flagIdentityText) {
	case flagIdentity:
		r.identity = hex.EncodeToString(d.bytes(identityBytes))
	case flagIdentityText:
		r.identity = d.text()
	}
	r.call = d.text()
	r.epoch = d.number()
	r.generation = int(d.number())
	r.input = d.number()
	r.claimedAt = d.time()
	if r.outcome != "" {
		r.reportedAt = d.time()
		r.class = d.text()
		r.detail = d.text()
		switch r.place {
		case bodyInline:
			r.body, d.rest = d.rest, nil
			r.digest = sha256.Sum256(r.body)
		case bodyRowed, bodyElsewhere:
			copy(r.digest[:], d.bytes(len(r.digest)))
		}
	}
	if d.short || len(d.rest) > 0 {
		return record{}, fmt.Errorf("%w: record %x", ErrCorrupt, b)
	}
	return r, nil
}

// bodyDigest is empty if there is no body.
func (r record) bodyDigest() string {
	if r.place == bodyNone {
		return ""
	}
	return hex.EncodeToString(r.digest[:])
}

func (r record) claimFact(host, token string) effect.Fact {
	return effect.Fact{Kind: effect.KindClaim, Token: token, Call: r.call, Epoch: r.epoch,
		Generation: r.generation, Host: host, Input: r.input, Identity: r.identity}
}

func (r record) reportFact(host, token string) effect.Fact {
	return effect.Fact{Kind: effect.KindReport, Token: token, Call: r.call, Generation: r.generation,
		Outcome: r.outcome, ErrorClass: r.class, Detail: r.detail, BodyDigest: r.bodyDigest(), Host: host}
}

func (r record) intent(key, token string) Intent {
	return Intent{Key: key, Token: token, Call: r.call, Epoch: r.epoch, Generation: r.generation,
		Input: r.input, Identity: r.identity, At: r.claimedAt}
}

func (r record) report(key, token string) Report {
	return Report{Key: key, Token: token, Call: r.call, Generation: r.generation, Outcome: r.outcome,
		ErrorClass: r.class, Detail: r.detail, Body: r.body, BodyDigest: r.bodyDigest(), At: r.reportedAt}
}

// identityBytes is the length of effect.IdentityDigest, which spells it in hex.
const identityBytes = 16

// packIdentity gives the bytes of an identity's digest, or false for any other text.
func packIdentity(identity string) ([]byte, bool) {
	if len(identity) != 2*identityBytes || strings.ContainsAny(identity, "ABCDEF") {
		return nil, false
	}
	b, err := hex.DecodeString(identity)
	return b, err == nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendTime keeps milliseconds; 0 is the zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, t.UnixMilli())
}

// reader takes values off the front of rest; short tells that one was cut.
type reader struct {
	rest  []byte
	short bool
}

func (d *reader) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.rest, d.short = nil, true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *reader) text() string {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.rest, d.short = nil, true
		return ""
	}
	return string(d.bytes(int(n)))
}

// bytes takes n bytes; they are those of the record.
func (d *reader) bytes(n int) []byte {
	if n > len(d.rest) {
		d.rest, d.short = nil, true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *reader) time() time.Time {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.rest, d.short = nil, true
		return time.Time{}
	}
	d.rest = d.rest[size:]
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
