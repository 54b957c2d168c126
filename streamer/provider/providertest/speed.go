package providertest

import (
	"syscall"
	"testing"
	"time"
)

// Speed runs one pass over a body of so many bytes and events again and again, and
// reports the processor's time beside the clock's: on a machine that others use, only
// that says what a pass costs. The rate on one core is cpu-MB/s.
func Speed(b *testing.B, bodyBytes, events int, pass func()) {
	b.Helper()
	b.SetBytes(int64(bodyBytes))
	b.ReportAllocs()
	pass() // what grows to its size once
	began := userTime(b)
	for b.Loop() {
		pass()
	}
	spent := userTime(b) - began
	megabytes := float64(bodyBytes) * float64(b.N) / 1e6
	b.ReportMetric(float64(spent.Nanoseconds())/megabytes, "user-ns/MB")
	b.ReportMetric(megabytes/spent.Seconds(), "cpu-MB/s")
	b.ReportMetric(testing.AllocsPerRun(3, pass)/float64(events), "allocs/event")
}

// userTime is the time that this process has computed, the collector's work included.
func userTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}
