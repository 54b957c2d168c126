package reducer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// reduceWith runs a reducer that test changes and counts; the returned function stops it.
func (w *world) reduceWith(change func(*reducer.Reducer)) (counted func(name string) float64, stop func()) {
	w.t.Helper()
	reg := prometheus.NewRegistry()
	r, err := reducer.New(reducer.Config{Conn: w.conn, Partitions: partitions, Instance: "counted", Incarnation: "1",
		LeaseTTL: time.Second, Log: zerolog.Nop(), Registerer: reg})
	if err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	counted = func(name string) float64 {
		families, err := reg.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		w.t.Fatalf("no metric %s", name)
		return 0
	}
	return counted, func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("reducer ended with %v", err)
		}
	}
}

const hydrated = "turnfold_turns_hydrated_total"

// A new turn is not looked up: the log has proven that there was nothing before. One that
// was opened without that proof is, once; one that has ended is kept for what comes late.
func TestNewTurnsAreNotLookedUp(t *testing.T) {
	w := newWorld(t)
	count, stop := w.reduceWith(nil)
	defer stop()
	const many = 50
	data, err := event.Encode(opened())
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		one := turn(fmt.Sprint("proven-", i))
		if err := turns.NewReader(w.conn, partitions).MarkOpen(context.Background(), one); err != nil {
			t.Fatal(err)
		}
		if _, err := w.conn.PublishAfter(context.Background(), subjects.Events(one.Partition(partitions), one), nil, data, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		one := turn(fmt.Sprint("proven-", i))
		w.tell(one, attempt(1, 1, "t1", "Hello.", true)...)
		w.feed(one, "message_saved")
	}
	if got := count(hydrated); got != 0 {
		t.Errorf("%v turns were read from the log, want none of %d", got, many)
	}
	plain := turn("plain")
	w.open(plain)
	w.feed(plain, "turn_accepted")
	if got := count(hydrated); got != 1 {
		t.Errorf("%v turns were read from the log, want the one without proof", got)
	}
	w.tell(plain, &event.AttemptStarted{Step: 1, Attempt: 1, Token: "t1", Provider: "main", API: "openai-chat", Model: "m"}, &event.TurnCancelled{By: "user"})
	w.feed(plain, "error")
	for ord := range 20 { // of a stream that is not cut off yet
		w.tell(plain, &event.TextDelta{At: event.At{Step: 1, Attempt: 1, Token: "t1", Ord: ord}, Text: "late"})
	}
	last := turn("last-of-its-partition")
	for i := 0; last.Partition(partitions) != plain.Partition(partitions); i++ {
		last = turn(fmt.Sprint("last-", i))
	}
	w.open(last)
	w.feed(last, "turn_accepted") // so everything before is folded
	if got := count(hydrated); got != 2 {
		t.Errorf("%v turns were read from the log, want no more for late events than the two without proof", got)
	}
	w.auditClean(plain)
	w.auditClean(turn("proven-0"))
}

// A fold with a backlog tells its streamers that it is late, and then that it no longer is.
func TestLagIsTold(t *testing.T) {
	w := newWorld(t)
	one := turn("long")
	p := one.Partition(partitions)
	w.open(one)
	out := w.conn.NewOrderedWriter(subjects.EventsStream(p))
	w.tell(one, &event.AttemptStarted{Step: 1, Attempt: 1, Token: "t1", Provider: "main", API: "openai-chat", Model: "m"})
	const deltas = 10_000
	for ord := range deltas {
		data, err := event.Encode(&event.TextDelta{At: event.At{Step: 1, Attempt: 1, Token: "t1", Ord: ord}, Text: "some words "})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Append(context.Background(), subjects.Events(p, one), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	told := make(chan subjects.Lag, deltas)
	deaf, err := w.conn.Listen(subjects.LagSubject(p), func(m jet.Msg) {
		var lag subjects.Lag
		if err := json.Unmarshal(m.Data, &lag); err != nil || lag.V != subjects.Version {
			t.Errorf("%q: %v", m.Data, err)
		}
		told <- lag
	})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf()
	_, stop := w.reduceWith(func(r *reducer.Reducer) { r.LookAtLagEvery(time.Millisecond) })
	defer stop()
	late := false
	for limit := time.After(time.Minute); ; {
		select {
		case lag := <-told:
			late = late || lag.MS > 0
			if late && lag.MS == 0 {
				return
			}
		case <-limit:
			t.Fatalf("late %v, and no word that it is over", late)
		}
	}
}
