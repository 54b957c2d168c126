package reducer_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

var ownersFor = flag.Duration("owners.for", 8*time.Second, "how long two reducers own the same partition")

// TestTwoOwners forces two reducers to believe that they own the same partition, on
// three servers whose leaders step down, and compares every message of OUT with what
// the fold makes of EV: the same bytes, in the same order, none twice, none missing.
func TestTwoOwners(t *testing.T) {
	cluster, err := embed.StartCluster(3, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Shutdown)
	conn := dial(t, cluster.URL())
	if err := conn.Ensure(context.Background(), subjects.Layout{Partitions: 1, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	registries := map[string]*prometheus.Registry{"a": prometheus.NewRegistry(), "b": prometheus.NewRegistry()}
	for name, registry := range registries {
		r, err := reducer.New(reducer.Config{Conn: dial(t, cluster.URL()), Partitions: 1, Instance: name, Incarnation: "1",
			LeaseTTL: time.Second, Log: zerolog.Nop(), Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		r.Force()
		work.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Errorf("reducer %s: %v", name, err)
			}
		})
	}
	downs := 0
	unrest, calm := context.WithCancel(ctx)
	work.Go(func() {
		for ; unrest.Err() == nil; time.Sleep(700 * time.Millisecond) {
			if stepDown(unrest, conn, subjects.OutputsStream(0)) {
				downs++
			}
		}
	})
	events := writeTurns(t, conn, time.Now().Add(*ownersFor))
	calm()
	outputs := awaitOutputs(t, conn)
	stop()
	work.Wait()
	fenced := map[string]int{}
	for name, registry := range registries {
		if fenced[name] = overtaken(t, registry); fenced[name] == 0 {
			t.Errorf("reducer %s was never overtaken: there was no fight", name)
		}
	}
	t.Logf("%d events, %d outputs, %d step-downs, owners started over %v times", events, outputs, downs, fenced)
	compare(t, conn)
}

// overtaken is how often a reducer started over from the log.
func overtaken(t *testing.T, r *prometheus.Registry) int {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "turnfold_reducer_restarts_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatal("no such metric")
	return 0
}

func dial(t *testing.T, url string) *jet.Conn {
	t.Helper()
	conn, err := jet.Connect(context.Background(), jet.Config{URL: url, Name: "test", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

func stepDown(ctx context.Context, conn *jet.Conn, stream string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	m, err := conn.Ask(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, nil)
	return err == nil && bytes.Contains(m.Data, []byte(`"success":true`))
}

// behindMax is how many events the owners may be behind: what they fight over must not
// grow without end on a machine that is slow or busy.
const behindMax = 2000

// written is the input that OUT stands at.
func written(t *testing.T, conn *jet.Conn) uint64 {
	m, ok, err := conn.LastOf(context.Background(), subjects.OutputsStream(0), "tf.out.>")
	if err != nil || !ok {
		return 0 // while there is no leader, say
	}
	s, err := reducer.ReadStamp(m)
	if err != nil {
		t.Error(err)
	}
	return s.In
}

// writeTurns writes turns with a failed attempt each until a time.
func writeTurns(t *testing.T, conn *jet.Conn, until time.Time) (events int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+*ownersFor)
	defer cancel()
	w := conn.NewOrderedWriter(subjects.EventsStream(0))
	for n := 0; time.Now().Before(until); n++ {
		one := turn(fmt.Sprintf("two-%d", n))
		if n%10 == 0 { // the index is not what is tested; some turns are in it
			if err := turns.NewReader(conn, 1).MarkOpen(ctx, one); err != nil {
				t.Log(err)
			}
		}
		bodies := []event.Body{opened()}
		bodies = append(bodies, attempt(1, 1, "t1", "some words that break", false)...)
		bodies = append(bodies, attempt(1, 2, "t2", "some words that do not break", true)...)
		for _, b := range bodies {
			data, err := event.Encode(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Append(ctx, subjects.Events(0, one), data); err != nil {
				t.Fatal(err)
			}
			events++
		}
		for n%20 == 0 && written(t, conn)+behindMax < uint64(events) && time.Now().Before(until) {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return events
}

// awaitOutputs returns when OUT stands still at the end of EV.
func awaitOutputs(t *testing.T, conn *jet.Conn) uint64 {
	t.Helper()
	last, still := uint64(0), 0
	for deadline := time.Now().Add(60 * time.Second); still < 30; time.Sleep(100 * time.Millisecond) {
		s, err := conn.State(context.Background(), subjects.OutputsStream(0))
		switch {
		case err == nil && s.LastSeq == last:
			still++
		case err == nil:
			last, still = s.LastSeq, 0
		}
		if time.Now().After(deadline) {
			t.Fatalf("outputs do not come to an end: %d so far", last)
		}
	}
	return last
}

// compare holds OUT against the fold of EV. Events that come after the last outputs,
// such as the owners' own, may not be folded yet.
func compare(t *testing.T, conn *jet.Conn) {
	t.Helper()
	type message struct {
		subject string
		data    []byte
	}
	var want []message
	states := map[subjects.Turn]fold.State{}
	each(t, conn, subjects.EventsStream(0), func(m jet.Msg) {
		_, turn, err := subjects.ParseEvents(m.Subject)
		if err != nil {
			t.Fatal(err)
		}
		e, err := turns.Decode(turn, m)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := states[turn]
		if !ok {
			s = fold.State{Turn: turn}
		}
		var outputs []feed.Output
		states[turn], outputs, _ = fold.Guarded(s, e)
		for _, o := range outputs {
			data, err := feed.Encode(o)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, message{subjects.Out(0, turn, o.Body.Lane()), data})
		}
	})
	n := 0
	each(t, conn, subjects.OutputsStream(0), func(m jet.Msg) {
		if n >= len(want) || want[n].subject != m.Subject || !bytes.Equal(want[n].data, m.Data) {
			t.Fatalf("message %d of OUT is %s %s; the fold says %+v", m.Seq, m.Subject, m.Data, want[min(n, len(want)-1)])
		}
		n++
	})
	if n < len(want) {
		t.Errorf("OUT ends after %d outputs; the fold makes %d", n, len(want))
	}
	for turn, s := range states {
		if s.Text() != "some words that do not break" {
			t.Errorf("%s ends with %q", turn, s.Text())
		}
	}
}

// each reads a stream to its present end.
func each(t *testing.T, conn *jet.Conn, stream string, f func(jet.Msg)) {
	t.Helper()
	s, err := conn.State(context.Background(), stream)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seen := uint64(0)
	err = conn.Tail(ctx, stream, nil, 1, func(m jet.Msg) error {
		f(m)
		if seen = m.Seq; seen >= s.LastSeq {
			cancel()
		}
		return nil
	})
	if err != nil || seen < s.LastSeq {
		t.Fatalf("%s read to %d of %d: %v", stream, seen, s.LastSeq, err)
	}
}
