package feed

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/subjects"
)

// An output is spelled as Seal joins a head and a body, byte for byte, and what Seal
// refuses is refused.
func TestSpell(t *testing.T) {
	piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain words", `"`, `\`, "\n\t\r\b\f\x00\x1f\x7f",
		"é", "😀", "\u2028<&>", "\xff", "a\xc3"}))
	rapid.Check(t, func(t *rapid.T) {
		o := Output{ID: piece.Draw(t, "id"), Turn: piece.Draw(t, "turn"), Step: rapid.Int().Draw(t, "step"), Attempt: rapid.Int().Draw(t, "attempt")}
		text := piece.Draw(t, "text")
		for _, b := range []Body{&TextDelta{Text: text}, &ReasoningDelta{Text: text}, &Reset{Reason: text}, &ToolResult{Result: text},
			&Usage{RequestID: text}, &TurnAccepted{}} {
			o.Body = b
			want, err := subjects.Seal(head{b.Type(), o.ID, o.Turn, o.Step, o.Attempt}, b)
			got, err2 := spell(o)
			if (err == nil) != (err2 == nil) || err == nil && !bytes.Equal(got, want) {
				t.Fatalf("%s, %v; want %s, %v", got, err2, want, err)
			}
		}
	})
}
