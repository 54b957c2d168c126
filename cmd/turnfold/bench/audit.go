package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
)

// AuditConfig says what to measure.
type AuditConfig struct {
	Binary     string
	Events     int
	Partitions int
	Dir        string    // keeps the history, with a configuration for reading it; empty: it is dropped
	Progress   io.Writer // nil for silence
}

// AuditReport sets an audit of a whole log beside ordered consumers of the client
// library that do nothing with what they get, in the same process. All rates are events
// of EV per second of the clock, so those that read OUT and FX as well are lower.
type AuditReport struct {
	Events        uint64  `json:"events"`
	Outputs       uint64  `json:"outputs"`
	Facts         uint64  `json:"facts"`
	Turns         uint64  `json:"turns"`
	Mismatches    uint64  `json:"mismatches"`
	WriteS        float64 `json:"write_s"`                // how long the history took to make
	EventsPlainS  float64 `json:"plain_ev_events_per_s"`  // EV alone is read
	StreamsPlainS float64 `json:"plain_all_events_per_s"` // EV, OUT and FX are read, as the audit does
	AuditS        float64 `json:"audit_events_per_s"`
	StreamsPlainC float64 `json:"plain_all_cpu_us_per_event"` // processor time of the reading process, the server's not included
	AuditC        float64 `json:"audit_cpu_us_per_event"`
	RatioEV       float64 `json:"ratio_to_plain_ev"`
	RatioAll      float64 `json:"ratio_to_plain_all"`
	Allocs        float64 `json:"audit_allocations_per_event"`
	PeakBytes     int64   `json:"peak_resident_bytes"` // of the process that audits
}

// Audit makes a history with a real reducer, and has another process read it: first
// plainly, then as an audit.
func Audit(ctx context.Context, cfg AuditConfig) (AuditReport, error) {
	if cfg.Events < 100 || cfg.Partitions < 1 {
		return AuditReport{}, fmt.Errorf("events (%d) must be at least 100, partitions (%d) at least 1", cfg.Events, cfg.Partitions)
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	dir, drop, err := cfg.folder()
	if err != nil {
		return AuditReport{}, err
	}
	defer drop()
	h, err := newHistory(ctx, filepath.Join(dir, "store", "nats"), cfg)
	if err != nil {
		return AuditReport{}, err
	}
	defer h.close()
	began := time.Now()
	if err := h.write(ctx); err != nil {
		return AuditReport{}, err
	}
	wrote := time.Since(began)
	config := fmt.Sprintf("nats: {store_dir: %s}\npartitions: %d\n", filepath.Join(dir, "store"), cfg.Partitions)
	file := filepath.Join(dir, "turnfold.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return AuditReport{}, err
	}
	child := exec.CommandContext(ctx, cfg.Binary, "bench", "audit-read", "--config", file)
	child.Stderr = cfg.Progress
	text, err := child.Output()
	if err != nil {
		return AuditReport{}, fmt.Errorf("bench audit-read: %w", err)
	}
	var r AuditReport
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("bench audit-read: %w", err)
	}
	r.WriteS = wrote.Seconds()
	return r, nil
}

// folder is a new one, or an empty one that the caller names.
func (c AuditConfig) folder() (dir string, drop func(), err error) {
	if c.Dir == "" {
		dir, err = os.MkdirTemp("", "turnfold-bench-")
		return dir, func() { _ = os.RemoveAll(dir) }, err // what stays is in the system's temporary folder
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return "", nil, err
	}
	if list, err := os.ReadDir(c.Dir); err != nil || len(list) > 0 {
		return "", nil, fmt.Errorf("--dir %s is not empty; name a new folder (%w)", c.Dir, errors.Join(err, os.ErrExist))
	}
	dir, err = filepath.Abs(c.Dir)
	return dir, func() {}, err
}

