package render

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// kitDir is the conformance kit (docs/conformance.md).
const kitDir = "testdata/kit"

// expected is what every renderer must end with.
type expected struct {
	Text string `json:"text"`
	Ends string `json:"ends"` // completion or error
	// Anew: the feed takes the whole turn back once and tells it again.
	Anew bool `json:"anew"`
}

const kitFeeds = 40

// player plays a turn at random: what the fold allows happens, in any order.
type player struct {
	rng   *rand.Rand
	state fold.State
	seq   uint64
	out   []feed.Output
	ord   int
	calls int
	said  int
}

func (p *player) add(b event.Body) {
	p.seq++
	var more []feed.Output
	p.state, more = fold.Apply(p.state, event.Event{Turn: p.state.Turn, Seq: p.seq, Body: b})
	for _, o := range more {
		if o.Body.Lane() == subjects.LaneFeed {
			p.out = append(p.out, o)
		}
	}
}

// generate makes one feed of the kit.
func generate(seed uint64) ([]feed.Output, expected) {
	p := &player{rng: rand.New(rand.NewPCG(seed, 7)), state: fold.State{Turn: subjects.Turn{Tenant: "local", ID: fmt.Sprintf("kit-%d", seed)}}}
	tool := event.Tool{Effect: "keyed", IdentityAll: true, Repeat: "never", TimeoutMS: 1000, Cap: 2}
	plain, asks, card := tool, tool, tool
	plain.Name, asks.Name, card.Name = "refund", "ticket", "find"
	asks.Approval, card.Card, card.Effect, card.Repeat = "always", "orders", "read", "per_call"
	p.add(&event.TurnOpened{Rules: event.Rules, Entries: []event.Entry{{Provider: "p", API: "openai-chat", Model: "m"}},
		Messages: []event.Message{{Role: "user", Content: "Hi"}}, Tools: []event.Tool{plain, asks, card},
		Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 9, CallsPerTurn: 6, AfterText: "reset"}})
	for n := 0; n < 300 && !p.state.Over(); n++ {
		p.move(n)
	}
	if !p.state.Over() {
		p.add(&event.TurnExpired{})
	}
	want := expected{Text: p.state.Text(), Ends: "error"}
	if p.state.Status == fold.Completed {
		want.Ends = "completion"
		p.add(&event.MessageSaved{MessageID: "msg_kit"})
	}
	if seed%5 == 4 { // the log lost its end, and the owner tells the turn again
		want.Anew = true
		cut := 1 + p.rng.IntN(len(p.out)-1)
		again := slices.Clone(p.out)
		for i := range again {
			again[i].ID += ".1"
		}
		reset := feed.Output{ID: fmt.Sprintf("%d.99.1", p.seq), Turn: p.state.Turn.ID, Body: &feed.Reset{Reason: "rewind"}}
		p.out = append(append(slices.Clone(p.out[:cut]), reset), again...)
	}
	return p.out, want
}

// move does one thing that may happen.
func (p *player) move(n int) {
	step, a := p.state.Running()
	if n > 5 && p.rng.IntN(60) == 0 {
		p.add(&event.TurnCancelled{By: "somebody"})
		return
	}
	switch {
	case a == nil:
		p.settle()
		return
	case a.Started == nil:
		p.ord, p.calls = 0, 0
		p.add(&event.AttemptStarted{Step: step, Attempt: a.N, Token: "k", Provider: "p"})
		return
	}
	at := event.At{Step: step, Attempt: a.N, Token: "k", Ord: p.ord}
	p.ord++
	p.said++
	switch k := p.rng.IntN(20); {
	case k < 9:
		p.add(&event.TextDelta{At: at, Text: fmt.Sprintf("w%d ⟨é\n%q⟩ ", p.said, "\"\\")})
	case k < 11:
		p.add(&event.ReasoningDelta{At: at, Text: "hm "})
	case k < 14:
		name := []string{"refund", "ticket", "find", "nothing"}[p.rng.IntN(4)]
		p.add(&event.CallDelta{At: at, Index: p.calls, ID: fmt.Sprintf("c%d", p.said), Name: name, Args: fmt.Sprintf(`{"n":%d}`, p.rng.IntN(3))})
		p.calls++
	case k < 17:
		p.add(&event.AttemptFinished{At: at, Finish: "stop", Usage: event.Usage{Input: 9, Output: 3}})
	case k < 19:
		p.add(&event.AttemptFailed{At: at, Class: event.Connection, Retryable: true})
	default:
		p.add(&event.AttemptLost{Step: step, Attempt: a.N, Token: "k"})
	}
}

