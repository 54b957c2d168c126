package fold_test

import (
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// TestBulk: whatever a model says, no output is larger than a message of the log.
func TestBulk(t *testing.T) {
	const limit = 1 << 20
	piece := strings.Repeat("a\"\n\u0001é", 8<<10) // spelled twice as long
	for _, c := range []struct {
		name string
		next func(event.At) event.Body
		end  string // type of the last output
	}{
		{"text", func(at event.At) event.Body { return &event.TextDelta{At: at, Text: piece} }, "completion"},
		{"arguments", func(at event.At) event.Body { return &event.CallDelta{At: at, ID: "c", Name: "f", Args: piece} }, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fold.State{Turn: subjects.Turn{Tenant: "local", ID: "t"}}
			var all []feed.Output
			seq := uint64(0)
			apply := func(b event.Body) {
				seq++
				var out []feed.Output
				s, out = fold.Apply(s, event.Event{Turn: s.Turn, Seq: seq, Body: b})
				all = append(all, out...)
			}
			apply(&event.TurnOpened{Entries: []event.Entry{{Provider: "p", Model: "m"}},
				Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, CallsPerTurn: 8}})
			apply(&event.AttemptStarted{Step: 1, Attempt: 1, Token: "k"})
			for ord := 0; ord < 200 && !s.Over(); ord++ {
				apply(c.next(event.At{Step: 1, Attempt: 1, Token: "k", Ord: ord}))
			}
			for _, o := range all {
				data, err := feed.Encode(o)
				if err != nil || len(data) > limit {
					t.Fatalf("%s has %d bytes: %v", o.Body.Type(), len(data), err)
				}
			}
			if last := all[len(all)-1].Body.Type(); last != c.end {
				t.Fatalf("the turn ends with %s, want %s", last, c.end)
			}
			if v := s.View(); v.Steps[0].Attempts[0].Class != event.Truncated || !strings.Contains(v.Steps[0].Attempts[0].Detail, "larger") {
				t.Errorf("attempt %+v", v.Steps[0].Attempts[0])
			}
		})
	}
}