// AuditRead is the reading half, in a process of its own so that its memory is its own.
// The plain readings come before and after the audit: on a busy machine neither side has
// the better time.
func AuditRead(ctx context.Context, log audit.Log, progress io.Writer) (AuditReport, error) {
	var r AuditReport
	ev := &plain{log: log, streams: []func(int) string{subjects.EventsStream}}
	all := &plain{log: log, streams: []func(int) string{subjects.EventsStream, subjects.OutputsStream, subjects.EffectsStream}}
	plainly := func() error { return errors.Join(ev.read(ctx), all.read(ctx)) }
	fmt.Fprintln(progress, "reading it plainly, as an audit, and plainly again")
	if err := plainly(); err != nil {
		return r, err
	}
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	computed := processorTime()
	report, err := log.All(ctx, audit.Scan{Settled: true, Progress: func(p audit.Progress) {
		fmt.Fprintf(progress, "\raudit: %d events, %d turns ", p.Events, p.Turns)
	}})
	fmt.Fprintln(progress)
	if err != nil {
		return r, err
	}
	computed = processorTime() - computed
	runtime.ReadMemStats(&end)
	if err := plainly(); err != nil {
		return r, err
	}
	r.Events, r.Outputs, r.Facts, r.Turns, r.Mismatches = report.Events, report.Outputs, report.Facts, report.Turns, report.Mismatches
	r.Mismatches += uint64(len(report.Partitions))
	r.Allocs = float64(end.Mallocs-start.Mallocs) / float64(r.Events)
	r.AuditS, r.EventsPlainS, r.StreamsPlainS = report.EventsPerS, ev.rate(r.Events), all.rate(r.Events)
	r.AuditC = computed.Seconds() * 1e6 / float64(r.Events)
	r.StreamsPlainC = all.computed.Seconds() * 1e6 / float64(r.Events) / float64(all.times)
	r.RatioEV, r.RatioAll = r.AuditS/r.EventsPlainS, r.AuditS/r.StreamsPlainS
	r.PeakBytes, err = peakResident()
	return r, err
}

// plain reads streams of every partition with ordered consumers, one after the other.
type plain struct {
	log            audit.Log
	streams        []func(int) string
	times          int
	took, computed time.Duration
}

func (p *plain) read(ctx context.Context) error {
	began, computed := time.Now(), processorTime()
	for _, stream := range p.streams {
		for n := range p.log.Partitions {
			if _, err := p.log.Conn.Ordered(ctx, stream(n)); err != nil {
				return err
			}
		}
	}
	p.times, p.took, p.computed = p.times+1, p.took+time.Since(began), p.computed+processorTime()-computed
	return nil
}

// rate is events per second over all readings so far.
func (p *plain) rate(events uint64) float64 {
	return float64(events) * float64(p.times) / p.took.Seconds()
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for another argument
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakResident is the most memory that this process has had. What wait(2) tells of a
// child counts the memory of its parent in, which it shares until it has become another
// program.
func peakResident() (int64, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		return 0, fmt.Errorf("/proc/self/status has no VmHWM: %w", err)
	}
	return kib << 10, nil
}

// Print renders the report for people.
func (r AuditReport) Print(w io.Writer) {
	fmt.Fprintf(w, "%d turns: %d events, %d outputs, %d facts; written in %.0f s; %d mismatches\n",
		r.Turns, r.Events, r.Outputs, r.Facts, r.WriteS, r.Mismatches)
	fmt.Fprintf(w, "  plain ordered consumer, EV alone         %9.0f events/s\n", r.EventsPlainS)
	fmt.Fprintf(w, "  plain ordered consumer, EV, OUT and FX   %9.0f events/s\n", r.StreamsPlainS)
	fmt.Fprintf(w, "  audit, which reads EV, OUT and FX        %9.0f events/s, %.1f allocations per event\n", r.AuditS, r.Allocs)
	fmt.Fprintf(w, "  processor time of the reading process    %9.1f µs per event plainly (EV, OUT, FX), %.1f µs as an audit\n", r.StreamsPlainC, r.AuditC)
	fmt.Fprintf(w, "  ratio                                    %9.2f of the same streams, %.2f of EV alone\n", r.RatioAll, r.RatioEV)
	fmt.Fprintf(w, "  peak memory of the auditing process      %9.1f MiB\n", float64(r.PeakBytes)/(1<<20))
}
