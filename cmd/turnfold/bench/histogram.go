package bench

import "time"

const (
	histogramStep = 10 * time.Microsecond
	histogramLen  = 1 << 18 // up to 2.6 s; later is counted as that
)

// histogram counts delays in steps of ten microseconds. It takes a megabyte once and
// nothing afterwards: a list that grows to millions would be copied, and collected, in the
// middle of what is measured.
type histogram struct {
	counts [histogramLen]uint32
	n      int
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[min(max(d/histogramStep, 0), histogramLen-1)]++
	h.n++
	h.max = max(h.max, d)
}

// quantile is in microseconds, at most a step too high.
func (h *histogram) quantile(q float64) int64 {
	left := int(q * float64(h.n))
	for i, c := range h.counts {
		if left -= int(c); left < 0 {
			return min(time.Duration(i+1)*histogramStep, h.max).Microseconds()
		}
	}
	return h.max.Microseconds()
}
