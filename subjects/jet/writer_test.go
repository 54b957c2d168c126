package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/turnfold/turnfold/subjects"
)

func turnSubject(id int) string {
	return subjects.Events(0, subjects.Turn{Tenant: "t", ID: "w" + strconv.Itoa(id)})
}

// prefixes checks that each writer's numbers, repeats dropped, are 0, 1, 2, … up to
// total, and counts the repeats.
func prefixes(t testing.TB, msgs []Msg, writers, total int) (repeats int) {
	t.Helper()
	next := make(map[string]int)
	for _, m := range msgs {
		n, err := strconv.Atoi(string(m.Data))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case n == next[m.Subject]:
			next[m.Subject]++
		case n < next[m.Subject]:
			repeats++
		default:
			t.Fatalf("%s: %d follows %d (sequence %d)", m.Subject, n, next[m.Subject]-1, m.Seq)
		}
	}
	if len(next) != writers {
		t.Fatalf("%d writers stored something, want %d", len(next), writers)
	}
	for subject, n := range next {
		if n != total {
			t.Fatalf("%s: %d stored, want %d", subject, n, total)
		}
	}
	return repeats
}

// readAll is everything a stream holds.
func readAll(t testing.TB, c *Conn, stream string) []Msg {
	t.Helper()
	var msgs []Msg
	if _, err := c.ReadSubject(testContext(t), stream, ">", 0, 0, func(m Msg) error {
		msgs = append(msgs, m)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return msgs
}

// writeAll has each writer append its numbers, flushing now and then.
func writeAll(t testing.TB, ws []*OrderedWriter, total int, progress func(n int)) {
	t.Helper()
	ctx := testContext(t)
	var wg sync.WaitGroup
	for i, w := range ws {
		wg.Go(func() {
			for n := range total {
				err := w.Append(ctx, turnSubject(i), []byte(strconv.Itoa(n)))
				if err == nil && n%997 == 0 {
					err = w.Flush(ctx)
				}
				if err != nil {
					t.Errorf("writer %d at %d: %v", i, n, err)
					return
				}
				if i == 0 {
					progress(n)
				}
			}
			if err := w.Close(ctx); err != nil {
				t.Errorf("close of writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func TestOrderedWriter(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	w := c.NewOrderedWriter(evStream)
	if err := w.Flush(ctx); err != nil {
		t.Errorf("flush of nothing: %v", err)
	}
	if err := w.Append(ctx, evTurn, make([]byte, 9<<20)); !errors.Is(err, ErrRejected) {
		t.Errorf("9 MiB: %v, want ErrRejected", err)
	}
	for i := range 5 {
		if err := w.Append(ctx, turnSubject(0), []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if s := must(c.State(ctx, evStream))(t); s.LastSeq != uint64(i+1) {
			t.Fatalf("flushed %d, stored %d", i+1, s.LastSeq)
		}
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(ctx, evTurn, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if n := prefixes(t, readAll(t, c, evStream), 1, 5); n != 0 {
		t.Errorf("%d repeats without a failure", n)
	}
}

// Several goroutines share one writer; several writers share the stream.
func TestOrderedWritersTogether(t *testing.T) {
	_, c := single(t)
	shared := c.NewOrderedWriter(evStream)
	writeAll(t, []*OrderedWriter{c.NewOrderedWriter(evStream), c.NewOrderedWriter(evStream)}, 3000, func(int) {})
	ctx := testContext(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := range 3000 {
				if err := shared.Append(ctx, turnSubject(10+g), []byte(strconv.Itoa(n))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := shared.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if n := prefixes(t, readAll(t, c, evStream), 6, 3000); n != 0 {
		t.Errorf("%d repeats without a failure", n)
	}
}

func TestOrderedWriterOverRestarts(t *testing.T) {
	h, c := single(t)
	const total = 9000
	var ws []*OrderedWriter
	for range 3 {
		ws = append(ws, c.NewOrderedWriter(evStream))
	}
	writeAll(t, ws, total, func(n int) {
		if n%3000 == 1500 {
			h.restart()
		}
	})
	t.Logf("%d repeats", prefixes(t, readAll(t, c, evStream), len(ws), total))
}

// A batch that the server has forgotten (a client that slept) is opened again.
func TestOrderedWriterAfterForgottenBatch(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	w := c.NewOrderedWriter(evStream)
	for n := range 100 {
		if n%10 == 5 {
			w.p.mu.Lock()
			w.p.batch.id, w.p.batch.prefix = "gone", newBatch(w.p.inbox, "gone", 0).prefix
			w.p.mu.Unlock()
		}
		if err := w.Append(ctx, turnSubject(0), []byte(strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
		if n%10 == 4 {
			if err := w.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	prefixes(t, readAll(t, c, evStream), 1, 100)
}

func TestCloseReportsWhatIsNotStored(t *testing.T) {
	h, c := single(t)
	w := c.NewOrderedWriter(evStream)
	h.srv.Shutdown()
	for !errors.Is(w.Append(testContext(t), evTurn, []byte("x")), nil) {
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Close(ctx); !errors.Is(err, ErrUnclear) {
		t.Errorf("close gives %v, want ErrUnclear", err)
	}
	h.start()
}

// fencedRace has two writers, both sure to own the stream, continue it until it
// holds total messages; each message is a pure function of its sequence.
func fencedRace(t testing.TB, conns []*Conn, total uint64, progress func(last uint64)) {
	t.Helper()
	ctx := testContext(t)
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			for last := uint64(0); last < total && ctx.Err() == nil; {
				m, _, err := c.LastOf(ctx, outStream, "tf.out.0.>")
				if err != nil {
					continue // no leader at the moment
				}
				last = m.Seq
				w := c.NewFencedWriter(outStream, last)
				for err = nil; err == nil && w.Last() < last+uint64(500*(i+1)); {
					_, err = w.Append(outFeed, map[string]string{"By": strconv.Itoa(i)}, []byte(strconv.FormatUint(w.Last(), 10)))
				}
				if closeErr := w.Close(ctx); closeErr != nil && !errors.Is(closeErr, ErrFenced) {
					t.Errorf("writer %d: %v, want ErrFenced", i, closeErr)
				}
				if i == 0 {
					progress(last)
				}
			}
		})
	}
	wg.Wait()
	by := map[string]int{}
	for i, m := range readAll(t, conns[0], outStream) {
		if m.Seq != uint64(i+1) || string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("message %d is %q at %d", i, m.Data, m.Seq)
		}
		by[m.Header["By"]]++
	}
	t.Logf("stored by writer: %v", by)
}

func TestFencedWriterRace(t *testing.T) {
	h, c := single(t)
	fencedRace(t, []*Conn{c, h.connect()}, 8000, func(uint64) {})
}

func TestFencedWriterRaceOverRestarts(t *testing.T) {
	h, c := single(t)
	next := uint64(1000)
	fencedRace(t, []*Conn{c, h.connect()}, 6000, func(last uint64) {
		if last > next {
			next += 2000
			h.restart()
		}
	})
}

func TestFencedWriter(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	a, b := c.NewFencedWriter(outStream, 0), c.NewFencedWriter(outStream, 0)
	for i := range uint64(2500) { // more than the window
		if seq := must(a.Append(outFeed, nil, []byte("a")))(t); seq != i+1 {
			t.Fatalf("append %d has sequence %d", i+1, seq)
		}
	}
	if err := a.Flush(ctx); err != nil || a.Last() != 2500 || a.Stored() != 2500 {
		t.Fatalf("flush: %v, last %d, stored %d", err, a.Last(), a.Stored())
	}
	must(b.Append(outFeed, nil, []byte("b")))(t)
	if err := b.Flush(ctx); !errors.Is(err, ErrFenced) {
		t.Errorf("flush of the late writer: %v, want ErrFenced", err)
	}
	if _, err := b.Append(outFeed, nil, nil); !errors.Is(err, ErrFenced) || !errors.Is(b.Err(), ErrFenced) {
		t.Errorf("the late writer goes on: %v, %v", err, b.Err())
	}
	must(a.Append(outFeed, map[string]string{"Tf-In": "7"}, []byte("a")))(t)
	for _, w := range []*FencedWriter{a, b} {
		if err := w.Close(ctx); err != nil && w == a {
			t.Error(err)
		}
	}
	m, _, err := c.LastOf(ctx, outStream, outFeed)
	if err != nil || m.Seq != 2501 || m.Header["Tf-In"] != "7" {
		t.Errorf("last is %+v %v", m, err)
	}
}

// A message is lost and another writer's message takes its place: the next one's
// expectation holds, and still it must not be stored.
func TestFencedWriterLostMessageReplaced(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	w := c.NewFencedWriter(outStream, 0)
	must(w.Append(outFeed, nil, []byte("1")))(t)
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	w.p.mu.Lock() // as if number 2 had been sent and lost
	w.p.appended++
	w.p.queue = append(w.p.queue, entry{})
	w.p.batch.sent++
	w.p.mu.Unlock()
	must(c.Publish(ctx, outFeed, nil, []byte("other")))(t)
	_, _ = w.Append(outFeed, nil, []byte("3")) // its fate shows in Flush
	if err := w.Flush(ctx); !errors.Is(err, ErrFenced) {
		t.Errorf("flush: %v, want ErrFenced", err)
	}
	_ = w.Close(ctx)
	if msgs := readAll(t, c, outStream); len(msgs) != 2 || string(msgs[1].Data) != "other" {
		t.Errorf("stored: %+v", msgs)
	}
}
