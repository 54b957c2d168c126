package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
)

// stepDown has a stream elect another leader; it may be electing one already.
func stepDown(ctx context.Context, c *Conn, stream string) error {
	answer, err := c.nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
	if err != nil {
		return err
	}
	var body struct {
		Success bool `json:"success"`
	}
	if err := json.Unmarshal(answer.Data, &body); err != nil || !body.Success {
		return fmt.Errorf("step down: %s", answer.Data)
	}
	return nil
}

// unrestMax bounds the step-downs of one test, so that it ends on a slow machine too.
const unrestMax = 6

// unrest has a stream's leader step down every now and then until stop.
func unrest(c *Conn, stream string) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		for n < unrestMax && sleep(ctx, 300*time.Millisecond) == nil {
			once, done := context.WithTimeout(ctx, time.Second)
			if stepDown(once, c, stream) == nil {
				n++
			}
			done()
		}
	})
	return func() int { cancel(); wg.Wait(); return n }
}

// One cluster serves all of these, because starting it costs seconds.
func TestReplicated(t *testing.T) {
	cluster, err := embed.StartCluster(3, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Shutdown)
	dial := func(t *testing.T) *Conn { return connect(t, Config{URL: cluster.URL(), Log: testLog()}) }
	c := dial(t)
	if err := c.Ensure(testContext(t), subjects.Layout{Partitions: 1, Replicas: 3}); err != nil {
		t.Fatal(err)
	}

	t.Run("ordered writers and tail", func(t *testing.T) {
		const writers, total = 3, 6000
		got := newCollector()
		stop := startTail(t, dial(t), evStream, nil, 0, got.take)
		calm := unrest(c, evStream)
		var ws []*OrderedWriter
		for range writers {
			ws = append(ws, dial(t).NewOrderedWriter(evStream))
		}
		writeAll(t, ws, total, func(int) {})
		t.Logf("%d step-downs", calm())
		stored := readAll(t, c, evStream)
		t.Logf("%d repeats", prefixes(t, stored, writers, total))
		tailed := got.count(t, len(stored))
		if err := stop(); err != nil || len(tailed) != len(stored) {
			t.Fatalf("tail got %d of %d, %v", len(tailed), len(stored), err)
		}
		inOrder(t, tailed)
	})

	t.Run("fenced race", func(t *testing.T) {
		calm := unrest(c, outStream)
		fencedRace(t, []*Conn{dial(t), dial(t)}, 10000, func(uint64) {})
		t.Logf("%d step-downs", calm())
	})

	t.Run("reads are complete", func(t *testing.T) { readsComplete(t, dial(t), dial(t)) })
	t.Run("claims", func(t *testing.T) { claimRace(t, []*Conn{dial(t), dial(t), dial(t)}) })
	t.Run("server restart", func(t *testing.T) { serverRestart(t, cluster, dial) })
}

// readsComplete reads right after each acknowledged write, when replicas lag.
func readsComplete(t *testing.T, writer, reader *Conn) {
	ctx := testContext(t)
	calm := unrest(writer, evStream)
	subject := turnSubject(100)
	for n := 1; n <= 100; n++ {
		seq := must(publishAgain(ctx, writer, subject))(t)
		count := 0
		last, err := reader.ReadSubject(ctx, evStream, subject, 0, 0, func(Msg) error { count++; return nil })
		if err != nil || last < seq || count < n {
			t.Fatalf("after write %d at %d: read %d up to %d, %v", n, seq, count, last, err)
		}
	}
	t.Logf("%d step-downs", calm())
}

// claimRace has several processes claim the same keys; one wins each.
func claimRace(t *testing.T, conns []*Conn) {
	ctx := testContext(t)
	calm := unrest(conns[0], subjects.EffectsStream(0))
	const keys = 60
	wins := make([][]bool, len(conns))
	var wg sync.WaitGroup
	for i, c := range conns {
		wins[i] = make([]bool, keys)
		wg.Go(func() {
			for k := range keys {
				key, token := "k"+strconv.Itoa(k), strconv.Itoa(i)
				for ctx.Err() == nil {
					_, claimErr := c.ClaimFact(ctx, 0, key, []byte(token), 0)
					facts, _, err := c.FactsOf(ctx, 0, key)
					if err != nil || len(facts) == 0 { // not stored, by nobody: once more
						continue
					}
					wins[i][k] = string(facts[0].Data) == token
					if claimErr == nil && !wins[i][k] {
						t.Errorf("key %d: %d was told that it won", k, i)
					}
					if claimErr != nil && !errors.Is(claimErr, ErrConflict) && !errors.Is(claimErr, ErrUnclear) {
						t.Errorf("key %d: %v", k, claimErr)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d step-downs", calm())
	for k := range keys {
		n := 0
		for i := range conns {
			if wins[i][k] {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("key %d has %d winners", k, n)
		}
	}
}

// serverRestart stops the servers in turn under a writer and a tail.
func serverRestart(t *testing.T, cluster *embed.Cluster, dial func(*testing.T) *Conn) {
	c := dial(t)
	before := must(c.State(testContext(t), evStream))(t).LastSeq
	got := newCollector()
	stop := startTail(t, dial(t), evStream, nil, before+1, got.take)
	w := dial(t).NewOrderedWriter(evStream)
	const total = 6000
	ctx := testContext(t)
	for n := range total {
		server := n / (total / 3)
		switch n % (total / 3) {
		case total / 9:
			cluster.Stop(server)
		case 2 * total / 9:
			if err := cluster.Restart(server); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Append(ctx, turnSubject(200), []byte(strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("flushed after %s", time.Since(start))
	after := must(c.State(ctx, evStream))(t).LastSeq
	msgs := got.count(t, int(after-before))
	inOrder(t, msgs)
	t.Logf("%d repeats", prefixes(t, msgs, 1, total))
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// benchmarkCluster is a fresh deployment on three servers.
func benchmarkCluster(b *testing.B) *Conn {
	b.Helper()
	cluster, err := embed.StartCluster(3, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cluster.Shutdown)
	c := connect(b, Config{URL: cluster.URL(), Log: zerolog.Nop()})
	if err := c.Ensure(testContext(b), subjects.Layout{Partitions: 1, Replicas: 3}); err != nil {
		b.Fatal(err)
	}
	return c
}
