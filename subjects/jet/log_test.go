package jet

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
)

func TestEnsureRefusesAnotherLayout(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	if err := c.Ensure(ctx, subjects.Layout{Partitions: 1, Replicas: 1}); err != nil {
		t.Fatalf("the same layout again: %v", err)
	}
	err := c.Ensure(ctx, subjects.Layout{Partitions: 7, Replicas: 1})
	if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), "1 partitions") || !strings.Contains(err.Error(), "for 7") {
		t.Fatalf("another layout gives %v, want ErrLayout naming 1 and 7", err)
	}
	if _, err := c.State(ctx, subjects.EventsStream(3)); err == nil {
		t.Error("a refused layout created streams")
	}
}

func TestPublishAfter(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	first := must(c.PublishAfter(ctx, evTurn, map[string]string{"Tf-A": "b"}, []byte("1"), 0))(t)
	if _, err := c.PublishAfter(ctx, evTurn, nil, []byte("2"), 0); !errors.Is(err, ErrConflict) {
		t.Errorf("at 0 a second time: %v, want ErrConflict", err)
	}
	second := must(c.PublishAfter(ctx, evTurn, nil, []byte("3"), first))(t)
	m, ok, err := c.LastOf(ctx, evStream, evTurn)
	if err != nil || !ok || m.Seq != second || string(m.Data) != "3" {
		t.Errorf("last is %+v %t %v", m, ok, err)
	}
	m, ok, err = c.Get(ctx, evStream, first)
	if err != nil || !ok || string(m.Data) != "1" || m.Header["Tf-A"] != "b" || m.Subject != evTurn || m.Time.IsZero() {
		t.Errorf("first is %+v %t %v", m, ok, err)
	}
	if _, ok, err := c.Get(ctx, evStream, 99); ok || err != nil {
		t.Errorf("message 99: %t %v", ok, err)
	}
	if _, err := c.Publish(ctx, evTurn, nil, make([]byte, 9<<20)); !errors.Is(err, ErrRejected) {
		t.Errorf("9 MiB: %v, want ErrRejected", err)
	}
	if _, err := c.Publish(ctx, "nobody.here", nil, nil); !errors.Is(err, ErrUnclear) {
		t.Errorf("no stream: %v, want ErrUnclear", err)
	}
}

