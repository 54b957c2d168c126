package effect

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// segmentMax is how many code points of a segment norm.NFC is trusted with. From
// 31 combining marks in a row on it writes the Stream-Safe Text Format, which
// inserts U+034F: two different strings could then have one spelling.
const segmentMax = 28

// nfc normalises s to Unicode Normalization Form C, exactly, at any length.
func nfc(s string) string {
	if ascii(s) {
		return s
	}
	if !longSegment(s) {
		return norm.NFC.String(s)
	}
	return nfcExact(s)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// longSegment tells whether s has more than segmentMax code points, counted
// after decomposition, between two normalisation boundaries.
func longSegment(s string) bool {
	count := 0
	for i := 0; i < len(s); {
		p := norm.NFC.PropertiesString(s[i:])
		if p.BoundaryBefore() {
			count = 0
		}
		if count += max(1, utf8.RuneCount(p.Decomposition())); count > segmentMax {
			return true
		}
		i += max(1, p.Size())
	}
	return false
}

// mark is a code point with its canonical combining class.
type mark struct {
	r     rune
	class uint8
}

// nfcExact is the algorithm of the Unicode Standard, section 3.11, step by step:
// decompose, order, compose. Only the character data come from norm.
func nfcExact(s string) string {
	var marks []mark
	for _, r := range s {
		for _, d := range norm.NFD.String(string(r)) {
			marks = append(marks, mark{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for lo := 0; lo < len(marks); {
		hi := lo + 1
		for hi < len(marks) && marks[hi].class != 0 {
			hi++
		}
		from := lo
		if marks[lo].class == 0 {
			from++
		}
		slices.SortStableFunc(marks[from:hi], func(a, b mark) int { return int(a.class) - int(b.class) })
		lo = hi
	}
	return compose(marks)
}

func compose(marks []mark) string {
	out := make([]rune, 0, len(marks))
	starter, last := -1, uint8(0) // last: the class of out's last code point
	for _, m := range marks {
		if starter >= 0 && (len(out)-1 == starter || last < m.class) {
			if c, ok := pair(out[starter], m.r); ok {
				out[starter] = c
				continue
			}
		}
		out, last = append(out, m.r), m.class
		if m.class == 0 {
			starter = len(out) - 1
		}
	}
	return string(out)
}

// pair returns the primary composite of a and b, if there is one.
func pair(a, b rune) (rune, bool) {
	s := norm.NFC.String(string([]rune{a, b}))
	r, size := utf8.DecodeRuneInString(s)
	return r, size == len(s)
}
