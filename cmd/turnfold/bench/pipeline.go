package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"
)

// PipelineConfig says what to measure.
type PipelineConfig struct {
	Partitions int
	Reducers   int
	Messages   int           // through the raw double hop, and through the fold
	Turns      int           // at the same time, of the steady phase
	PerSecond  int           // deltas per second of each of them
	For        time.Duration // how long each phase of streams lasts
	Sync       bool          // sync each write, as a cluster of one replica on power
	Sweep      bool          // measure the fold with other numbers of partitions and reducers too
	Progress   io.Writer     // nil for silence

	// Weighed is how many open turns, and turns whose model speaks, are weighed: enough to
	// drown what is kept anyway. Zero means 2000.
	Weighed int
	// SweepPartitions and SweepReducers are the numbers that a sweep combines, but for
	// reducers that no partition is left for. Nil means 1 to 16, and 1 to 8.
	SweepPartitions, SweepReducers []int
}

func (c PipelineConfig) withDefaults() PipelineConfig {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	if c.Weighed == 0 {
		c.Weighed = 2000
	}
	if c.SweepPartitions == nil {
		c.SweepPartitions = []int{1, 2, 4, 8, 16}
	}
	if c.SweepReducers == nil {
		c.SweepReducers = []int{1, 2, 4, 8}
	}
	return c
}

// forMin is the least time that a phase can say anything of.
const forMin = 200 * time.Millisecond

func (c PipelineConfig) validate() error {
	if c.Partitions < 1 || c.Reducers < 1 || c.Messages < 1000 || c.Turns < 1 || c.PerSecond < 1 || c.For < forMin {
		return fmt.Errorf("partitions (%d), reducers (%d), turns (%d) and per-second (%d) must be at least 1, messages (%d) at least 1000, for (%s) at least %s",
			c.Partitions, c.Reducers, c.Turns, c.PerSecond, c.Messages, c.For, forMin)
	}
	return nil
}

// PipelineReport is what a pipeline bears. Rates are per second, delays are from the
// provider's write to the consumer of OUT, in microseconds.
type PipelineReport struct {
	Partitions  int     `json:"partitions"`
	Reducers    int     `json:"reducers"`
	Cores       int     `json:"cores"`
	RawPerS     float64 `json:"raw_per_s"`    // messages: EV → consume → fenced OUT → consume
	EventsPerS  float64 `json:"events_per_s"` // the same way with the fold in it
	DeltasPerS  float64 `json:"deltas_per_s"` // of model streams, at saturation
	RatioEvents float64 `json:"ratio_events"` // EventsPerS of RawPerS
	RatioDeltas float64 `json:"ratio_deltas"` // DeltasPerS of RawPerS
	RawCPU      float64 `json:"raw_cpu_us"`   // of a message
	EventCPU    float64 `json:"event_cpu_us"` // of an event

	Sweep []Share `json:"sweep,omitempty"`

	Saturation Delays `json:"saturation"`
	Half       Delays `json:"half_saturation"`
	// BareSteady is the raw double hop at the rate of Steady: what the machine, as busy as
	// it is, makes of it without turnfold.
	BareSteady Delays `json:"bare_steady"`
	Steady     Delays `json:"steady"`

	// LiveTurnBytes is by how much the memory that the process holds grows with each turn
	// that is open and has shown text: what its owner and the log's server keep of it.
	// StreamingTurnBytes is the same of a turn whose model is speaking, its request's
	// connection and the streamer's part included, the provider's end of it not.
	LiveTurnBytes      int64 `json:"live_turn_bytes"`
	StreamingTurnBytes int64 `json:"streaming_turn_bytes"`
	ResidentBytes      int64 `json:"resident_bytes"` // of the whole process at the end of the steady phase
}

// Share is what the fold bears with other numbers of partitions and reducers.
type Share struct {
	Partitions int     `json:"partitions"`
	Reducers   int     `json:"reducers"`
	EventsPerS float64 `json:"events_per_s"`
	EventCPU   float64 `json:"event_cpu_us"`
	Ratio      float64 `json:"ratio"` // EventsPerS of the sweep's first
}

// Delays are of one phase of streams.
type Delays struct {
	Turns      int     `json:"turns"`
	Begin      int64   `json:"begin_us"` // from the first turn's opening until the provider has every turn's request
	Asked      float64 `json:"asked_deltas_per_s"`
	DeltasPerS float64 `json:"deltas_per_s"`
	P50        int64   `json:"delay_p50_us"`
	P99        int64   `json:"delay_p99_us"`
	Max        int64   `json:"delay_max_us"`
	PerEvent   float64 `json:"deltas_per_item"` // deltas that came in one item of a feed
	CPU        float64 `json:"cpu_cores"`
}

