package bench

import (
	"context"
	"fmt"
	"time"
)

// rounds is in how many parts the raw double hop and the fold are measured, by turns, so
// that a machine with other work is as busy for one as for the other.
const rounds = 2

// tally sums parts of a measurement.
type tally struct {
	n         int
	took, cpu time.Duration
}

func (t *tally) add(n int, took, cpu time.Duration) { t.n += n; t.took += took; t.cpu += cpu }
func (t *tally) perSecond() float64                 { return float64(t.n) / t.took.Seconds() }
func (t *tally) cpuEach() float64                   { return float64(t.cpu.Microseconds()) / float64(t.n) }

func measureRates(ctx context.Context, cfg PipelineConfig, r *PipelineReport) error {
	part := cfg
	part.Messages = cfg.Messages / rounds
	var raw, folded tally
	for i := range rounds {
		fmt.Fprintf(cfg.Progress, "  round %d of %d\n", i+1, rounds)
		if err := rawAs(ctx, part, &raw); err != nil {
			return err
		}
		if err := foldAs(ctx, part, &folded); err != nil {
			return err
		}
	}
	r.RawPerS, r.RawCPU = raw.perSecond(), raw.cpuEach()
	r.EventsPerS, r.EventCPU = folded.perSecond(), folded.cpuEach()
	r.RatioEvents = r.EventsPerS / r.RawPerS
	return nil
}

// rawAs measures the raw double hop with the configuration's partitions.
func rawAs(ctx context.Context, cfg PipelineConfig, t *tally) error {
	w, err := newWorks(ctx, cfg)
	if err != nil {
		return err
	}
	defer w.close()
	each := cfg.Messages / cfg.Partitions
	took, cpu, err := w.timed(func() error { return w.rawHop(ctx, each) })
	t.add(each*cfg.Partitions, took, cpu)
	return err
}

// foldAs measures the fold with the configuration's partitions and reducers.
func foldAs(ctx context.Context, cfg PipelineConfig, t *tally) error {
	w, err := newWorks(ctx, cfg)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.reduce(cfg.Reducers); err != nil {
		return err
	}
	scripts, err := w.scripts(ctx, cfg.Messages/cfg.Partitions)
	if err != nil {
		return err
	}
	var n int
	took, cpu, err := w.timed(func() (err error) { n, err = w.foldHop(ctx, scripts); return err })
	t.add(n, took, cpu)
	return err
}

// sweep shows how the fold's cost grows with partitions and reducers.
func sweep(ctx context.Context, cfg PipelineConfig, r *PipelineReport) error {
	r.Sweep = nil
	if !cfg.Sweep {
		return nil
	}
	for _, partitions := range cfg.SweepPartitions {
		for _, reducers := range cfg.SweepReducers {
			if reducers > partitions {
				continue
			}
			c := cfg
			c.Partitions, c.Reducers = partitions, reducers
			var t tally
			if err := foldAs(ctx, c, &t); err != nil {
				return fmt.Errorf("%d partitions, %d reducers: %w", partitions, reducers, err)
			}
			s := Share{Partitions: partitions, Reducers: reducers, EventsPerS: t.perSecond(), EventCPU: t.cpuEach(), Ratio: 1}
			if len(r.Sweep) > 0 {
				s.Ratio = s.EventsPerS / r.Sweep[0].EventsPerS
			}
			r.Sweep = append(r.Sweep, s)
			fmt.Fprintf(cfg.Progress, "  %2d partitions, %d reducers: %.0f events/s, %.2f of the first, %.1f µs each\n",
				partitions, reducers, s.EventsPerS, s.Ratio, s.EventCPU)
		}
	}
	return nil
}

// progressEvery is how often a phase tells how far it is.
const progressEvery = 2 * time.Second

// tell has a phase tell how far it is, until the returned function is called.
func (c PipelineConfig) tell(how func() string) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				fmt.Fprintf(c.Progress, "  %s\n", how())
			}
		}
	}()
	return func() { close(quit); <-done }
}
