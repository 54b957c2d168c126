package keystore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// The bytes are frozen: they are on disks.
func TestRecordGolden(t *testing.T) {
	reported := Report{Key: "k", Token: "t", Call: "T1/1.0", Outcome: effect.Succeeded, ErrorClass: "e", Detail: "d", At: time.UnixMilli(300).UTC()}
	inline, rowed, elsewhere := reported, reported, reported
	inline.Body = []byte("body")
	rowed.Body = bytes.Repeat([]byte("x"), bodyInlineMax+1)
	elsewhere.BodyDigest = "ab00000000000000000000000000000000000000000000000000000000000000"
	for _, c := range []struct {
		name     string
		identity string
		rep      *Report
		want     string
	}{
		{"intent", "", nil, "0101000006" + "54312f312e30" + "0301ac02" + "9003"},
		{"no body", "", &reported, "0101010006" + "54312f312e30" + "0301ac02" + "9003" + "d804" + "0165" + "0164"},
		{"inline", "", &inline, "0101010106" + "54312f312e30" + "0301ac02" + "9003" + "d804" + "0165" + "0164" + "626f6479"},
		{"rowed", "", &rowed, "0101010206" + "54312f312e30" + "0301ac02" + "9003" + "d804" + "0165" + "0164" + "35ade0090e64e74d6ad04204009c23a4e34b82bdf0f4f317fbcc5f26f9b10241"},
		{"elsewhere", "", &elsewhere, "0101010306" + "54312f312e30" + "0301ac02" + "9003" + "d804" + "0165" + "0164" + elsewhere.BodyDigest},
		{"with an identity", effect.IdentityDigest(`{"order_id":"o-1"}`), &reported,
			"01030100" + "21fbcc9a1180d3749842735ce7bfc5af" + "06" + "54312f312e30" + "0301ac02" + "9003" + "d804" + "0165" + "0164"},
		{"with another's identity", "x", nil, "01050000" + "0178" + "06" + "54312f312e30" + "0301ac02" + "9003"},
	} {
		r := record{claimed: true, call: "T1/1.0", epoch: 3, generation: 1, input: 300, identity: c.identity, claimedAt: time.UnixMilli(200).UTC()}
		if c.rep != nil {
			after, err := c.rep.record()
			must(t, err)
			r, _, err = supersede(r, true, after)
			must(t, err)
		}
		b := r.encode()
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		back, err := decodeRecord(b)
		must(t, err)
		if r.place == bodyRowed {
			r.body = nil
		}
		if !reflect.DeepEqual(back, r) {
			t.Errorf("%s came back as %+v", c.name, back)
		}
		for n := range b {
			if _, err := decodeRecord(b[:n]); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s cut at %d: %v", c.name, n, err)
			} else if err == nil && r.place != bodyInline {
				t.Errorf("%s cut at %d was read", c.name, n)
			}
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte("\x01\x01\x01\x01\x01c\x00\x00\x00\x00\x00\x00\x00body"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		again, err := decodeRecord(r.encode())
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("\x00\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, rest, err := unpack(b)
		if err != nil {
			return
		}
		again, tail, err := unpack(append(pack(nil, text), rest...))
		if err != nil || again != text || !bytes.Equal(tail, rest) {
			t.Fatalf("%q came back as %q, %v", text, again, err)
		}
	})
}
