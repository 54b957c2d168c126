package render

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Colors of lines (ECMA-48, "Select Graphic Rendition").
const (
	plain  = "\x1b[0m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
)

// lineMax bounds what is shown of an argument or a result, in characters.
const lineMax = 100

// screen follows where the cursor stands, relative to where text began.
type screen struct {
	rows, column int
}

// add moves the cursor as a terminal of so many columns does. A terminal wraps only
// when the next character comes, so a full row is still the same row.
func (s *screen) add(text string, columns int) {
	for _, r := range text {
		if r == '\n' {
			s.rows++
			s.column = 0
			continue
		}
		w := width(r)
		if r == '\t' {
			w = min(8-s.column%8, max(columns-s.column, 0)) // a tab stops at the edge
		}
		if s.column+w > columns {
			s.rows++
			s.column = 0
		}
		s.column += w
	}
}

// width is the number of columns of a character, near enough: marks take none, the
// wide scripts and pictures two.
func width(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd):
		return 2
	}
	return 1
}

// printable drops control characters: a model's text must not move the cursor, set the
// title or answer the terminal's questions.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029' ||
			unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, s)
}

// oneLine is a text short enough to stand in a line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	if utf8.RuneCountInString(s) > lineMax {
		return string([]rune(s)[:lineMax-1]) + "…"
	}
	return s
}
