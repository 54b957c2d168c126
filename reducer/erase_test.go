package reducer_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// erase orders the erasure of a turn, and waits until nothing of it is left.
func (w *world) erase(t subjects.Turn) {
	w.t.Helper()
	if _, err := turns.NewReader(w.conn, partitions).AskErasure(context.Background(), t, "ann", "why"); err != nil {
		w.t.Fatal(err)
	}
	w.erased(t)
}

// erased waits until an order is done and its turn has left nothing but a tombstone.
func (w *world) erased(t subjects.Turn) turns.Erasure {
	w.t.Helper()
	r, p := turns.NewReader(w.conn, partitions), t.Partition(partitions)
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		order, _, err := r.Erasure(context.Background(), t)
		if err != nil {
			w.t.Fatal(err)
		}
		kinds := map[string]int{}
		if _, err := w.conn.ReadSubject(context.Background(), subjects.EventsStream(p), subjects.Events(p, t), 1, 0, func(m jet.Msg) error {
			b, err := event.Decode(m.Data)
			if err == nil {
				kinds[b.Kind()]++
			}
			return err
		}); err != nil {
			w.t.Fatal(err)
		}
		_, out, err := w.conn.LastOf(context.Background(), subjects.OutputsStream(p), subjects.OutTurn(p, t))
		if err != nil {
			w.t.Fatal(err)
		}
		if order.Complete() && len(kinds) == 1 && kinds["turn.erased"] > 0 && !out {
			return order
		}
		if time.Now().After(until) {
			w.t.Fatalf("%s is not erased: %+v, events %v, outputs %v", t, order, kinds, out)
		}
	}
}

func (w *world) rewinds(t subjects.Turn) int {
	w.t.Helper()
	r, err := reducer.LoadRewinds(context.Background(), w.conn, t.Partition(partitions))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(r)
}

// beside names a turn that lies on the partition of another.
func beside(name string, other subjects.Turn) subjects.Turn {
	t := turn(name)
	for n := 0; t.Partition(partitions) != other.Partition(partitions); n++ {
		t = turn(name + string(rune('a'+n)))
	}
	return t
}

// TestErase: an owner takes a turn away, cancelled first if it runs, and goes on; the
// next owner goes on too, although the input that the position stands at is gone; and
// what comes of the turn later is taken away again.
func TestErase(t *testing.T) {
	w := newWorld(t)
	stop := w.reduce("a")
	one, running := turn("one"), turn("running")
	first := beside("first", one) // what is erased lies in the middle
	w.open(first)
	w.tell(first, attempt(1, 1, "t0", "Stays.", true)...)
	w.feed(first, "message_saved")
	w.open(one)
	w.tell(one, attempt(1, 1, "t1", "Hello.", true)...)
	w.feed(one, "message_saved")
	w.open(running)
	w.tell(running, attempt(1, 1, "t1", "Half a", true)[:3]...)
	w.erase(running)
	w.erase(one)
	if _, _, ok, err := w.conn.Bucket(subjects.BucketMessages).Get(context.Background(), "local.one"); ok || err != nil {
		t.Errorf("the message is still there: %v %v", ok, err)
	}
	before := w.erased(one)
	if before.Events != 10 || before.Outputs < 4 || before.By != "ann" {
		t.Errorf("taken away were %+v", before)
	}
	w.auditAll()
	stop()
	defer w.reduce("b")()
	w.tell(one, attempt(1, 1, "t1", "x", true)...) // a streamer that was paused for long
	for until := time.Now().Add(time.Minute); w.erased(one).Events != before.Events+3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("late words are counted as %+v", w.erased(one))
		}
	}
	two := turn("two")
	w.open(two)
	w.tell(two, attempt(1, 1, "t2", "Again.", true)...)
	w.feed(two, "message_saved")
	w.auditClean(two)
	w.auditClean(first)
	if v := w.auditClean(one); v.Status != string(fold.Erased) {
		t.Errorf("the verdict is %+v", v)
	}
	if n := w.rewinds(one) + w.rewinds(two); n != 0 {
		t.Errorf("%d rewinds were made for what was erased", n)
	}
}

// TestEraseAndLoss: where turns were erased, a lost end of the events is still found and
// taken back, and what a loss brings back of an erased turn is erased again.
func TestEraseAndLoss(t *testing.T) {
	w := newWorld(t)
	stop := w.reduce("a")
	one := turn("one")
	w.open(one)
	w.tell(one, attempt(1, 1, "t1", "Hello.", true)...)
	w.feed(one, "message_saved")
	stop()
	w.down()
	before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	copyTree(t, w.dir, before)
	w.up()
	stop = w.reduce("a")
	w.erase(one)
	stop()
	w.down()
	copyTree(t, w.dir, after)
	w.up()
	stop = w.reduce("a")
	lost := beside("two", one)
	w.open(lost)
	w.tell(lost, attempt(1, 1, "t2", "Lost.", true)...)
	w.feed(lost, "message_saved")
	stop()
	w.down()
	for p := range partitions {
		swapStream(t, w.dir, after, subjects.EventsStream(p))
	}
	w.up()
	stop = w.reduce("b")
	w.feed(lost, "error")
	if n := w.rewinds(lost); n != 1 {
		t.Errorf("%d rewinds were made for the loss", n)
	}
	w.auditAll()
	stop()
	w.down()
	for p := range partitions { // the erasure itself is lost, with its tombstone
		swapStream(t, w.dir, before, subjects.EventsStream(p))
	}
	w.up()
	stop = w.reduce("c")
	w.erased(one)
	w.auditAll()
	stop()
	w.down()
	for p := range partitions { // what was said comes back, and the tombstone goes
		swapStream(t, w.dir, before, subjects.OutputsStream(p))
	}
	w.up()
	defer w.reduce("d")()
	w.erased(one)
	w.auditAll()
}
