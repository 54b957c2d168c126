package audit_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/audit"
)

// BenchmarkPartition measures what an audit costs besides the reading: one turn with a
// broken attempt, a call and an answer. cpu-µs/event is the time that the process
// computed, the collector's included: the clock's says little on a busy machine.
func BenchmarkPartition(b *testing.B) {
	_, list := load(b, "testdata/golden/v1-demo-policies.ndjson")
	facts := audit.NewFacts()
	events := 0
	for _, m := range list {
		if strings.HasPrefix(m.stream, "TF_FX") {
			if err := facts.Add(2, m.Msg); err != nil {
				b.Fatal(err)
			}
		}
		if strings.HasPrefix(m.stream, "TF_EV") {
			events++
		}
	}
	b.ReportAllocs()
	began := computed()
	for range b.N {
		p := &audit.Partition{Number: 3, Notes: &audit.Notes{}, Facts: facts, Each: func(v audit.Verdict) {
			if !v.OK || v.Events != events {
				b.Fatalf("%+v", v)
			}
		}}
		for _, m := range list {
			switch {
			case strings.HasPrefix(m.stream, "TF_EV"):
				if err := p.Event(m.Msg); err != nil {
					b.Fatal(err)
				}
			case strings.HasPrefix(m.stream, "TF_OUT"):
				stamp, err := reducer.ReadStamp(m.Msg)
				p.Output(m.Msg, stamp, err)
			}
		}
		if bad := p.Close(); len(bad) > 0 {
			b.Fatal(bad)
		}
	}
	b.ReportMetric((computed()-began)*1e6/float64(b.N*events), "cpu-µs/event")
}

// computed is the processor time of this process so far, in seconds.
func computed() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for another argument
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
