package render

import (
	"crypto/sha256"
	"errors"
	"hash"

	"github.com/turnfold/turnfold/subjects/feed"
)

// ErrTakenBack: the log took back what a holding reader has passed on already. Its client
// cannot retract, so it must start anew.
var ErrTakenBack = errors.New("render: what was passed on was taken back")

// Hold is a filter for clients that cannot retract: the content of an attempt waits
// until the attempt has won, or until the turn ends with what there is. Resets end here.
//
// Invariant: what was passed on is a prefix of what the feed ends with, or the filter
// fails with ErrTakenBack. What waits is bounded by one model reply.
//
// Its zero value starts with a feed; one that goes on after a client's position sets
// Resumed.
type Hold struct {
	// Resumed: items that this filter has not seen were passed on before.
	Resumed bool

	waiting []Item
	won     int // step whose attempt has won, of those seen
	told    telling
	again   *telling // the feed is told anew; this is how far it agrees
	before  string   // digest of told when the feed began anew
}

// telling sums up what was passed on.
type telling struct {
	text  hash.Hash
	bytes int
	left  int             // bytes to be told again
	calls map[string]bool // type and call of items that name one
}

func (t *telling) add(text string) {
	if t.text == nil {
		t.text = sha256.New()
	}
	t.text.Write([]byte(text))
	t.bytes += len(text)
}

func (t *telling) sum() string {
	if t.text == nil {
		return string(sha256.New().Sum(nil))
	}
	return string(t.text.Sum(nil))
}

// Apply takes the feed's next item and appends those that may be passed on.
func (h *Hold) Apply(out []Item, it Item) ([]Item, error) {
	switch b := it.Body.(type) {
	case *feed.Reset:
		return h.reset(out, it)
	case *feed.Usage:
		if b.Outcome == "finished" {
			h.won = max(h.won, it.Step)
			return h.release(out, it)
		}
	case *feed.TextDelta, *feed.ReasoningDelta:
	case *feed.Error:
		h.drop()
		return h.release(out, it)
	case *feed.Unknown:
		if it.Step <= h.won {
			return h.release(out, it)
		}
	default: // these come of a winner, or of the whole turn
		return h.release(out, it)
	}
	h.waiting = append(h.waiting, it)
	return out, nil
}

// drop leaves of what waits only what it cost.
func (h *Hold) drop() {
	kept := h.waiting[:0]
	for _, it := range h.waiting {
		if _, ok := it.Body.(*feed.Usage); ok {
			kept = append(kept, it)
		}
	}
	clear(h.waiting[len(kept):])
	h.waiting = kept
}

func (h *Hold) reset(out []Item, it Item) ([]Item, error) {
	if it.Step > 0 {
		if it.Step <= h.won {
			return out, ErrTakenBack // no feed does this without a reset of the turn
		}
		h.drop()
		return out, nil
	}
	h.waiting, h.won = nil, 0
	switch {
	case h.Resumed:
		return out, ErrTakenBack
	case h.again == nil && h.told.bytes == 0 && len(h.told.calls) == 0:
		return out, nil
	case h.again == nil:
		h.before = h.told.sum()
	}
	h.again = &telling{left: h.told.bytes}
	return out, nil
}

// release passes on what waits, and then the item.
func (h *Hold) release(out []Item, it Item) ([]Item, error) {
	for _, w := range h.waiting {
		var err error
		if out, err = h.pass(out, w); err != nil {
			return out, err
		}
	}
	h.waiting = nil
	return h.pass(out, it)
}

// pass passes an item on, unless the client has it from an earlier telling.
func (h *Hold) pass(out []Item, it Item) ([]Item, error) {
	text, isText := it.Body.(*feed.TextDelta)
	if h.again != nil && isText {
		rest, err := h.agree(text.Text)
		if err != nil || rest == "" {
			return out, err
		}
		text = &feed.TextDelta{Text: rest}
		it.Body, it.Raw = text, nil
	}
	if isText {
		h.told.add(text.Text)
		return append(out, it), nil
	}
	id := callOf(it.Body)
	if id == "" {
		if h.again != nil && h.again.left > 0 && ends(it.Body) {
			return out, ErrTakenBack
		}
		return append(out, it), nil
	}
	if _, progress := it.Body.(*feed.ToolProgress); !progress {
		id = it.Body.Type() + " " + id
		if h.told.calls[id] {
			return out, nil
		}
		if h.told.calls == nil {
			h.told.calls = map[string]bool{}
		}
		h.told.calls[id] = true
	}
	return append(out, it), nil
}

// agree holds text that is told again against what the client has, and gives the rest.
func (h *Hold) agree(text string) (rest string, err error) {
	n := min(h.again.left, len(text))
	h.again.add(text[:n])
	if h.again.left -= n; h.again.left > 0 {
		return "", nil
	}
	if h.again.sum() != h.before {
		return "", ErrTakenBack
	}
	h.again = nil
	return text[n:], nil
}

func ends(b feed.Body) bool {
	switch b.(type) {
	case *feed.Completion, *feed.Error:
		return true
	}
	return false
}

// callOf is the call that an item is about, or empty.
func callOf(b feed.Body) string {
	switch b := b.(type) {
	case *feed.ToolStart:
		return b.Call
	case *feed.ToolProgress:
		return b.Call
	case *feed.ToolResult:
		return b.Call
	case *feed.Image:
		return b.Call
	case *feed.Card:
		return b.Call
	case *feed.ApprovalRequest:
		return b.Call
	}
	return ""
}
