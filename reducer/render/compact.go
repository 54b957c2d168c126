package render

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/turnfold/turnfold/subjects/feed"
)

// Compact folds a feed into what it amounts to: the text of a step as one item, nothing
// that a reset took back, the last progress of each running call. Its zero value is ready.
//
// Invariant: whoever renders Items and then the rest of the feed ends as one who has
// rendered all of it.
type Compact struct {
	turn  string
	last  string // id of the last item taken
	head  []Item // of the whole turn, as they came
	tail  []Item
	steps map[int]*compactStep
}

// compactStep is what a step shows.
type compactStep struct {
	attempt         int
	reasoning, text strings.Builder
	items           []Item
}

// Apply takes the feed's next item.
func (c *Compact) Apply(it Item) {
	if c.steps == nil {
		c.steps = map[int]*compactStep{}
	}
	if it.ID != "" {
		c.turn, c.last = it.Turn, it.ID
	}
	if _, ok := it.Body.(*feed.Unknown); ok {
		return // its bytes hold its old id; readers skip what they do not know
	}
	if _, ok := it.Body.(*feed.Reset); ok {
		c.reset(it.Step)
		return
	}
	if it.Step == 0 {
		if ends(it.Body) || len(c.tail) > 0 {
			c.tail = append(c.tail, it)
			return
		}
		c.head = append(c.head, it)
		return
	}
	st := c.steps[it.Step]
	if st == nil {
		st = &compactStep{}
		c.steps[it.Step] = st
	}
	switch b := it.Body.(type) {
	case *feed.TextDelta:
		st.attempt = it.Attempt
		st.text.WriteString(b.Text)
	case *feed.ReasoningDelta:
		st.attempt = it.Attempt
		st.reasoning.WriteString(b.Text)
	default:
		if id := callOf(b); id != "" { // news of a call replaces its progress and its question
			st.items = slices.DeleteFunc(st.items, func(e Item) bool { return callOf(e.Body) == id && passing(e.Body) })
		}
		st.items = append(st.items, it)
	}
}

// passing reports whether an item is of no interest once there is news of its call.
func passing(b feed.Body) bool {
	switch b.(type) {
	case *feed.ToolProgress, *feed.ApprovalRequest:
		return true
	}
	return false
}

func (c *Compact) reset(step int) {
	if step == 0 {
		*c = Compact{turn: c.turn, last: c.last, steps: map[int]*compactStep{}}
		return
	}
	if st := c.steps[step]; st != nil {
		kept := st.items[:0]
		for _, it := range st.items {
			if _, ok := it.Body.(*feed.Usage); ok {
				kept = append(kept, it)
			}
		}
		c.steps[step] = &compactStep{items: kept}
	}
}

// Items is what the feed amounts to so far. The last item has the id of the feed's last,
// the others ids that CompactPosition understands.
func (c *Compact) Items() []Item {
	out := slices.Clone(c.head)
	for _, n := range slices.Sorted(maps.Keys(c.steps)) {
		st := c.steps[n]
		at := feed.Output{Turn: c.turn, Step: n, Attempt: st.attempt}
		if st.reasoning.Len() > 0 {
			at.Body = &feed.ReasoningDelta{Text: st.reasoning.String()}
			out = append(out, Item{Output: at})
		}
		if st.text.Len() > 0 {
			at.Body = &feed.TextDelta{Text: st.text.String()}
			out = append(out, Item{Output: at})
		}
		out = append(out, st.items...)
	}
	out = append(out, c.tail...)
	for i := range out {
		out[i].Raw = nil
		out[i].ID = c.last
		if i < len(out)-1 {
			out[i].ID += compactMark + strconv.Itoa(i)
		}
	}
	return out
}

// compactMark stands between the id of the item up to which a feed was folded and the
// place among what it amounted to.
const compactMark = "~"

// CompactPosition reads an id of Items: the feed was folded up to the item with id last,
// and place is the item's own among those.
func CompactPosition(id string) (last string, place int, ok bool) {
	last, digits, ok := strings.Cut(id, compactMark)
	if !ok {
		return "", 0, false
	}
	place, err := strconv.Atoi(digits)
	return last, place, err == nil && place >= 0 && last != ""
}
