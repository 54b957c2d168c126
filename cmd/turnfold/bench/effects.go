package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// EffectsConfig says what to measure.
type EffectsConfig struct {
	Dir      string        // where the stores lie while it runs; empty: a temporary folder
	For      time.Duration // of each of the two loops at each number of callers
	Keys     int           // in the store that lookups and the start are measured on
	Progress io.Writer     // nil for silence
}

// effectCallers are the numbers of callers that effects are measured at.
var effectCallers = []int{1, 16, 64}

// slices is how often the two loops take turns, so that both see the same machine.
const slicesPerLoop = 4

// CallersReport is what a number of callers gets done.
type CallersReport struct {
	Callers    int     `json:"callers"`
	EffectsPS  float64 `json:"effects_per_s"`
	RawPS      float64 `json:"raw_per_s"`
	RatioToRaw float64 `json:"ratio_to_raw"`
	P50        int64   `json:"p50_us"`
	P99        int64   `json:"p99_us"`
	RawP50     int64   `json:"raw_p50_us"`
	RawP99     int64   `json:"raw_p99_us"`
	// CPU is the processor time of one, the log's server included: on a machine with other
	// work the rates say less than this does.
	CPU    float64 `json:"cpu_us"`
	RawCPU float64 `json:"raw_cpu_us"`
}

// KeysReport is what a large store costs.
type KeysReport struct {
	Keys        int     `json:"keys"`
	BytesPerKey float64 `json:"bytes_per_key"` // on disk, after compaction
	LookupP50   float64 `json:"lookup_p50_us"`
	LookupP99   float64 `json:"lookup_p99_us"`
	StartMS     float64 `json:"start_ms"` // open, and read what a process must know at its start
	FillS       float64 `json:"fill_s"`
}

// EffectsReport is the whole measurement. The first two are those at the most callers.
type EffectsReport struct {
	RatioToRaw float64         `json:"ratio_to_raw"`
	P99        int64           `json:"p99_us"`
	Disk       DiskReport      `json:"disk"`
	Callers    []CallersReport `json:"callers"`
	Store      KeysReport      `json:"store"`
}

// Effects measures whole effects (claim, a tool that does nothing, settled) through the
// real executor on an embedded log and a key store, beside a bare loop that does the
// same durable operations one after the other without any logic: two synced writes, one
// compare-and-set, three appends. Both share the log, the disk and the run; the way of
// the command to the executor is in neither.
func Effects(ctx context.Context, cfg EffectsConfig) (r EffectsReport, err error) {
	if cfg.For <= 0 || cfg.Keys < 1 {
		return r, fmt.Errorf("time (%s) and keys (%d) must be positive", cfg.For, cfg.Keys)
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	if cfg.Dir == "" {
		if cfg.Dir, err = os.MkdirTemp("", "turnfold-bench-"); err != nil {
			return r, err
		}
		defer os.RemoveAll(cfg.Dir)
	}
	rig, err := newRig(ctx, cfg.Dir)
	if err != nil {
		return r, err
	}
	defer func() {
		if cerr := rig.close(); err == nil {
			err = cerr
		}
	}()
	if r.Disk, err = measureDisk(filepath.Join(cfg.Dir, "sync")); err != nil {
		return r, err
	}
	rig.loop(ctx, 16, cfg.For/slicesPerLoop, rig.effect) // warm up both
	rig.loop(ctx, 16, cfg.For/slicesPerLoop, rig.bare)
	for _, n := range effectCallers {
		c := CallersReport{Callers: n}
		var real, raw sample
		for range slicesPerLoop {
			real.add(rig.loop(ctx, n, cfg.For/slicesPerLoop, rig.effect))
			raw.add(rig.loop(ctx, n, cfg.For/slicesPerLoop, rig.bare))
		}
		if err := rig.err(ctx); err != nil {
			return r, err
		}
		c.EffectsPS, c.RawPS = real.rate(), raw.rate()
		c.RatioToRaw = c.EffectsPS / c.RawPS
		c.P50, c.P99 = quantile(real.took, 0.5), quantile(real.took, 0.99)
		c.RawP50, c.RawP99 = quantile(raw.took, 0.5), quantile(raw.took, 0.99)
		c.CPU, c.RawCPU = real.cpuEach(), raw.cpuEach()
		fmt.Fprintf(cfg.Progress, "%2d callers: %.0f effects/s, bare loop %.0f/s\n", n, c.EffectsPS, c.RawPS)
		r.Callers = append(r.Callers, c)
		r.RatioToRaw, r.P99 = c.RatioToRaw, c.P99
	}
	r.Store, err = measureKeys(ctx, filepath.Join(cfg.Dir, "keys"), cfg.Keys, cfg.Progress)
	return r, err
}

// sample is what a loop got done.
type sample struct {
	took []time.Duration
	time time.Duration
	cpu  time.Duration
}

func (s *sample) add(o sample) {
	s.took = append(s.took, o.took...)
	s.time += o.time
	s.cpu += o.cpu
}

func (s sample) rate() float64 { return float64(len(s.took)) / s.time.Seconds() }

// cpuEach is in microseconds.
func (s sample) cpuEach() float64 { return float64(s.cpu.Microseconds()) / float64(len(s.took)) }

// loop has callers do something over and over for a time.
func (g *rig) loop(ctx context.Context, callers int, d time.Duration, do func(context.Context, int64) error) sample {
	var all sample
	var mu sync.Mutex
	var work sync.WaitGroup
	began, cpu := time.Now(), processor()
	for range callers {
		work.Go(func() {
			var mine []time.Duration
			for time.Since(began) < d && ctx.Err() == nil {
				at := time.Now()
				if err := do(ctx, g.next.Add(1)); err != nil {
					g.fail(err)
					break
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			all.took = append(all.took, mine...)
			mu.Unlock()
		})
	}
	work.Wait()
	all.time, all.cpu = time.Since(began), processor()-cpu
	return all
}

// faultOf keeps the first fault of many callers.
type faultOf struct{ first atomic.Pointer[error] }

func (f *faultOf) fail(err error) { f.first.CompareAndSwap(nil, &err) }

func (f *faultOf) err(ctx context.Context) error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return ctx.Err()
}

// Print renders the report for people.
func (r EffectsReport) Print(w io.Writer) {
	fmt.Fprintf(w, "one sync of this disk: p50 %.2f ms, p99 %.2f ms\n", ms(r.Disk.SyncP50), ms(r.Disk.SyncP99))
	fmt.Fprintln(w, "whole effects (claim, no-op tool, settled) beside a bare loop of the same durable operations:")
	for _, c := range r.Callers {
		fmt.Fprintf(w, "  %2d callers  %6.0f effects/s, bare %6.0f/s, ratio %.2f; p50 %6.2f ms, p99 %6.2f ms (bare %.2f, %.2f); processor %.0f us (bare %.0f)\n",
			c.Callers, c.EffectsPS, c.RawPS, c.RatioToRaw, ms(c.P50), ms(c.P99), ms(c.RawP50), ms(c.RawP99), c.CPU, c.RawCPU)
	}
	s := r.Store
	fmt.Fprintf(w, "a store of %d keys: %.0f bytes a key on disk, lookups p50 %.0f us, p99 %.0f us, start %.0f ms\n",
		s.Keys, s.BytesPerKey, s.LookupP50, s.LookupP99, s.StartMS)
}
