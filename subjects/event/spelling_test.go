package event

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/subjects"
)

// long reads a body without any short way.
func long(data []byte) (Body, bool) {
	var h head
	if subjects.Open(data, &h) != nil || h.V != subjects.Version {
		return nil, false
	}
	b, ok := New(h.Kind)
	return b, ok && subjects.Open(data, b) == nil
}

// What the short way reads, the long way reads the same; and it reads what Encode
// writes, or the speed of every reader is gone.
func TestShortWay(t *testing.T) {
	piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain words", `"`, `\`, "\n", "\x7f", "é", "😀", "\u2028", `\u0041`, `","text":"`}))
	rapid.Check(t, func(t *rapid.T) {
		at := At{Step: rapid.Int().Draw(t, "step"), Attempt: rapid.IntRange(0, 20).Draw(t, "attempt"),
			Token: piece.Draw(t, "token"), Ord: rapid.IntRange(0, 1<<32).Draw(t, "ord")}
		text := piece.Draw(t, "text")
		for _, b := range []Body{&TextDelta{At: at, Text: text}, &ReasoningDelta{At: at, Text: text}} {
			data, err := Encode(b)
			if err != nil {
				t.Fatal(err)
			}
			if got := ownDelta(data); got != nil && !reflect.DeepEqual(got, b) {
				t.Fatalf("%s is read as %+v", data, got)
			}
			if got, err := Decode(data); err != nil || !reflect.DeepEqual(got, b) {
				t.Fatalf("%s is read as %+v, %v", data, got, err)
			}
			i := rapid.IntRange(0, len(data)-1).Draw(t, "place") // a byte is changed, lost or added
			c := rapid.Byte().Draw(t, "byte")
			for _, bad := range [][]byte{append(append(append([]byte{}, data[:i]...), c), data[i+1:]...),
				append(append([]byte{}, data[:i]...), data[i+1:]...), append(append(append([]byte{}, data[:i]...), c), data[i:]...)} {
				want, ok := long(bad)
				if got := ownDelta(bad); got != nil && (!ok || !reflect.DeepEqual(got, want)) {
					t.Fatalf("%s is read as %+v; without the short way as %+v, %v", bad, got, want, ok)
				}
			}
		}
	})
	at := At{Step: 1, Attempt: 2, Token: "0197f3e2-7c6e", Ord: 123}
	for _, b := range []Body{&TextDelta{At: at, Text: "Grüße, 😀 <&>"}, &ReasoningDelta{At: at, Text: "so"}} {
		if data, err := Encode(b); err != nil || !reflect.DeepEqual(ownDelta(data), b) {
			t.Errorf("%s takes the long way: %v", data, err)
		}
	}
	for _, foreign := range []string{"", `{"v":1,"kind":"text.delta"}`, `{"v":1,"kind":"turn.cancelled"}`,
		`{"v":1,"kind":"text.delta","step":01,"attempt":1,"token":"t","ord":0,"text":"a"}`,
		`{"v":1,"kind":"text.delta","step":1,"attempt":1,"token":"t","ord":12345678901,"text":"a"}`,
		`{"v":1,"kind":"text.delta","step":1,"attempt":1,"token":"t","ord":0,"text":"a"} `,
		"{\"v\":1,\"kind\":\"text.delta\",\"step\":1,\"attempt\":1,\"token\":\"t\",\"ord\":0,\"text\":\"\xff\"}",
		"{\"v\":1,\"kind\":\"text.delta\",\"step\":1,\"attempt\":1,\"token\":\"t\",\"ord\":0,\"text\":\"\x1f\"}"} {
		if b := ownDelta([]byte(foreign)); b != nil {
			t.Errorf("%s is read as %+v", foreign, b)
		}
	}
}

// A sum is the same however large the event is, and is recognized by its own spelling alone.
func TestSums(t *testing.T) {
	// Computed by another program: sha256("tf.ev.0.a.b" NUL data), the first 16 bytes.
	for data, want := range map[string]string{
		"":                         "82500b4b540d78d11207313c08a11c71",
		`{"v":1}`:                  "b2f9708c29f07dd1b1d7c9cb43930c18",
		strings.Repeat("x", 1012):  "09cc5ab9f1dee99042ac98f1c7437747", // the last that is summed in one piece
		strings.Repeat("x", 1013):  "b6c378ac61567a4e1001646562498896",
		strings.Repeat("x", 1<<20): "af406081d07e0b78db6bf3a961705e56",
	} {
		s := SumOf("tf.ev.0.a.b", []byte(data))
		if s.String() != want || !s.Spells(want) || s.Spells(strings.ToUpper(want)) || s.Spells(want[1:]) || s.Spells(want+"0") || s.Spells("") {
			t.Errorf("the sum of %d bytes is %s, want %s", len(data), s, want)
		}
	}
	if got, want := (Sum{1}).Then(Sum{2}).String(), "e351f32bf7c347d287d57187497bec3d"; got != want {
		t.Errorf("the chain is %s, want %s", got, want)
	}
}
