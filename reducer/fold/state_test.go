package fold_test

import (
	"math/big"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// stateOf folds a script.
func stateOf(t *testing.T, text string) fold.State {
	t.Helper()
	s, _, err := run(parseScript(text).events())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTimerFired(t *testing.T) {
	s := stateOf(t, `
tool refund keyed identity=*
1.1 started t1
1.1 call 0 #0 c1 refund {}
1.1 finished 1
`)
	for _, c := range []struct {
		timer fold.Timer
		want  event.Body
	}{
		{fold.Timer{Kind: fold.TimerDeadline}, &event.TurnExpired{}},
		{fold.Timer{Kind: fold.TimerUnopened, Step: 2, Attempt: 3, Seen: 9}, &event.CommandOverdue{Step: 2, Attempt: 3, Seen: 9}},
		{fold.Timer{Kind: fold.TimerSilence, Step: 2, Attempt: 3, Token: "t", Seen: 9},
			&event.AttemptLost{Step: 2, Attempt: 3, Token: "t", Seen: 9, Reason: "no sign of life"}},
		{s.Timers()[1], &event.CommandOverdue{Step: 1, Call: "1.0", Seen: 4}},
	} {
		if got := c.timer.Fired(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.timer.Kind, got, c.want)
		}
	}
	if b := (fold.Timer{Kind: fold.TimerUnsaved}).Fired(); b != nil {
		t.Errorf("storing a message is a task, not the fact %+v", b)
	}
}

// Every timer that the fold asks for is taken as meant when it fires at once: the fold
// answers it, and waits for something else afterwards.
func TestTimersAreAnswered(t *testing.T) {
	for _, script := range []string{
		"", "1.1 started t1", "1.1 started t1\n1.1 text 0 \"a\"",
		"tool refund keyed identity=*\n1.1 started t1\n1.1 call 0 #0 c1 refund {}\n1.1 finished 1",
		"tool refund keyed identity=*\n1.1 started t1\n1.1 call 0 #0 c1 refund {}\n1.1 finished 1\ncancel",
	} {
		first := stateOf(t, script)
		for i := range first.Timers() {
			s := stateOf(t, script)
			before := s.Timers()
			next, out := fold.Apply(s, event.Event{Turn: address, Seq: s.Seq + 1, Body: before[i].Fired()})
			if len(out) == 0 || reflect.DeepEqual(next.Timers(), before) {
				t.Errorf("%q: %+v fired and nothing came of it", script, before[i])
			}
		}
	}
}

// Patience doubles, but not for ever.
func TestPatienceIsBounded(t *testing.T) {
	text := "? timers\n" + strings.Repeat("overdue attempt 1.1\n", 20)
	s := stateOf(t, text)
	unopened := s.Timers()[1]
	if want := int64(30_000 << 6); unopened.AfterMS != want {
		t.Errorf("after 20 repeats it waits %d ms, want %d", unopened.AfterMS, want)
	}
	call := "tool refund keyed identity=*\n1.1 started t1\n1.1 call 0 #0 c1 refund {}\n1.1 finished 1\n"
	s = stateOf(t, call+strings.Repeat("overdue call 1.0\n", 20))
	unsettled := s.Timers()[1]
	if want := int64(25_000 << 6); unsettled.AfterMS != want {
		t.Errorf("after 20 repeats it waits %d ms, want %d", unsettled.AfterMS, want)
	}
}

// Looking at a state changes nothing of what it will say.
func TestLookingIsHarmless(t *testing.T) {
	text := "tool refund keyed identity=*\n1.1 started t1\n1.1 call 0 #0 c1 refund {}\n1.1 finished 1"
	looked, quiet := stateOf(t, text), stateOf(t, text)
	for range 3 {
		looked.Pending()
		looked.Timers()
		looked.View()
		looked.Conversation()
		looked.Running()
	}
	e := event.Event{Turn: address, Seq: quiet.Seq + 1, Body: &event.CommandOverdue{Step: 1, Call: "1.0", Seen: quiet.Seq}}
	a, outA := fold.Apply(looked, e)
	b, outB := fold.Apply(quiet, e)
	if !reflect.DeepEqual(outA, outB) || !sameView(a, b) {
		t.Errorf("after looking: %+v, want %+v", outA, outB)
	}
}

func TestRunning(t *testing.T) {
	for _, c := range []struct {
		script        string
		step, attempt int
		opened        bool
	}{
		{"", 1, 1, false},
		{"1.1 started t1", 1, 1, true},
		{"1.1 started t1\n1.1 failed 0 connection", 1, 2, false},
		{"cancel", 0, 0, false},
		{"1.1 started t1\n1.1 text 0 \"a\"\n1.1 finished 1", 0, 0, false},
	} {
		s := stateOf(t, c.script)
		step, a := s.Running()
		if step != c.step || (a == nil) != (c.attempt == 0) || a != nil && (a.N != c.attempt || (a.Started != nil) != c.opened) {
			t.Errorf("%q: step %d, %+v", c.script, step, a)
		}
	}
	s := absent()
	if step, a := s.Running(); step != 0 || a != nil || s.Over() || s.Done() || s.Text() != "" || s.Call("1.0") != nil {
		t.Errorf("a turn that was never opened runs: %d %+v", step, a)
	}
}

// A provider's id may be the very id that the fold would give another call; what a
// provider signed goes back as it came.
func TestConversationIDs(t *testing.T) {
	s := parseScript("tool find read\n1.1 started t1").events()
	at := func(ord int) event.At { return event.At{Step: 1, Attempt: 1, Token: "t1", Ord: ord} }
	for i, id := range []string{"call_1_1", "call_1_1", "call_1_1_1", ""} {
		s = append(s, event.Event{Turn: address, Seq: uint64(10 + i), Body: &event.CallDelta{
			At: at(i), Index: i, ID: id, Name: "find", Args: "{}", Opaque: "sig" + id}})
	}
	// A second opaque of one call is not taken: the provider gives one.
	s = append(s, event.Event{Turn: address, Seq: 20, Body: &event.CallDelta{At: at(4), Index: 0, Opaque: "again"}})
	s = append(s, event.Event{Turn: address, Seq: 21, Body: &event.AttemptFinished{At: at(5)}})
	state, _, err := run(s)
	if err != nil {
		t.Fatal(err)
	}
	c := state.Conversation()
	var ids, signed []string
	for _, p := range c.Messages[1].Parts {
		ids, signed = append(ids, p.Call.ID), append(signed, p.Call.Opaque)
	}
	if want := []string{"call_1_1", "call_1_1_1", "call_1_2", "call_1_3"}; !reflect.DeepEqual(ids, want) {
		t.Errorf("ids %q, want %q", ids, want)
	}
	if want := []string{"sigcall_1_1", "sigcall_1_1", "sigcall_1_1_1", "sig"}; !reflect.DeepEqual(signed, want) {
		t.Errorf("signatures %q, want %q", signed, want)
	}
	for i, r := range c.Messages[2].Results {
		if r.ID != ids[i] {
			t.Errorf("result %d answers %q, the call is %q", i, r.ID, ids[i])
		}
	}
}

// foreign is a body that the event package does not know.
type foreign struct{}

func (foreign) Kind() string { return "foreign" }

// A fault of ours must not stop a partition: it is skipped, the same in every process.
func TestGuarded(t *testing.T) {
	s := stateOf(t, "1.1 started t1\n1.1 text 0 \"a\"")
	seq := s.Seq
	next, out, err := fold.Guarded(s, event.Event{Turn: address, Seq: seq + 5, Body: foreign{}})
	if err == nil || !strings.Contains(err.Error(), "acme/t-1 at 8") || len(out) > 0 {
		t.Fatalf("a foreign body: %v, %v", out, err)
	}
	if next.Seq != seq+5 || next.Skipped != 1 {
		t.Errorf("after it: seq %d, %d skipped", next.Seq, next.Skipped)
	}
	_, out, err = fold.Guarded(next, event.Event{Turn: address, Seq: seq + 6, Body: &event.AttemptFinished{
		At: event.At{Step: 1, Attempt: 1, Token: "t1", Ord: 1}}})
	if err != nil || len(out) != 2 || out[1].Body.(*feed.Completion).Text != "a" {
		t.Errorf("the turn does not go on: %+v, %v", out, err)
	}
}

func TestID(t *testing.T) {
	for _, c := range []struct {
		seq   uint64
		index int
		epoch uint64
		want  string
	}{{1, 0, 0, "1.0"}, {18446744073709551615, 12, 0, "18446744073709551615.12"}, {7, 1, 9, "7.1.9"}} {
		if got := fold.ID(c.seq, c.index, c.epoch); got != c.want {
			t.Errorf("ID(%d, %d, %d) = %q, want %q", c.seq, c.index, c.epoch, got, c.want)
		}
	}
	s := absent()
	s.Epoch = 9
	_, out := fold.Apply(s, event.Event{Turn: address, Seq: 7, Body: defaults()})
	if len(out) != 2 || out[0].ID != "7.0.9" || out[1].ID != "7.1.9" {
		t.Errorf("after a rewind: %+v", out)
	}
}

// The waits lie within their bounds, differ between turns, and are the same for ever.
func TestBackoff(t *testing.T) {
	delays := map[int64]bool{}
	for i := range 300 {
		turn := subjects.Turn{Tenant: "acme", ID: "t" + strings.Repeat("x", i%60) + string(rune('a'+i/60))}
		s := fold.State{Turn: turn}
		span := int64(500)
		seq, opened := uint64(1), defaults()
		opened.Policy.AttemptsPerStep, opened.Policy.AttemptsPerTurn, opened.Policy.BackoffMaxMS = 9, 9, 3000
		s, _ = fold.Apply(s, event.Event{Turn: turn, Seq: seq, Body: opened})
		for n := 1; n < 9; n++ {
			s, _ = fold.Apply(s, event.Event{Turn: turn, Seq: seq + 1, Body: &event.AttemptStarted{Step: 1, Attempt: n, Token: "t"}})
			var out []feed.Output
			s, out = fold.Apply(s, event.Event{Turn: turn, Seq: seq + 2, Body: &event.AttemptFailed{
				At: event.At{Step: 1, Attempt: n, Token: "t"}, Class: event.Stall, Retryable: true}})
			seq += 2
			wait := out[len(out)-1].Body.(*feed.StepCommand).DelayMS
			if wait < 125 || wait > span {
				t.Fatalf("%s attempt %d waits %d ms, must be 125 to %d", turn, n, wait, span)
			}
			delays[wait] = true
			span = min(span*2, 3000)
		}
	}
	if len(delays) < 1000 {
		t.Errorf("2400 waits have only %d values: that is no jitter", len(delays))
	}
}

// A call of a tool that the turn does not know has no key, and is shown as it came.
func TestViewOfUndeclaredTool(t *testing.T) {
	s := stateOf(t, "1.1 started t1\n1.1 call 0 #0 c1 gone {\"pin\":\"1\"}\n1.1 finished 1")
	c := s.View().Steps[0].Calls[0]
	if c.Args != `{"pin":"1"}` || c.Key != "" || c.Outcome != event.OutcomeRefused || c.ProviderID != "c1" {
		t.Errorf("%+v", c)
	}
}

func TestViewRedacts(t *testing.T) {
	s := stateOf(t, "tool pay once identity=* redact=/pin\n1.1 started t1\n1.1 call 0 #0 c1 pay {\"pin\":\"1\",\"to\":\"a\"}\n1.1 finished 1")
	if got := s.View().Steps[0].Calls[0].Args; got != `{"pin":"[redacted]","to":"a"}` {
		t.Errorf("the view shows %s", got)
	}
	if got := s.Conversation().Messages[1].Parts[0].Call.Args; got != `{"pin":"1","to":"a"}` {
		t.Errorf("the model is sent %s", got)
	}
}

// TestEveryKind feeds every kind of event to codec and fold, before and after the
// opening, so that a new kind cannot be forgotten.
func TestEveryKind(t *testing.T) {
	for _, kind := range event.Kinds() {
		b, ok := event.New(kind)
		if !ok {
			t.Fatalf("New(%q)", kind)
		}
		b = throughCodec(b)
		for _, script := range []string{"", "1.1 started t1", "cancel", "tool find read\n1.1 started t1\n1.1 call 0 #0 c find\n1.1 finished 1"} {
			s := stateOf(t, script)
			seq := s.Seq
			next, _, err := fold.Guarded(s, event.Event{Turn: address, Seq: seq + 1, Body: b})
			if err != nil || next.Seq != seq+1 {
				t.Errorf("%s after %q: %v", kind, script, err)
			}
		}
		if s, out, err := fold.Guarded(absent(), event.Event{Turn: address, Seq: 1, Body: b}); err != nil ||
			kind != "turn.opened" && (len(out) > 0 || s.Skipped != 1) {
			t.Errorf("%s before the opening: %v %v", kind, out, err)
		}
	}
}

// TestEveryType feeds every type of output to codec, printer and the naive renderer,
// with unknown ones in between.
func TestEveryType(t *testing.T) {
	p, s := &printer{keys: map[string]string{}}, screen{}
	s.show(feed.Output{Step: 1, Body: &feed.TextDelta{Text: "a"}})
	for _, typ := range append(feed.Types(), "from_the_future") {
		b, ok := feed.New(typ)
		if !ok {
			b = &feed.Unknown{Name: typ, Raw: []byte(`{"type":"from_the_future","id":"1.0"}`)}
		}
		data, err := feed.Encode(feed.Output{ID: "1.0", Turn: "t-1", Step: 7, Attempt: 1, Body: b})
		if err != nil {
			t.Fatal(err)
		}
		o, err := feed.Decode(data)
		if err != nil || o.Body.Type() != typ {
			t.Fatalf("%s is read back as %+v, %v", typ, o, err)
		}
		s.show(o)
		switch typ {
		case "image", "ping", "from_the_future": // never written by the fold
		default:
			p.output(o)
		}
	}
	if s.text() != "a" {
		t.Errorf("the screen shows %q", s.text())
	}
	s.show(feed.Output{Body: &feed.Reset{}})
	if s.text() != "" {
		t.Errorf("after a reset of the turn the screen shows %q", s.text())
	}
}

// Cost is exact for every price and count that fits: compared with a way of counting
// that has no bounds.
func TestCost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count, picos := rapid.Int64Range(0, 1<<40), rapid.Int64Range(0, 1<<22)
		u := event.Usage{Input: count.Draw(rt, "input"), Output: count.Draw(rt, "output"), CacheRead: count.Draw(rt, "cached")}
		p := event.Price{Currency: "USD", Input: picos.Draw(rt, "in"), CacheRead: picos.Draw(rt, "cache"), Output: picos.Draw(rt, "out")}
		api := rapid.SampledFrom([]string{"openai-chat", "openai-responses", "gemini", "anthropic-messages"}).Draw(rt, "api")
		input := u.Input
		if api != "anthropic-messages" {
			input = max(0, u.Input-u.CacheRead)
		}
		sum := big.NewInt(500)
		for _, part := range [][2]int64{{input, p.Input}, {u.CacheRead, p.CacheRead}, {u.Output, p.Output}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		want := sum.Div(sum, big.NewInt(1000)).Int64()
		o := defaults()
		o.Entries[0].API, o.Entries[0].Price = api, p
		s := absent()
		for i, b := range []event.Body{o, &event.AttemptStarted{Step: 1, Attempt: 1, Token: "t"},
			&event.AttemptFailed{At: event.At{Step: 1, Attempt: 1, Token: "t"}, Class: event.Filtered, Usage: u}} {
			s, _ = fold.Apply(s, event.Event{Turn: address, Seq: uint64(i + 1), Body: b})
		}
		v := s.View()
		if got := v.Usage; got.Cost != want || got.WastedCost != want || v.Steps[0].Attempts[0].Usage.Cost != want {
			rt.Fatalf("%+v at %+v of %s costs %d, want %d", u, p, api, got.Cost, want)
		}
	})
}
