package fold

import (
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// bulkBytesMax bounds, as JSON spells them, the answer text of a turn and the argument
// text of a call. Both must fit one message of the log, which takes 1 MiB by default:
// an output that no log takes would stop its partition for good. It is far above what
// models give today (128 thousand tokens are about half of it).
const bulkBytesMax = 768 << 10

// spelled is the number of bytes that JSON takes to spell s.
func spelled(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\n', c == '\t', c == '\r', c == '\b', c == '\f':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}

// overflow ends an attempt whose next piece does not fit. What was shown is kept; the
// same request would only come to the same end.
func (f *folder) overflow(a *Attempt, what string) {
	a.Usage.Partial = true
	f.emit(f.step().N, a.N, &feed.StepWithdraw{V: 1})
	f.fail(a, AttemptFailed, failure{class: event.Truncated, length: true,
		detail: what + " is larger than a message of the log may be (768 KiB)"})
}
