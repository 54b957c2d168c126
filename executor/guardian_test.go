package executor

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/jet"
)

// fakeEnd is a stream as its leader tells it, one state after another.
type fakeEnd struct {
	states []jet.StreamState
	at     map[uint64]string
}

func (e *fakeEnd) State(context.Context, string) (jet.StreamState, error) {
	if len(e.states) == 0 {
		return jet.StreamState{}, errors.New("no answer")
	}
	s := e.states[0]
	if len(e.states) > 1 {
		e.states = e.states[1:]
	}
	return s, nil
}

func (e *fakeEnd) Get(_ context.Context, _ string, seq uint64) (jet.Msg, bool, error) {
	data, ok := e.at[seq]
	return jet.Msg{Seq: seq, Data: []byte(data)}, ok, nil
}

// noTime passes at once.
type noTime struct{}

func (noTime) Now() time.Time                                   { return time.Time{} }
func (noTime) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }
func (noTime) AfterFunc(time.Duration, func()) (stop func())    { return func() {} }

// noMarks keeps no marks.
type noMarks struct{}

func (noMarks) SetMark(context.Context, int, keystore.Mark) error { return nil }
func (noMarks) Marks() (map[int]keystore.Mark, error)             { return nil, nil }

func TestCut(t *testing.T) {
	const mark = 7
	is := func(first, last uint64) jet.StreamState { return jet.StreamState{FirstSeq: first, LastSeq: last} }
	for _, c := range []struct {
		name   string
		states []jet.StreamState
		at     map[uint64]string
		want   bool
	}{
		{"as it was", []jet.StreamState{is(1, 7)}, map[uint64]string{7: "mine"}, false},
		{"went on", []jet.StreamState{is(1, 9)}, map[uint64]string{7: "mine"}, false},
		{"ends earlier", []jet.StreamState{is(1, 6)}, nil, true},
		{"is empty", []jet.StreamState{is(0, 0)}, nil, true},
		{"a leader that catches up", []jet.StreamState{is(1, 5), is(1, 6), is(1, 7)}, map[uint64]string{7: "mine"}, false},
		{"lost its end and went on", []jet.StreamState{is(1, 9)}, map[uint64]string{7: "another"}, true},
		{"the message was purged", []jet.StreamState{is(1, 9)}, nil, false},
		{"the message aged out", []jet.StreamState{is(8, 9)}, nil, false},
		{"all aged out", []jet.StreamState{is(8, 7)}, nil, false},
	} {
		m := newMarks(noMarks{}, 1)
		m.saw(0, mark, []byte("mine"))
		m.saw(0, mark-1, []byte("older"))
		g := &guardian{gate: newGate(), marks: m, end: &fakeEnd{c.states, c.at}, clock: noTime{}, partitions: 1}
		cut, err := g.cut(context.Background(), 0)
		if cut != c.want || err != nil {
			t.Errorf("%s: cut %v, %v; want %v", c.name, cut, err, c.want)
		}
	}
	if m := newMarks(noMarks{}, 1); m.get(0).Digest != ([sha256.Size]byte{}) {
		t.Error("a mark of nothing")
	}
}

func TestGateEpochs(t *testing.T) {
	g := newGate()
	first := g.started()
	g.close()
	if g.release(first) {
		t.Error("opened by a check that began before it was closed again")
	}
	if !g.release(g.started()) {
		t.Fatal("not opened")
	}
	epoch, err := g.wait(context.Background())
	if err != nil || !g.current(epoch) {
		t.Errorf("epoch %d: %v", epoch, err)
	}
	g.close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.wait(ended); err == nil || g.current(epoch) {
		t.Error("open after close")
	}
}

// From the loss of a connection on nothing is let through, until the log of the server
// that follows has been checked.
func TestDisconnectClosesTheGate(t *testing.T) {
	g := &guardian{gate: newGate(), marks: newMarks(noMarks{}, 1), alarm: make(chan struct{}, 1)}
	g.gate.release(g.gate.started())
	before, err := g.gate.wait(context.Background())
	check(t, err)
	g.disconnect()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.gate.wait(ended); err == nil || g.gate.current(before) || !g.doubt.Load() {
		t.Error("the gate is open without a connection")
	}
	if len(g.alarm) != 0 {
		t.Error("the log is to be checked without a connection")
	}
}
