package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// erasedTurn is a recorded history of which an owner has erased the first turn; change
// is given its tombstone before it is written.
func erasedTurn(t *testing.T, h audit.Head, list []message, change func(*reducer.Tombstone)) []message {
	t.Helper()
	var turn subjects.Turn
	var at int
	for _, m := range list {
		if p, x, err := subjects.ParseEvents(m.Subject); err == nil && (turn.ID == "" || x == turn) {
			turn, at = x, p
		}
	}
	// The turn is all that its partition had. A note before it, of a kind to come, makes
	// its outputs lie in the middle.
	outs, first := subjects.OutputsStream(at), slices.IndexFunc(list, func(m message) bool { return m.stream == subjects.EventsStream(at) })
	list = slices.Insert(slices.Clone(list), first, message{outs, jet.Msg{Seq: 0, Subject: subjects.OutPosition(at),
		Data: []byte(`{"type":"from_the_future","v":1}`), Header: map[string]string{reducer.HeaderIn: "0"}}})
	for i := range list {
		if list[i].stream == outs {
			list[i].Seq++
		}
	}
	tomb := reducer.Tombstone{Type: reducer.TypeErased, V: 1, Turn: turn.String(), At: "2026-01-02T03:04:05Z"}
	last := map[string]uint64{}
	var out, facts []message
	said := map[string]bool{}
	for _, m := range list {
		last[m.stream] = max(last[m.stream], m.Seq)
		f, err := effect.DecodeFact(m.Data)
		if key, body, ok := audit.KeyOf(m.Subject); ok && !body && err == nil && strings.HasPrefix(f.Call, turn.String()+"/") && f.Token != "" && !said[f.Token] {
			said[f.Token] = true
			tomb.Calls = append(tomb.Calls, turns.ErasedCall{Call: f.Call[strings.LastIndexByte(f.Call, '/')+1:], Key: key})
			facts = append(facts, message{m.stream, jet.Msg{Subject: m.Subject, Time: m.Time,
				Data: effect.EncodeFact(effect.Fact{Kind: effect.KindErased, Token: f.Token, Call: f.Call})}})
		}
	}
	for _, m := range list {
		if _, x, err := subjects.ParseEvents(m.Subject); err == nil && x == turn {
			tomb.Events++
			continue
		}
		if _, x, _, err := subjects.ParseOut(m.Subject); err == nil && x == turn {
			tomb.Outputs++
			continue
		}
		if _, body, ok := audit.KeyOf(m.Subject); ok && body && said[m.Header[jet.TokenHeader]] {
			continue
		}
		out = append(out, m)
	}
	for _, f := range facts {
		last[f.stream]++
		f.Seq = last[f.stream]
		out = slices.Insert(out, 0, f)
	}
	ev := subjects.EventsStream(at)
	change(&tomb)
	data, err := subjects.Seal(struct{}{}, tomb)
	if err != nil {
		t.Fatal(err)
	}
	note := message{outs, jet.Msg{Seq: last[outs] + 1, Subject: subjects.OutPosition(at), Data: data,
		Header: map[string]string{reducer.HeaderIn: fmt.Sprint(last[ev])}}}
	stone, err := event.Encode(&event.TurnErased{})
	if err != nil {
		t.Fatal(err)
	}
	end := message{ev, jet.Msg{Seq: last[ev] + 1, Subject: subjects.Events(at, turn), Data: stone}}
	before := slices.IndexFunc(out, func(m message) bool { return m.stream == outs })
	return append(slices.Insert(out, 0, out[before], note), note, end)
}

// TestErased: a turn that was erased counts as erased, and nothing of it as broken; more
// messages than its tombstone counts may not be missing, claims that it does not name
// are asked for by nobody, and without it everything is broken.
func TestErased(t *testing.T) {
	for _, file := range golden(t) {
		h, list := load(t, file)
		for _, c := range []struct {
			name   string
			change func(*reducer.Tombstone)
			broken string
		}{
			{"as it was left", func(*reducer.Tombstone) {}, ""},
			{"an output more is missing", func(x *reducer.Tombstone) { x.Outputs-- }, "I9"},
			{"it names no call", func(x *reducer.Tombstone) { x.Calls = nil }, "I5"},
			{"it is of another turn", func(x *reducer.Tombstone) { x.Turn = "local/other" }, "I5"},
		} {
			var calls int
			forged := erasedTurn(t, h, list, func(x *reducer.Tombstone) { calls = len(x.Calls); c.change(x) })
			bad, err := judged(t, h, forged)
			if c.broken == "I5" && calls == 0 {
				continue // a turn without effects has none to be asked about
			}
			if err != nil || c.broken == "" && len(bad) > 0 || c.broken != "" && !slices.Contains(bad, c.broken) {
				t.Errorf("%s, %s: broken are %v, %v", file, c.name, bad, err)
			}
		}
	}
}
