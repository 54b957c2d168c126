package replay

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Fault is what happens to a recording on its way. Zero plays it as it was recorded,
// without its waits.
type Fault struct {
	Cut Cut
	// End is how the answer ends, after the cut or the whole body. Zero means a reset
	// after a cut, and otherwise the recording's own end.
	End   End
	Split Split
	// Status replaces the recording's status if it is not zero.
	Status int
	// BytesPerSecond slows the body down. Zero means no bound.
	BytesPerSecond int
	// Delay is the wait before each write of the body.
	Delay time.Duration
	// Timed keeps the recording's own waits, if the body is split as recorded.
	Timed bool
}

// Cut is where a body breaks off. Zero is nowhere.
type Cut struct {
	unit byte // 'b' bytes, 'e' events
	n    int
}

// AfterByte cuts after n bytes of the body; 0 leaves the answer's head alone. A body of
// no more than n bytes comes whole.
func AfterByte(n int) Cut { return Cut{'b', n} }

// AfterEvent cuts after n events of the body; 0 leaves the answer's head alone.
func AfterEvent(n int) Cut { return Cut{'e', n} }

// bytes is how much of a body the cut leaves.
func (c Cut) bytes(body []byte) int {
	switch {
	case c.unit == 'b':
		return min(c.n, len(body))
	case c.unit == 'e' && c.n == 0:
		return 0
	case c.unit == 'e':
		if ends := EventEnds(body); c.n <= len(ends) {
			return ends[c.n-1]
		}
	}
	return len(body)
}

// Split is into which writes a body is cut.
type Split string

// The splits.
const (
	SplitRecorded Split = "" // as it was recorded
	SplitByte     Split = "byte"
	SplitEvent    Split = "event" // one write per event, its blank line included
	SplitWhole    Split = "whole"
)

// Validate reports what cannot be done.
func (f Fault) Validate() error {
	var errs []error
	if f.Cut.n < 0 {
		errs = append(errs, fmt.Errorf("a cut after %d is before the beginning", f.Cut.n))
	}
	if f.End != EndRecorded && !slices.Contains(Ends, f.End) {
		errs = append(errs, fmt.Errorf("the end %q is not known; known are %v", f.End, Ends))
	}
	if !slices.Contains([]Split{SplitRecorded, SplitByte, SplitEvent, SplitWhole}, f.Split) {
		errs = append(errs, fmt.Errorf("the split %q is not known; known are byte, event, whole", f.Split))
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		errs = append(errs, fmt.Errorf("the status %d is not 200 to 599", f.Status))
	}
	if f.BytesPerSecond < 0 || f.Delay < 0 {
		errs = append(errs, errors.New("a rate or a delay cannot be negative"))
	}
	return errors.Join(errs...)
}

// piece is one write to be made.
type piece struct {
	wait time.Duration // before it
	data []byte
}

// script is what is sent for one request.
type script struct {
	status int
	header map[string][]string
	pieces []piece
	end    End
}

// play makes the script of a recording under a fault. It is the same each time.
func play(r *Recording, f Fault) script {
	s := script{status: r.Response.Status, header: r.Response.Header, end: f.End}
	if f.Status != 0 {
		s.status = f.Status
	}
	if s.end == EndRecorded {
		s.end = r.Response.End
		if f.Cut.unit != 0 {
			s.end = EndReset
		}
	}
	if s.end == EndBefore {
		return s
	}
	keep := f.Cut.bytes(r.Response.Body)
	at, last := 0, time.Duration(0)
	for _, w := range pieces(&r.Response, f.Split) {
		n := min(w.Bytes, keep-at)
		if n <= 0 {
			break
		}
		p := piece{wait: f.Delay, data: r.Response.Body[at : at+n]}
		if f.Timed && f.Split == SplitRecorded {
			p.wait += w.After - last
			last = w.After
		}
		if f.BytesPerSecond > 0 {
			p.wait += time.Duration(n) * time.Second / time.Duration(f.BytesPerSecond)
		}
		s.pieces = append(s.pieces, p)
		at += n
	}
	return s
}

// pieces cuts a whole body into its writes.
func pieces(r *Response, how Split) []Write {
	var out []Write
	switch how {
	case SplitRecorded:
		return r.Writes
	case SplitByte:
		for range r.Body {
			out = append(out, Write{Bytes: 1})
		}
		return out
	case SplitEvent:
		at := 0
		for _, end := range EventEnds(r.Body) {
			out = append(out, Write{Bytes: end - at})
			at = end
		}
		return append(out, Write{Bytes: len(r.Body) - at})
	}
	return []Write{{Bytes: len(r.Body)}}
}