func TestReadSubject(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	const turns, each = 3, 2500
	w := c.NewOrderedWriter(evStream)
	subject := func(turn int) string {
		return subjects.Events(0, subjects.Turn{Tenant: "t", ID: fmt.Sprint(turn)})
	}
	for i := range turns * each { // turn 0 has sequences 1, 4, 7, …
		if err := w.Append(ctx, subject(i%turns), []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	end := uint64(turns*(each-1) + 1)
	for _, tc := range []struct {
		name        string
		subject     string
		from, until uint64
		last        uint64
		count       int
	}{
		{"all", subject(0), 0, 0, end, each},
		{"the first", subject(0), 1, 1, 1, 1},
		{"the last only", subject(0), end, 0, end, 1},
		{"until between two", subject(0), 0, 9, 7, 3},
		{"until beyond the end", subject(0), 4, 1 << 40, end, each - 1},
		{"beyond the end", subject(0), end + 1, 0, 0, 0},
		{"empty range", subject(0), 5, 6, 0, 0},
		{"wildcard", "tf.ev.0.t.*", 0, 0, turns * each, turns * each},
		{"wildcard until", "tf.ev.0.*.*", 10, 20, 20, 11},
		{"no such subject", subject(9), 0, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []Msg
			last, err := c.ReadSubject(ctx, evStream, tc.subject, tc.from, tc.until, func(m Msg) error {
				got = append(got, m)
				return nil
			})
			if err != nil || last != tc.last || len(got) != tc.count {
				t.Fatalf("last %d, %d messages, %v; want %d, %d", last, len(got), err, tc.last, tc.count)
			}
			inOrder(t, got)
			for _, m := range got {
				if string(m.Data) != strconv.FormatUint(m.Seq-1, 10) || len(m.Header) > 0 {
					t.Fatalf("message %d holds %s %v", m.Seq, m.Data, m.Header)
				}
			}
		})
	}
	stop := errors.New("enough")
	if _, err := c.ReadSubject(ctx, evStream, subject(0), 0, 0, func(Msg) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("fn's error comes back as %v", err)
	}
}

func TestTail(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	for i := range 10 {
		must(c.Publish(ctx, evTurn, map[string]string{"N": strconv.Itoa(i)}, []byte{byte(i)}))(t)
	}
	got := newCollector()
	stop := startTail(t, c, evStream, nil, 4, got.take)
	got.count(t, 7)
	must(c.Publish(ctx, evTurn, nil, []byte{10}))(t)
	msgs := got.count(t, 8)
	if msgs[0].Seq != 4 || msgs[7].Seq != 11 || msgs[0].Header["N"] != "3" || msgs[0].Time.IsZero() {
		t.Errorf("got %+v … %+v", msgs[0], msgs[7])
	}
	if err := stop(); err != nil {
		t.Errorf("tail ends with %v", err)
	}
	enough := errors.New("enough")
	if err := c.Tail(ctx, evStream, nil, 0, func(Msg) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("fn's error comes back as %v", err)
	}
}

func TestTailFilters(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	turn := subjects.Turn{Tenant: "t", ID: "x"}
	for i := range 30 {
		lane := []subjects.Lane{subjects.LaneFeed, subjects.LaneStep, subjects.LaneCall}[i%3]
		must(c.Publish(ctx, subjects.Out(0, turn, lane), nil, nil))(t)
	}
	for _, tc := range []struct {
		filters []string
		count   int
	}{
		{[]string{subjects.OutLane(0, subjects.LaneFeed)}, 10},
		{[]string{subjects.OutLane(0, subjects.LaneFeed), subjects.OutLane(0, subjects.LaneCall)}, 20},
	} {
		got := newCollector()
		stop := startTail(t, c, outStream, tc.filters, 0, got.take)
		got.count(t, tc.count)
		if err := stop(); err != nil || len(got.msgs) != tc.count {
			t.Errorf("%v: %d messages, %v; want %d", tc.filters, len(got.msgs), err, tc.count)
		}
	}
}

// The latest of each subject come in the order of the log, one a subject.
func TestLatest(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	for i := range 30 {
		turn := subjects.Turn{Tenant: "t", ID: strconv.Itoa(i % 10)}
		must(c.Publish(ctx, subjects.Out(0, turn, subjects.LaneFeed), nil, []byte(strconv.Itoa(i))))(t)
		must(c.Publish(ctx, subjects.Out(0, turn, subjects.LaneStep), nil, nil))(t)
	}
	var got []string
	if err := c.Latest(ctx, outStream, subjects.OutLane(0, subjects.LaneFeed), func(m Msg) error {
		got = append(got, string(m.Data))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := strings.Fields("20 21 22 23 24 25 26 27 28 29"); !slices.Equal(got, want) {
		t.Errorf("latest: %v, want %v", got, want)
	}
	if err := c.Latest(ctx, outStream, subjects.OutLane(0, subjects.LaneCall), func(Msg) error { return errors.New("called") }); err != nil {
		t.Errorf("nothing there: %v", err)
	}
}

// A tail goes on by itself over a restart and over the loss of its consumer.
func TestTailSurvivesRestart(t *testing.T) {
	h, c := single(t)
	ctx := testContext(t)
	reconnects := make(chan struct{}, 8)
	c.OnReconnect(func() { reconnects <- struct{}{} })
	got := newCollector()
	stop := startTail(t, c, evStream, nil, 0, got.take)
	n := 0
	for range 3 {
		for range 100 {
			must(c.Publish(ctx, evTurn, nil, []byte(strconv.Itoa(n))))(t)
			n++
		}
		h.restart()
		<-reconnects
	}
	must(c.Publish(ctx, evTurn, nil, []byte(strconv.Itoa(n))))(t)
	msgs := got.count(t, n+1)
	for i, m := range msgs {
		if string(m.Data) != strconv.Itoa(i) || m.Seq != uint64(i+1) {
			t.Fatalf("message %d is %s at %d", i, m.Data, m.Seq)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("tail ends with %v", err)
	}
}

func TestListen(t *testing.T) {
	_, c := single(t)
	got := make(chan Msg, 1)
	stop := must(c.Listen("tf.alive.*", func(m Msg) { got <- m }))(t)
	defer stop()
	if err := c.Broadcast("tf.alive.a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if m := <-got; m.Subject != "tf.alive.a" || string(m.Data) != "x" {
		t.Errorf("got %+v", m)
	}
}

// The yardstick measures all of a stream, as it is at the call.
func TestOrdered(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	if n, err := c.Ordered(ctx, evStream); n != 0 || err != nil {
		t.Errorf("an empty stream: %d, %v", n, err)
	}
	const all = 1234 // more than the library asks for at a time
	w := c.NewOrderedWriter(evStream)
	for range all {
		if err := w.Append(ctx, evTurn, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Ordered(ctx, evStream); n != all || err != nil {
		t.Errorf("%d messages, %v; want %d", n, err, all)
	}
	if n, err := c.Ordered(ctx, "TF_NONE"); n != 0 || err == nil {
		t.Errorf("a stream that is not there: %d, %v", n, err)
	}
}

// What the second form of a delivery's reply subject says is what the first one says.
func TestParseDelivery(t *testing.T) {
	want := delivery{delivered: 1, seq: 22, consumerSeq: 333, pending: 5, time: time.Unix(1, 5).UTC()}
	for _, reply := range []string{"$JS.ACK.TF_EV_0.tail-x.1.22.333.1000000005.5", "$JS.ACK._.hash.TF_EV_0.tail-x.1.22.333.1000000005.5",
		"$JS.ACK.hub.hash.TF_EV_0.tail-x.1.22.333.1000000005.5.rand"} {
		if got, err := parseDelivery(reply); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v", reply, got, err)
		}
	}
	for _, reply := range []string{"", "$JS.ACK", "$JS.FC.TF_EV_0.tail-x.1.22.333.1000000005.5", "$JS.ACK.TF_EV_0.tail-x.1.22.333.1000000005",
		"$JS.ACK.TF_EV_0.tail-x.1.x.333.1000000005.5", "$JS.ACK.TF_EV_0.tail-x.1.22.333.1000000005.-5"} {
		if got, err := parseDelivery(reply); err == nil {
			t.Errorf("%q is read as %+v", reply, got)
		}
	}
}
