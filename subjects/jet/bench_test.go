package jet

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// latency is the median time from append to its delivery by a tail, one message at a
// time.
func latency(b *testing.B, c *Conn, stream string, appendOne func(n int) error) {
	b.Helper()
	arrived := make(chan struct{}, 1)
	startTail(b, c, stream, nil, 0, func(Msg) error { arrived <- struct{}{}; return nil })
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		start := time.Now()
		if err := appendOne(n); err != nil {
			b.Fatal(err)
		}
		<-arrived
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

var payload = []byte(`{"v":1,"kind":"text","step":1,"attempt":1,"ord":17,"text":"some words of a model, a few tokens long"}`)

// onBoth runs a benchmark on one server and on three.
func onBoth(b *testing.B, f func(*testing.B, *Conn)) {
	b.Run("R1", func(b *testing.B) {
		_, c := single(b)
		f(b, c)
	})
	b.Run("R3", func(b *testing.B) { f(b, benchmarkCluster(b)) })
}

func BenchmarkOrderedLatency(b *testing.B) { onBoth(b, orderedLatency) }
func BenchmarkFencedLatency(b *testing.B)  { onBoth(b, fencedLatency) }
func BenchmarkOrderedRate(b *testing.B)    { onBoth(b, orderedRate) }
func BenchmarkFencedRate(b *testing.B)     { onBoth(b, fencedRate) }
func BenchmarkPublish(b *testing.B)        { onBoth(b, publishLatency) }

func orderedLatency(b *testing.B, c *Conn) {
	ctx := b.Context()
	w := c.NewOrderedWriter(evStream)
	latency(b, c, evStream, func(int) error { return w.Append(ctx, evTurn, payload) })
}

func fencedLatency(b *testing.B, c *Conn) {
	w := c.NewFencedWriter(outStream, 0)
	latency(b, c, outStream, func(n int) error {
		_, err := w.Append(outFeed, map[string]string{"Tf-In": strconv.Itoa(n)}, payload)
		return err
	})
}

func orderedRate(b *testing.B, c *Conn) {
	ctx := b.Context()
	w := c.NewOrderedWriter(evStream)
	for b.Loop() {
		if err := w.Append(ctx, evTurn, payload); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func fencedRate(b *testing.B, c *Conn) {
	w := c.NewFencedWriter(outStream, 0)
	for n := 0; b.Loop(); n++ {
		if _, err := w.Append(outFeed, map[string]string{"Tf-In": strconv.Itoa(n)}, payload); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func publishLatency(b *testing.B, c *Conn) {
	ctx := b.Context()
	for b.Loop() {
		must(c.Publish(ctx, evTurn, nil, payload))(b)
	}
}
