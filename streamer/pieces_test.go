package streamer

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/subjects/event"
)

func TestMerge(t *testing.T) {
	text := func(s string) event.Body { return &event.TextDelta{Text: s} }
	args := func(i int, s string) event.Body { return &event.CallDelta{Index: i, Args: s} }
	in := []event.Body{
		text("a"), text("b"), &event.ReasoningDelta{Text: "c"}, text("d"),
		&event.CallDelta{Index: 0, ID: "x", Name: "f"}, args(0, "{"), args(0, "}"), args(1, "["),
		&event.CallDelta{Index: 1, ID: "y", Args: "]"}, &event.OpaqueBlock{Data: "1"}, &event.OpaqueBlock{Data: "2"},
	}
	want := []event.Body{
		text("ab"), &event.ReasoningDelta{Text: "c"}, text("d"),
		&event.CallDelta{Index: 0, ID: "x", Name: "f", Args: "{}"}, args(1, "["),
		&event.CallDelta{Index: 1, ID: "y", Args: "]"}, &event.OpaqueBlock{Data: "1"}, &event.OpaqueBlock{Data: "2"},
	}
	if got := merge(in); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s", show(got))
	}
	if in[0].(*event.TextDelta).Text != "a" {
		t.Error("merge changed its input")
	}
}

func show(bodies []event.Body) string {
	var b strings.Builder
	for _, x := range bodies {
		data, _ := event.Encode(x)
		b.Write(append(data, '\n'))
	}
	return b.String()
}

// Pieces add up to what was cut, none is larger than allowed, and only the first has a
// call's labels.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\"\\\n\x01ä€𝄞"))).Draw(t, "text")
		max := rapid.IntRange(8, 60).Draw(t, "max")
		empty, _ := event.Encode(&event.CallDelta{Index: 2, Args: "x"})
		all := ""
		for i, b := range split(&event.CallDelta{Index: 2, ID: "id", Name: "f", Args: text}, max) {
			c := b.(*event.CallDelta)
			if (c.ID != "" || c.Name != "") != (i == 0) || c.Index != 2 {
				t.Fatalf("piece %d is %+v", i, c)
			}
			data, err := event.Encode(&event.CallDelta{Index: 2, Args: c.Args})
			if err != nil || c.Args != "" && len(data)-len(empty)+1 > max {
				t.Fatalf("piece %d: %s, %v", i, data, err)
			}
			all += c.Args
		}
		if all != text {
			t.Fatalf("%q became %q", text, all)
		}
	})
}
