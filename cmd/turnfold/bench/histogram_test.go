package bench

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("nothing has a quantile")
	}
	for i := range 1000 {
		h.add(time.Duration(i) * 100 * time.Microsecond)
	}
	h.add(time.Hour)
	h.add(-time.Second) // clocks of one process do not run backwards; if they do, no panic
	for q, want := range map[float64]int64{0.5: 50_000, 0.99: 99_000, 1: time.Hour.Microseconds()} {
		if got := h.quantile(q); got < want-100 || got > want+100 {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
}
