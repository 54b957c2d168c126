package event

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/wiretest"
)

// TestWire pins the bytes of every kind, with every member and with none.
func TestWire(t *testing.T) {
	lines := wiretest.Recorded(t)
	for _, kind := range Kinds() {
		full, _ := New(kind)
		wiretest.Fill(t, reflect.ValueOf(full), kind)
		empty, _ := New(kind)
		for _, b := range []Body{empty, full} {
			data, err := Encode(b)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			wiretest.Record(t, lines, data)
			back, err := Decode(data)
			if err != nil || b == full && !reflect.DeepEqual(back, b) {
				t.Errorf("%s is read back as %+v, %v", data, back, err)
			}
		}
	}
}

// TestRecorded reads what is on the logs of earlier versions, and writes it again as it
// was: an audit compares bytes.
func TestRecorded(t *testing.T) {
	lines := wiretest.Recorded(t)
	if len(lines) < 2*len(Kinds()) {
		t.Fatalf("only %d lines are recorded", len(lines))
	}
	for _, line := range lines {
		b, err := Decode(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if _, unknown := b.(*Unknown); unknown {
			t.Errorf("a kind is gone: %s", line)
		}
		if again, err := Encode(b); err != nil || !bytes.Equal(again, line) {
			t.Errorf("%s is written again as %s, %v", line, again, err)
		}
	}
}

func TestKinds(t *testing.T) {
	want := []string{"attempt.alive", "attempt.failed", "attempt.finished", "attempt.lost", "attempt.started",
		"call.approved", "call.delta", "call.denied", "call.progress", "call.settled", "command.overdue", "message.saved",
		"opaque.block", "reasoning.delta", "text.delta", "turn.cancelled", "turn.expired", "turn.opened"}
	for _, k := range want {
		if !slices.Contains(Kinds(), k) {
			t.Errorf("kind %s is gone; a kind is never taken away", k)
		}
	}
	if !slices.IsSorted(Kinds()) {
		t.Error("kinds are not sorted")
	}
	for _, k := range Kinds() {
		if b, ok := New(k); !ok || b.Kind() != k {
			t.Errorf("New(%s) gives %T", k, b)
		}
	}
	if b, ok := New("turn.liked"); ok || b != nil {
		t.Errorf("New of no kind gives %T", b)
	}
}

// Every event of a model stream says where it stands.
func TestStreamed(t *testing.T) {
	at := At{Step: 1, Attempt: 2, Token: "t", Ord: 3}
	for _, b := range []Streamed{&TextDelta{At: at}, &ReasoningDelta{At: at}, &CallDelta{At: at}, &OpaqueBlock{At: at},
		&AttemptFinished{At: at}, &AttemptFailed{At: at}} {
		if b.Place() != at {
			t.Errorf("%s stands at %+v", b.Kind(), b.Place())
		}
	}
}

func TestUnknownKindsAreKept(t *testing.T) {
	raw := []byte(` { "kind":"turn.liked", "v" : 1, "n":1e400, "x":[null,"\u00e9"] } `)
	b, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(raw)
	clear(raw) // the log's buffer is used again
	if got, err := Encode(b); err != nil || !bytes.Equal(got, want) || b.Kind() != "turn.liked" {
		t.Errorf("kept as %s %q, %v", b.Kind(), got, err)
	}
}

func TestUnknownMembersAreSkipped(t *testing.T) {
	b, err := Decode([]byte(`{"v":1,"kind":"message.saved","stars":5,"message_id":"m","more":{"a":[]}}`))
	if err != nil || b.(*MessageSaved).MessageID != "m" {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, data := range []string{`{"v":2,"kind":"turn.liked"}`, `{"v":2,"kind":"message.saved","message_id":7}`, `{"v":99}`} {
		if b, err := Decode([]byte(data)); !errors.Is(err, subjects.ErrNewer) || errors.Is(err, subjects.ErrMalformed) {
			t.Errorf("%s is read as %+v, %v; it is newer", data, b, err)
		}
	}
	for _, data := range []string{``, ` `, `null`, `[]`, `"x"`, `{}`, `{"v":1}`, `{"v":0,"kind":"turn.expired"}`, `{"v":-1,"kind":"turn.expired"}`,
		`{"kind":"turn.expired"}`, `{"v":1,"kind":""}`, `{"v":1,"kind":7}`, `{"v":"1","kind":"turn.expired"}`,
		`{"v":1,"kind":"turn.expired"`, `{"v":1,"kind":"turn.expired"}{}`, `{"v":1,"v":1,"kind":"turn.expired"}`,
		`{"v":1,"kind":"text.delta","text":7}`, `{"v":1,"kind":"text.delta","ord":"0"}`, `{"v":1,"kind":"text.delta","ord":1.5}`,
		`{"v":1,"kind":"text.delta","text":"a","text":"b"}`, "{\"v\":1,\"kind\":\"text.delta\",\"text\":\"\xff\"}",
		`{"v":1,"kind":"text.delta","text":"\ud800"}`, `{"v":1,"kind":"turn.liked","text":"\ud800"}`, `{"v":1,"kind":"turn.liked","a":1,"a":2}`} {
		b, err := Decode([]byte(data))
		if !errors.Is(err, subjects.ErrMalformed) || errors.Is(err, subjects.ErrNewer) || b != nil {
			t.Errorf("%s is read as %+v, %v; it is malformed", data, b, err)
		}
	}
}

// What cannot be written is told, not written in part.
func TestEncodeRefuses(t *testing.T) {
	if data, err := Encode(&TextDelta{Text: "\xff"}); err == nil || !strings.Contains(err.Error(), "text.delta") {
		t.Errorf("%q, %v", data, err)
	}
}

// Any text survives, byte for byte.
func TestTextSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &CallDelta{At: At{Step: rapid.Int().Draw(t, "step"), Token: rapid.String().Draw(t, "token")},
			Args: rapid.String().Draw(t, "args"), Opaque: rapid.String().Draw(t, "opaque")}
		data, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(data, '\n') {
			t.Fatalf("an event is one line: %s", data)
		}
		if out, err := Decode(data); err != nil || !reflect.DeepEqual(in, out) {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func TestOutcomeKnown(t *testing.T) {
	for o, want := range map[Outcome]bool{OutcomeSucceeded: true, OutcomeFailed: true, OutcomeRefused: true, OutcomeNotRun: true, OutcomeUnknown: false, "": false} {
		if o.Known() != want {
			t.Errorf("%q is known: %v", o, o.Known())
		}
	}
}

// TestDecodeTakesNoShortCutInMeaning: however the head is spelled, what is read and what
// is refused is the same.
func TestDecodeTakesNoShortCutInMeaning(t *testing.T) {
	own := `{"v":1,"kind":"turn.cancelled","v":2}`
	for _, bad := range []string{own, `{"v":1,"kind":"turn.cancelled","kind":"turn.expired"}`, `{"v":1,"kind":"turn.cancelled"} x`, `{"v":1,"kind":"turn.cancelled"`} {
		if b, err := Decode([]byte(bad)); !errors.Is(err, subjects.ErrMalformed) {
			t.Errorf("%s: %v, %v; want ErrMalformed", bad, b, err)
		}
	}
	for _, good := range []string{`{"v":1,"kind":"turn.cancelled"}`, `{ "kind":"turn.cancelled", "v":1 }`, `{"v":1,"kind":"turn.cancelle\u0064"}`} {
		if b, err := Decode([]byte(good)); err != nil || b.Kind() != "turn.cancelled" {
			t.Errorf("%s: %v, %v", good, b, err)
		}
	}
}
