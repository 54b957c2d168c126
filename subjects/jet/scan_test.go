package jet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// fillStream stores n messages, some of them so large that a request's bytes are used up
// before its messages are.
func fillStream(t testing.TB, c *Conn, n int) {
	t.Helper()
	ctx := testContext(t)
	w := c.NewOrderedWriter(evStream)
	large := make([]byte, 600<<10)
	for i := range n {
		data := fmt.Appendf(nil, "%d", i+1)
		if isLarge(uint64(i + 1)) {
			data = large
		}
		if err := w.Append(ctx, evTurn, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func isLarge(seq uint64) bool { return seq > creditMsgs/2 && seq <= creditMsgs/2+40 }

// A scan gives each message of its range once and in order: over many requests, more
// bytes than one request allows, and a server that goes and comes back.
func TestScan(t *testing.T) {
	h, c := single(t)
	ctx := testContext(t)
	refused := func(Msg) error { return errors.New("nothing is here") }
	if err := c.Scan(ctx, evStream, 1, 0, refused); err != nil {
		t.Errorf("an empty stream: %v", err)
	}
	const all = 2*creditMsgs + 345
	fillStream(t, c, all)
	made := make(chan *nats.Msg, 64)
	advisories, err := c.nc.ChanSubscribe("$JS.EVENT.ADVISORY.CONSUMER.CREATED."+evStream+".>", made)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	if err := c.Scan(ctx, evStream, 1, 0, func(Msg) error { read++; return nil }); err != nil || read != all {
		t.Errorf("%d read, %v", read, err)
	}
	select {
	case <-made:
	case <-ctx.Done():
		t.Fatal("the server does not tell of consumers")
	}
	if err := errors.Join(c.nc.Flush(), advisories.Unsubscribe()); err != nil || len(made) != 0 {
		t.Errorf("%d more consumers were needed, %v: requests that end are not given again", len(made), err)
	}
	for _, r := range []struct{ from, until, first, last uint64 }{
		{0, 0, 1, all}, {1, 7, 1, 7}, {7, 7, 7, 7}, {all - 1, all + 100, all - 1, all}, {all, 0, all, all},
	} {
		next := r.first
		err := c.Scan(ctx, evStream, r.from, r.until, func(m Msg) error {
			if m.Seq != next || !isLarge(m.Seq) && string(m.Data) != fmt.Sprint(m.Seq) || m.Subject != evTurn || m.Time.IsZero() {
				t.Fatalf("from %d until %d: message %d %.20q after %d", r.from, r.until, m.Seq, m.Data, next-1)
			}
			if next++; r.first == 1 && m.Seq == creditMsgs+10 {
				h.restart()
			}
			return nil
		})
		if err != nil || next != r.last+1 {
			t.Errorf("from %d until %d: %v, ends before %d", r.from, r.until, err, next)
		}
	}
	for _, r := range [][2]uint64{{all + 1, 0}, {9, 8}} {
		if err := c.Scan(ctx, evStream, r[0], r[1], refused); err != nil {
			t.Errorf("from %d until %d: %v", r[0], r[1], err)
		}
	}
	if err := c.Scan(ctx, evStream, 1, 0, refused); err == nil || err.Error() != "scan TF_EV_0: nothing is here" {
		t.Errorf("the reader's own error comes back as %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	err = c.Scan(ended, evStream, 1, 0, func(m Msg) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a scan that was stopped ends with %v: it must not look whole", err)
	}
}

// What waits for a slow reader is what was asked for, however long the stream is.
func TestScanIsNotAhead(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	const all = 11 * creditMsgs
	w := c.NewOrderedWriter(evStream)
	for range all {
		if err := w.Append(ctx, evTurn, []byte("small")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	sent := func() (most int) {
		var answer struct {
			Consumers []struct {
				Delivered struct {
					Seq int `json:"consumer_seq"`
				} `json:"delivered"`
			} `json:"consumers"`
		}
		if err := c.look(ctx, "CONSUMER.LIST."+evStream, nil, &answer); err != nil {
			t.Fatal(err)
		}
		for _, one := range answer.Consumers {
			most = max(most, one.Delivered.Seq)
		}
		return most
	}
	read := 0
	err := c.Scan(ctx, evStream, 1, 0, func(m Msg) error {
		if read++; read%(5*creditMsgs) != 1 {
			return nil
		}
		for try := 0; try < 20 || sent() < read-1+creditMsgs; try++ { // the server does its utmost meanwhile
			if n := sent(); n > read+2*creditMsgs {
				return fmt.Errorf("%d are sent when %d are read", n, read)
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	if err != nil || read != all {
		t.Errorf("%d read, %v", read, err)
	}
}
