package render

import (
	"errors"
	"slices"
	"testing"

	"github.com/turnfold/turnfold/subjects/feed"
)

func held(t *testing.T, h *Hold, list ...Item) ([]Item, error) {
	t.Helper()
	var out []Item
	for _, it := range list {
		var err error
		if out, err = h.Apply(out, it); err != nil {
			return out, err
		}
	}
	return out, nil
}

func types(list []Item) []string {
	var out []string
	for _, it := range list {
		out = append(out, it.Body.Type())
	}
	return out
}

func heldText(list []Item) (s string) {
	for _, it := range list {
		if b, ok := it.Body.(*feed.TextDelta); ok {
			s += b.Text
		}
	}
	return s
}

// told is a turn with a broken attempt, a call and an answer.
var told = []Item{
	item(0, 0, &feed.TurnAccepted{}),
	item(1, 1, &feed.TextDelta{Text: "I am sor"}),
	item(1, 1, &feed.Usage{Outcome: "failed"}),
	item(1, 1, &feed.Reset{Abandoned: 1, Reason: "connection"}),
	item(1, 2, &feed.TextDelta{Text: "Sorry! "}),
	item(1, 2, &feed.Usage{Outcome: "finished"}),
	item(1, 2, &feed.ToolStart{Call: "1.0", Tool: "refund"}),
	item(1, 2, &feed.ToolResult{Call: "1.0", Tool: "refund", Outcome: "succeeded"}),
	item(2, 1, &feed.TextDelta{Text: "Do"}),
	item(2, 1, &feed.TextDelta{Text: "ne."}),
	item(2, 1, &feed.Usage{Outcome: "finished"}),
	item(0, 0, &feed.Completion{Text: "Sorry! Done."}),
	item(0, 0, &feed.MessageSaved{}),
}

func TestHold(t *testing.T) {
	got, err := held(t, &Hold{}, told...)
	want := []string{"turn_accepted", "usage", "text_delta", "usage", "tool_start", "tool_result", "text_delta", "text_delta", "usage", "completion", "message_saved"}
	if err != nil || !slices.Equal(types(got), want) || heldText(got) != "Sorry! Done." {
		t.Errorf("%v %q %v", types(got), heldText(got), err)
	}
	for n := range told { // from every position, the rest comes
		rest, err := held(t, &Hold{Resumed: true}, told[n:]...)
		if err != nil || rest[len(rest)-1].Body.Type() != "message_saved" {
			t.Errorf("from %d: %v %v", n, types(rest), err)
		}
	}
	open, _ := held(t, &Hold{}, told[:5]...)
	if heldText(open) != "" {
		t.Errorf("an open attempt shows %q", heldText(open))
	}
	kept, _ := held(t, &Hold{}, told[0], told[1], told[2], item(0, 0, &feed.Completion{Salvaged: true}))
	if heldText(kept) != "I am sor" {
		t.Errorf("a salvaged turn shows %q", heldText(kept))
	}
	if _, err := held(t, &Hold{Resumed: true}, item(0, 0, &feed.Reset{})); !errors.Is(err, ErrTakenBack) {
		t.Error(err)
	}
}

// What is told again is passed on where it goes on; another telling is refused.
func TestHoldToldAgain(t *testing.T) {
	for n := range told {
		list := append(append(slices.Clone(told[:n]), item(0, 0, &feed.Reset{Reason: "rewind"})), told...)
		got, err := held(t, &Hold{}, list...)
		calls := 0
		for _, it := range got {
			if it.Body.Type() == "tool_start" {
				calls++
			}
		}
		if err != nil || heldText(got) != "Sorry! Done." || calls != 1 {
			t.Errorf("told again after %d: %q, %d calls, %v", n, heldText(got), calls, err)
		}
	}
	other := item(1, 1, &feed.TextDelta{Text: "Something else."})
	won := item(1, 1, &feed.Usage{Outcome: "finished"})
	for _, tail := range [][]Item{{other, won}, {item(0, 0, &feed.Completion{})}, {item(0, 0, &feed.Error{})}} {
		list := append(append(slices.Clone(told[:8]), item(0, 0, &feed.Reset{})), tail...)
		if got, err := held(t, &Hold{}, list...); !errors.Is(err, ErrTakenBack) {
			t.Errorf("%v %v", types(got), err)
		}
	}
}

// Whoever renders what a prefix amounts to, and then the rest, ends as all others.
func TestCompact(t *testing.T) {
	for n := range told {
		var c Compact
		for i, it := range told[:n] {
			it.ID = string(rune('a' + i))
			c.Apply(it)
		}
		var r Renderer
		list := append(c.Items(), told[n:]...)
		for _, it := range list {
			r.Apply(it.Output)
		}
		if r.Text() != "Sorry! Done." {
			t.Errorf("after %d: %q", n, r.Text())
		}
		if got, err := held(t, &Hold{}, list...); err != nil || heldText(got) != "Sorry! Done." {
			t.Errorf("held after %d: %q %v", n, heldText(got), err)
		}
		if n == 0 {
			continue
		}
		items := c.Items()
		if id := items[len(items)-1].ID; id != string(rune('a'+n-1)) {
			t.Errorf("last id %s", id)
		}
		if last, place, ok := CompactPosition(items[0].ID); len(items) > 1 && (!ok || place != 0 || last != string(rune('a'+n-1))) {
			t.Errorf("first id %s", items[0].ID)
		}
	}
}
