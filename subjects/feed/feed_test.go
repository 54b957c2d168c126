package feed

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

// TestWire pins the bytes of every type, with every member and with none.
func TestWire(t *testing.T) {
	lines := wiretest.Recorded(t)
	for _, typ := range Types() {
		full, _ := New(typ)
		wiretest.Fill(t, reflect.ValueOf(full), typ)
		empty, _ := New(typ)
		for _, o := range []Output{{Body: empty}, {ID: "12.3.7", Turn: "t-1", Step: 2, Attempt: 3, Body: full}} {
			data, err := Encode(o)
			if err != nil {
				t.Fatalf("%s: %v", typ, err)
			}
			wiretest.Record(t, lines, data)
			back, err := Decode(data)
			if err != nil || !reflect.DeepEqual(back, o) {
				t.Errorf("%s is read back as %+v, %v", data, back, err)
			}
		}
	}
}

// TestRecorded reads what is on the logs of earlier versions, and writes it again as it
// was: an audit compares bytes.
func TestRecorded(t *testing.T) {
	lines := wiretest.Recorded(t)
	if len(lines) < 2*len(Types()) {
		t.Fatalf("only %d lines are recorded", len(lines))
	}
	for _, line := range lines {
		o, err := Decode(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if _, unknown := o.Body.(*Unknown); unknown {
			t.Errorf("a type is gone: %s", line)
		}
		if again, err := Encode(o); err != nil || !bytes.Equal(again, line) {
			t.Errorf("%s is written again as %s, %v", line, again, err)
		}
	}
}

// A type goes to those whom it is for, and to nobody else.
func TestLanes(t *testing.T) {
	want := map[subjects.Lane][]string{
		subjects.LaneFeed: {"approval_request", "card", "client_call", "completion", "error", "image", "message_saved", "ping", "reasoning_delta",
			"reset", "text_delta", "tool_progress", "tool_result", "tool_start", "turn_accepted", "usage"},
		subjects.LaneStep: {"step", "step_withdraw"},
		subjects.LaneCall: {"call", "call_withdraw"},
	}
	n := 0
	for lane, types := range want {
		n += len(types)
		for _, typ := range types {
			if b, ok := New(typ); !ok || b.Type() != typ || b.Lane() != lane {
				t.Errorf("New(%s) gives %T; it must be of lane %s", typ, b, lane)
			}
		}
	}
	if len(Types()) != n || !slices.IsSorted(Types()) {
		t.Errorf("types are %v; tell here whom a new one is for", Types())
	}
	if b, ok := New("stars"); ok || b != nil {
		t.Errorf("New of no type gives %T", b)
	}
}

func TestUnknownTypesAreKept(t *testing.T) {
	raw := []byte(` {"id":"1.0","type":"stars", "turn":"t-1","step":1,"attempt":2,"n":1e400} `)
	o, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(raw)
	clear(raw) // the log's buffer is used again
	got, err := Encode(o)
	if err != nil || !bytes.Equal(got, want) || o.Body.Type() != "stars" || o.Body.Lane() != subjects.LaneFeed {
		t.Errorf("kept as %s %q, %v", o.Body.Type(), got, err)
	}
	if o.ID != "1.0" || o.Turn != "t-1" || o.Step != 1 || o.Attempt != 2 {
		t.Errorf("its place is %+v", o)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, data := range []string{``, `null`, `[]`, `{}`, `{"type":""}`, `{"type":7}`, `{"type":"ping"`, `{"type":"ping"}x`,
		`{"type":"text_delta","text":7}`, `{"type":"text_delta","step":"1"}`, `{"type":"text_delta","text":"a","text":"b"}`,
		"{\"type\":\"text_delta\",\"text\":\"\xff\"}", `{"type":"stars","a":1,"a":2}`} {
		if o, err := Decode([]byte(data)); !errors.Is(err, subjects.ErrMalformed) || o.Body != nil {
			t.Errorf("%s is read as %+v, %v; it is malformed", data, o, err)
		}
	}
	if data, err := Encode(Output{Body: &TextDelta{Text: "\xff"}}); err == nil || !strings.Contains(err.Error(), "text_delta") {
		t.Errorf("%q, %v", data, err)
	}
}

// Any text survives, byte for byte, and an item is one line.
func TestTextSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Output{ID: rapid.String().Draw(t, "id"), Turn: rapid.String().Draw(t, "turn"), Step: rapid.Int().Draw(t, "step"),
			Body: &ToolResult{Result: rapid.String().Draw(t, "result")}}
		data, err := Encode(in)
		if err != nil || bytes.ContainsRune(data, '\n') {
			t.Fatalf("%s, %v", data, err)
		}
		if out, err := Decode(data); err != nil || !reflect.DeepEqual(in, out) {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}
