package render

import (
	"maps"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/subjects/feed"
)

// Renderer is the smallest renderer that is right: text is appended to its step, and
// a reset drops its step, or everything if its step is 0. Its zero value is ready.
type Renderer struct {
	steps map[int]*strings.Builder
}

// Apply takes the feed's next item.
func (r *Renderer) Apply(o feed.Output) {
	switch b := o.Body.(type) {
	case *feed.TextDelta:
		if r.steps == nil {
			r.steps = map[int]*strings.Builder{}
		}
		if r.steps[o.Step] == nil {
			r.steps[o.Step] = new(strings.Builder)
		}
		r.steps[o.Step].WriteString(b.Text)
	case *feed.Reset:
		if o.Step == 0 {
			clear(r.steps)
			return
		}
		delete(r.steps, o.Step)
	}
}

// Text is what is shown: the texts of all steps, joined without a separator.
func (r *Renderer) Text() string {
	var out strings.Builder
	for _, step := range slices.Sorted(maps.Keys(r.steps)) {
		out.WriteString(r.steps[step].String())
	}
	return out.String()
}

// Ends reports whether an item is the last one of its feed, unless the log was rewound.
func Ends(b feed.Body) bool {
	switch b.(type) {
	case *feed.MessageSaved, *feed.Error:
		return true
	}
	return false
}