// Pipeline measures the way of events through the logs, first without the fold, then
// with it, then with streams of a model in front, all in this process and in one run:
// only the ratios tell more than about this machine.
func Pipeline(ctx context.Context, cfg PipelineConfig) (PipelineReport, error) {
	cfg = cfg.withDefaults()
	r := PipelineReport{Partitions: cfg.Partitions, Reducers: cfg.Reducers, Cores: runtime.NumCPU()}
	if err := cfg.validate(); err != nil {
		return r, err
	}
	phases := []struct {
		name string
		run  func(context.Context, PipelineConfig, *PipelineReport) error
	}{
		{"the raw double hop and the fold, by turns", measureRates},
		{"the fold, partitions and reducers varied (--sweep)", sweep},
		{"memory of open turns", measureMemory},
		{"memory of turns whose model speaks", measureStreaming},
		{"streams at saturation", measureSaturation},
		{"streams at half of that", measureHalf},
		{"the raw double hop at the rate of steady streams", measureBare},
		{"steady streams", measureSteady},
	}
	for i, p := range phases {
		fmt.Fprintf(cfg.Progress, "%d of %d: %s\n", i+1, len(phases), p.name)
		began := time.Now()
		err := p.run(ctx, cfg, &r)
		for range retries {
			if err == nil || ctx.Err() != nil {
				break
			}
			fmt.Fprintf(cfg.Progress, "  once more: %v\n", err)
			err = p.run(ctx, cfg, &r)
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(cfg.Progress, "  took %.1f s\n", time.Since(began).Seconds())
	}
	return r, nil
}

func measureMemory(ctx context.Context, cfg PipelineConfig, r *PipelineReport) error {
	w, err := newWorks(ctx, cfg)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.reduce(cfg.Reducers); err != nil {
		return err
	}
	r.LiveTurnBytes, err = w.openTurns(ctx, cfg.Weighed)
	return err
}

func measureStreaming(ctx context.Context, cfg PipelineConfig, r *PipelineReport) (err error) {
	r.StreamingTurnBytes, err = streamingTurns(ctx, cfg, cfg.Weighed)
	return err
}

func measureSaturation(ctx context.Context, cfg PipelineConfig, r *PipelineReport) (err error) {
	r.Saturation, _, err = stream(ctx, cfg, saturationTurns, 0)
	r.DeltasPerS, r.RatioDeltas = r.Saturation.DeltasPerS, r.Saturation.DeltasPerS/r.RawPerS
	return err
}

func measureHalf(ctx context.Context, cfg PipelineConfig, r *PipelineReport) (err error) {
	r.Half, _, err = stream(ctx, cfg, saturationTurns, r.DeltasPerS/2/saturationTurns)
	return err
}

func measureBare(ctx context.Context, cfg PipelineConfig, r *PipelineReport) error {
	w, err := newWorks(ctx, cfg)
	if err != nil {
		return err
	}
	defer w.close()
	r.BareSteady, err = w.bareDelays(ctx, float64(cfg.Turns*cfg.PerSecond))
	return err
}

func measureSteady(ctx context.Context, cfg PipelineConfig, r *PipelineReport) (err error) {
	r.Steady, r.ResidentBytes, err = stream(ctx, cfg, cfg.Turns, float64(cfg.PerSecond))
	return err
}

const (
	// retries of a phase: on a machine that is busy with other things, the log may fall
	// silent for so long that a writer gives up.
	retries = 2
	// saturationTurns is how many streams there are where the rate is what is measured.
	saturationTurns = 64
)

// Print renders the report for people.
func (r PipelineReport) Print(w io.Writer) {
	fmt.Fprintf(w, "%d partitions, %d reducers, %d cores:\n", r.Partitions, r.Reducers, r.Cores)
	fmt.Fprintf(w, "  raw double hop   %8.0f messages/s, %.1f µs of processor each\n", r.RawPerS, r.RawCPU)
	fmt.Fprintf(w, "  with the fold    %8.0f events/s, %.1f µs each: %.2f of raw\n", r.EventsPerS, r.EventCPU, r.RatioEvents)
	fmt.Fprintf(w, "  model streams    %8.0f deltas/s at saturation, %.1f in one item: %.2f of raw\n", r.DeltasPerS, r.Saturation.PerEvent, r.RatioDeltas)
	if len(r.Sweep) > 0 {
		fmt.Fprintf(w, "  partitions  reducers  events/s  of the first  µs each\n")
	}
	for _, s := range r.Sweep {
		fmt.Fprintf(w, "  %10d  %8d  %8.0f  %12.2f  %7.1f\n", s.Partitions, s.Reducers, s.EventsPerS, s.Ratio, s.EventCPU)
	}
	r.Half.print(w, "half saturation")
	fmt.Fprintf(w, "  %-16s %.0f of %.0f messages/s, delay p50 %.2f ms, p99 %.2f ms, max %.1f ms, %.2f cores\n", "raw, steady",
		r.BareSteady.DeltasPerS, r.BareSteady.Asked, ms(r.BareSteady.P50), ms(r.BareSteady.P99), ms(r.BareSteady.Max), r.BareSteady.CPU)
	r.Steady.print(w, "steady")
	fmt.Fprintf(w, "  an open turn keeps %.1f KiB, one whose model speaks %.1f KiB; %.0f MiB resident, provider and readers included\n",
		float64(r.LiveTurnBytes)/1024, float64(r.StreamingTurnBytes)/1024, float64(r.ResidentBytes)/(1<<20))
}

func (d Delays) print(w io.Writer, name string) {
	fmt.Fprintf(w, "  %-16s %d turns, all asked for after %.2f s, %.0f of %.0f deltas/s, %.1f in one item, delay p50 %.2f ms, p99 %.2f ms, max %.1f ms, %.2f cores\n",
		name, d.Turns, float64(d.Begin)/1e6, d.DeltasPerS, d.Asked, d.PerEvent, ms(d.P50), ms(d.P99), ms(d.Max), d.CPU)
}
