// Package bench measures turnfold on the machine at hand, from outside: a provider and
// readers in this process, turnfold in another, HTTP between them.
//
// Invariant: a ratio is taken within one run; absolute times are of this machine only.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// FeedConfig says what to measure.
type FeedConfig struct {
	Binary     string
	Turns      int           // one after the other
	Concurrent int           // turns at the same time
	Deltas     int           // per turn
	Pace       time.Duration // between deltas
	Progress   io.Writer     // nil for silence
}

// FeedReport is how long text takes from the provider's write to the reader's line, in
// microseconds.
type FeedReport struct {
	Turns         int     `json:"turns"`
	Deltas        int     `json:"deltas"`
	FirstP50      int64   `json:"first_delta_p50_us"` // first delta of a turn
	FirstP99      int64   `json:"first_delta_p99_us"`
	DeltaP50      int64   `json:"delta_p50_us"` // all deltas
	DeltaP99      int64   `json:"delta_p99_us"`
	DeltaMax      int64   `json:"delta_max_us"`
	TurnP50       int64   `json:"turn_p50_us"` // post to the end of the feed
	DeltasPerS    float64 `json:"deltas_per_s"`
	IdleBytes     int64   `json:"idle_resident_bytes"`
	ResidentBytes int64   `json:"resident_bytes"` // after the run
}

// Feed measures the way of text through turnfold.
func Feed(ctx context.Context, cfg FeedConfig) (FeedReport, error) {
	if cfg.Turns < 1 || cfg.Deltas < 1 || cfg.Concurrent < 1 {
		return FeedReport{}, fmt.Errorf("turns (%d), deltas (%d) and concurrent (%d) must be at least 1", cfg.Turns, cfg.Deltas, cfg.Concurrent)
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	dir, err := os.MkdirTemp("", "turnfold-bench-")
	if err != nil {
		return FeedReport{}, err
	}
	defer os.RemoveAll(dir)
	f := &feedRun{cfg: cfg, written: map[string]time.Time{}}
	model := stage.NewModel(f.script)
	defer model.Close()
	p, err := stage.NewProduct(cfg.Binary, filepath.Join(dir, "bench"), model.API(), nil)
	if err != nil {
		return FeedReport{}, err
	}
	if err := p.Start(ctx); err != nil {
		return FeedReport{}, err
	}
	defer p.Kill()
	time.Sleep(time.Second) // idle: nothing is left to start
	idle, err := p.ResidentBytes()
	if err != nil {
		return FeedReport{}, err
	}
	began := time.Now()
	if err := f.all(ctx, p); err != nil {
		return FeedReport{}, err
	}
	r := f.report(time.Since(began))
	r.IdleBytes = idle
	if r.ResidentBytes, err = p.ResidentBytes(); err != nil {
		return r, err
	}
	return r, p.Stop()
}

// feedRun collects the times of one measurement. Each delta of a turn is a word that
// names the request and its place, so that words that were merged on the way are still
// told apart.
type feedRun struct {
	cfg     FeedConfig
	mu      sync.Mutex
	written map[string]time.Time
	first   []time.Duration
	delays  []time.Duration
	turns   []time.Duration
}

func (f *feedRun) script(n int, _ stage.Request, w *stage.Reply) {
	w.Pace = max(f.cfg.Pace, time.Microsecond)
	for i := range f.cfg.Deltas {
		word := strconv.Itoa(n) + "-" + strconv.Itoa(i)
		f.mu.Lock()
		f.written[word] = time.Now()
		f.mu.Unlock()
		w.Text(word + " ")
	}
	w.Finish()
}

func (f *feedRun) all(ctx context.Context, p *stage.Product) error {
	next := make(chan int)
	errs := make(chan error, f.cfg.Concurrent)
	for range f.cfg.Concurrent {
		go func() {
			var err error
			for n := range next {
				if err == nil {
					err = f.turn(ctx, p, "bench-"+strconv.Itoa(n))
				}
			}
			errs <- err
		}()
	}
	for n := range f.cfg.Turns {
		next <- n
		if (n+1)%max(f.cfg.Turns/10, 1) == 0 {
			fmt.Fprintf(f.cfg.Progress, "\r%d of %d turns", n+1, f.cfg.Turns)
		}
	}
	close(next)
	var err error
	for range f.cfg.Concurrent {
		if e := <-errs; e != nil {
			err = e
		}
	}
	fmt.Fprintln(f.cfg.Progress)
	return err
}

func (f *feedRun) turn(ctx context.Context, p *stage.Product, id string) error {
	began := time.Now()
	follower := stage.NewFollower(p, id)
	follower.Seen = func(i stage.Item) {
		if i.Type == "text_delta" {
			f.seen(i.Text, time.Now())
		}
	}
	if err := follower.Post(ctx, "bench"); err != nil {
		return err
	}
	if !follower.Over {
		return fmt.Errorf("turn %s did not end", id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns = append(f.turns, time.Since(began))
	return nil
}

func (f *feedRun) seen(text string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, word := range strings.Fields(text) {
		delay := at.Sub(f.written[word])
		f.delays = append(f.delays, delay)
		if strings.HasSuffix(word, "-0") {
			f.first = append(f.first, delay)
		}
	}
}

func (f *feedRun) report(took time.Duration) FeedReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	return FeedReport{Turns: len(f.turns), Deltas: len(f.delays),
		FirstP50: quantile(f.first, 0.5), FirstP99: quantile(f.first, 0.99),
		DeltaP50: quantile(f.delays, 0.5), DeltaP99: quantile(f.delays, 0.99), DeltaMax: quantile(f.delays, 1),
		TurnP50: quantile(f.turns, 0.5), DeltasPerS: float64(len(f.delays)) / took.Seconds()}
}

// quantile of the durations, in microseconds.
func quantile(all []time.Duration, q float64) int64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Microseconds()
}

// Print renders the report for people.
func (r FeedReport) Print(w io.Writer) {
	fmt.Fprintf(w, "from the provider's write to the reader's line, %d turns, %d deltas:\n", r.Turns, r.Deltas)
	fmt.Fprintf(w, "  first delta  p50 %6.2f ms  p99 %6.2f ms\n", ms(r.FirstP50), ms(r.FirstP99))
	fmt.Fprintf(w, "  every delta  p50 %6.2f ms  p99 %6.2f ms  max %.2f ms\n", ms(r.DeltaP50), ms(r.DeltaP99), ms(r.DeltaMax))
	fmt.Fprintf(w, "  whole turn   p50 %6.2f ms, %.0f deltas/s\n", ms(r.TurnP50), r.DeltasPerS)
	fmt.Fprintf(w, "  resident     %.1f MiB idle, %.1f MiB after the run\n", float64(r.IdleBytes)/(1<<20), float64(r.ResidentBytes)/(1<<20))
}

func ms(us int64) float64 { return float64(us) / 1000 }
