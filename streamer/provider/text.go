package provider

import (
	"bytes"
	"unicode/utf8"
)

// Joiner makes valid UTF-8 of text that comes in fragments. A provider may cut its
// stream between the halves of a surrogate pair, or within a character; the halves are
// joined when they are adjacent. Zero is ready for use.
type Joiner struct {
	pending []byte // an unfinished character, in at most 3 bytes
	// Damaged: something could not be joined. Text goes on with U+FFFD in its place;
	// argument text is malformed then, since it is never repaired.
	Damaged bool
}

// Next takes the next fragment, in the form that Unquote gives, and returns what is
// ready. The fragment is not kept.
func (j *Joiner) Next(fragment []byte) string {
	if len(j.pending) == 0 && utf8.Valid(fragment) {
		return string(fragment)
	}
	if len(fragment) == 0 {
		return ""
	}
	in := append(j.pending, fragment...)
	out := make([]byte, 0, len(in)+utf8.UTFMax)
	for len(in) > 0 {
		if r, n := utf8.DecodeRune(in); r != utf8.RuneError || n > 1 {
			out, in = append(out, in[:n]...), in[n:]
			continue
		}
		hi, isHi := surrogate(in, 0xD800)
		if lo, ok := surrogate(in[min(3, len(in)):], 0xDC00); isHi && ok {
			out, in = utf8.AppendRune(out, 0x10000+hi<<10+lo), in[6:]
			continue
		}
		if unfinished(in) {
			break
		}
		n := 1
		if _, isLo := surrogate(in, 0xDC00); isHi || isLo {
			n = 3
		}
		j.Damaged = true
		out, in = append(out, "\uFFFD"...), in[n:]
	}
	j.pending = append(j.pending[:0:0], in...)
	return string(out)
}

// Flush ends the text: what still waits for its other half will not get it.
func (j *Joiner) Flush() string {
	if len(j.pending) == 0 {
		return ""
	}
	j.pending, j.Damaged = nil, true
	return "\uFFFD"
}

// surrogate reads a half of a pair in its 3-byte form (WTF-8).
func surrogate(b []byte, base rune) (rune, bool) {
	if len(b) < 3 || b[0] != 0xED || b[2]&0xC0 != 0x80 {
		return 0, false
	}
	r := rune(b[0]&0x0F)<<12 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F)
	return r - base, b[1]&0xC0 == 0x80 && r >= base && r < base+0x400
}

// unfinished reports whether b, up to its end, may become a character by what follows:
// a high surrogate, or either's first bytes.
func unfinished(b []byte) bool {
	if _, ok := surrogate(b, 0xD800); ok {
		rest := b[3:]
		return len(rest) == 0 || len(rest) == 1 && rest[0] == 0xED ||
			len(rest) == 2 && rest[0] == 0xED && rest[1] >= 0xB0 && rest[1] <= 0xBF
	}
	return !utf8.FullRune(b) || len(b) == 2 && b[0] == 0xED && b[1]&0xE0 == 0xA0
}

// Unquote appends the content of a JSON string to dst. A lone surrogate escape becomes
// its 3-byte form, which is no UTF-8 and which Joiner understands; raw bytes stay as
// they are, but for surrogates, which have no business there. The string must be
// syntactically valid, quotes included.
func Unquote(dst, quoted []byte) []byte {
	s := quoted[1 : len(quoted)-1]
	if !utf8.Valid(s) {
		s = spoilSurrogates(s)
	}
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			var r rune
			r, s = hex4(s), s[4:]
			dst, s = appendEscaped(dst, r, s)
			continue
		}
		dst = append(dst, c)
	}
}

// appendEscaped appends the code unit r, and its other half if s begins with that.
func appendEscaped(dst []byte, r rune, s []byte) ([]byte, []byte) {
	if r < 0xD800 || r > 0xDFFF {
		return utf8.AppendRune(dst, r), s
	}
	if r < 0xDC00 && len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
		if lo := hex4(s[2:]); lo >= 0xDC00 && lo <= 0xDFFF {
			return utf8.AppendRune(dst, 0x10000+(r-0xD800)<<10+(lo-0xDC00)), s[6:]
		}
	}
	return append(dst, 0xED, 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F)), s
}

func hex4(s []byte) (r rune) {
	for _, c := range s[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

func spoilSurrogates(s []byte) []byte {
	s = bytes.Clone(s)
	for i := 0; i+1 < len(s); i++ {
		if s[i] == 0xED && s[i+1] >= 0xA0 {
			s[i] = 0xFF
		}
	}
	return s
}
