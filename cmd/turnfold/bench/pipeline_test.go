package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// BenchmarkFold is the hop through the fold alone, for profiles.
func BenchmarkFold(b *testing.B) {
	w, err := newWorks(context.Background(), PipelineConfig{Partitions: 4, Reducers: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer w.close()
	if err := w.reduce(1); err != nil {
		b.Fatal(err)
	}
	scripts, err := w.scripts(b.Context(), max(b.N/4, 1))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var n int
	_, cpu, err := w.timed(func() (err error) { n, err = w.foldHop(b.Context(), scripts); return err })
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(n), "cpu-µs/event")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRaw is the same way without the fold.
func BenchmarkRaw(b *testing.B) {
	w, err := newWorks(context.Background(), PipelineConfig{Partitions: 4, Reducers: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer w.close()
	b.ResetTimer()
	n := max(b.N/4, 1)
	_, cpu, err := w.timed(func() error { return w.rawHop(b.Context(), n) })
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(4*n), "cpu-µs/message")
}

// BenchmarkSteady is many slow streams.
func BenchmarkSteady(b *testing.B) {
	d, _, err := stream(b.Context(), PipelineConfig{Partitions: 4, Reducers: 1, For: 5 * time.Second}, 1000, 10)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(d.P99)/1000, "p99-ms")
	b.ReportMetric(d.CPU/d.DeltasPerS*1e6, "cpu-µs/delta")
	b.ReportMetric(d.DeltasPerS, "deltas/s")
}

// TestPipeline runs every phase for a moment, the sweep too; what it measures then means
// nothing, but every turn must end, no delta may be spliced, and the report must say what
// people and scripts look for.
func TestPipeline(t *testing.T) {
	var progress bytes.Buffer
	r, err := Pipeline(context.Background(), PipelineConfig{Partitions: 2, Reducers: 2, Messages: 4000, Turns: 20, PerSecond: 5, For: forMin,
		Weighed: 100, Sweep: true, SweepPartitions: []int{1, 2}, SweepReducers: []int{1, 2, 4}, Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	if r.RatioEvents <= 0 || r.RatioDeltas <= 0 || r.Steady.DeltasPerS <= 0 || r.Steady.Begin <= 0 || r.BareSteady.P99 <= 0 || r.Half.PerEvent < 1 ||
		r.LiveTurnBytes == 0 || r.StreamingTurnBytes == 0 {
		t.Errorf("something was not measured: %+v", r)
	}
	want := [][2]int{{1, 1}, {2, 1}, {2, 2}} // no reducer without a partition
	if len(r.Sweep) != len(want) {
		t.Fatalf("the sweep has %+v", r.Sweep)
	}
	for i, s := range r.Sweep {
		if [2]int{s.Partitions, s.Reducers} != want[i] || s.EventsPerS <= 0 || s.EventCPU <= 0 || s.Ratio <= 0 {
			t.Errorf("place %d of the sweep is %+v", i, s)
		}
	}
	for _, line := range []string{"1 of 8", "round 2 of 2", "2 partitions, 2 reducers", "8 of 8: steady streams"} {
		if !strings.Contains(progress.String(), line) {
			t.Errorf("no word of %q in the progress:\n%s", line, &progress)
		}
	}
	var table bytes.Buffer
	r.Print(&table)
	if got := strings.Count(table.String(), "\n           "); got < 3 || !strings.Contains(table.String(), "partitions  reducers  events/s") {
		t.Errorf("%d lines of the sweep in\n%s", got, &table)
	}
}

// TestReportNames: what scripts read keeps its name.
func TestReportNames(t *testing.T) {
	data, err := json.Marshal(PipelineReport{Sweep: []Share{{}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"raw_per_s", "events_per_s", "deltas_per_s", "ratio_events", "ratio_deltas", "raw_cpu_us", "event_cpu_us",
		"sweep", "partitions", "reducers", "half_saturation", "bare_steady", "steady", "delay_p50_us", "delay_p99_us", "delay_max_us", "deltas_per_item",
		"begin_us", "cpu_cores", "live_turn_bytes", "streaming_turn_bytes", "resident_bytes"} {
		if !strings.Contains(string(data), `"`+name+`":`) {
			t.Errorf("no %s in %s", name, data)
		}
	}
}