// settle ends one of the calls that are waited for.
func (p *player) settle() {
	for _, st := range p.state.View().Steps {
		for _, c := range st.Calls {
			switch {
			case c.Outcome != "":
				continue
			case c.Waiting != "" && p.rng.IntN(3) == 0:
				p.add(&event.CallDenied{Call: c.Call, By: "somebody"})
			case c.Waiting != "":
				p.add(&event.CallApproved{Call: c.Call, Digest: c.Digest, By: "somebody"})
			case p.rng.IntN(3) == 0:
				p.add(&event.CallProgress{Call: c.Call, Message: "half", Percent: 50})
			default:
				o := []event.Outcome{event.OutcomeSucceeded, event.OutcomeSucceeded, event.OutcomeFailed, event.OutcomeUnknown}[p.rng.IntN(4)]
				p.add(&event.CallSettled{Call: c.Call, Key: c.Key, Outcome: o, Result: `{"orders":[1]}`, ErrorClass: map[bool]string{true: "http_500"}[o != event.OutcomeSucceeded]})
			}
			return
		}
	}
}

// kit reads the kit, after making its generated part anew if asked to.
func kit(t *testing.T) (feeds map[string][]Item, want map[string]expected) {
	t.Helper()
	want, feeds = map[string]expected{}, map[string][]Item{}
	file := filepath.Join(kitDir, "expected.json")
	if data, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(kitFeeds) {
		outs, w := generate(seed)
		name := fmt.Sprintf("generated-%02d", seed)
		if *rewrite {
			want[name] = w
		}
		var text bytes.Buffer
		for _, o := range outs {
			if err := (Lines{W: &text}).Apply(Item{Output: o}); err != nil {
				t.Fatal(err)
			}
		}
		golden(t, filepath.Join(kitDir, name+".ndjson"), text.String())
	}
	data, err := json.Marshal(want, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, file, string(data)+"\n")
	for name := range want {
		data, err := os.ReadFile(filepath.Join(kitDir, name+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			it, err := Read([]byte(strings.TrimSuffix(line, "\n")))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			feeds[name] = append(feeds[name], it)
		}
	}
	return feeds, want
}

// Every renderer here ends every feed of the kit with the expected text.
func TestKit(t *testing.T) {
	feeds, want := kit(t)
	if len(feeds) <= kitFeeds {
		t.Errorf("%d feeds; the recorded ones are missing", len(feeds))
	}
	for name, list := range feeds {
		var r Renderer
		for _, it := range list {
			r.Apply(it.Output)
		}
		if r.Text() != want[name].Text {
			t.Errorf("%s: %q, want %q", name, r.Text(), want[name].Text)
		}
		got, err := held(t, &Hold{}, list...)
		if err != nil && !(want[name].Anew && errors.Is(err, ErrTakenBack)) || err == nil && heldText(got) != want[name].Text {
			t.Errorf("%s, held: %q (%v), want %q", name, heldText(got), err, want[name].Text)
		}
		for cut := range list {
			var c Compact
			for _, it := range list[:cut] {
				c.Apply(it)
			}
			var r Renderer
			for _, it := range append(c.Items(), list[cut:]...) {
				r.Apply(it.Output)
			}
			if r.Text() != want[name].Text {
				t.Fatalf("%s, compacted up to %d: %q, want %q", name, cut, r.Text(), want[name].Text)
			}
		}
	}
}
