package provider

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Scan walks JSON values token by token, without reflection and without allocating:
// decoding is on the hot path of every delta, where a general reader spends most of its
// time on what an envelope does not need. It reads the grammar of RFC 8259; a repeated
// member and broken UTF-8 are no errors of the envelope, since providers' strings are
// checked where they matter. FuzzScan holds it against jsontext. Errors stick, so a walk
// checks once.
//
//	for ok := s.Open('{'); ok && s.Member(); {
//		switch string(s.Name()) {
//		case "id":
//			id = s.Text()
//		default:
//			s.Skip()
//		}
//	}
//
// Each member and element must be taken by exactly one of Open, Value, Text, Int, Skip.
type Scan struct {
	data []byte
	name []byte
	err  error
	pos  int     // the end of what was taken
	next int     // where the next token begins, once it was looked at
	kind byte    // of the next token; 0 while it was not looked at
	open []level // the objects and arrays around pos
}

// level is an object or array that was entered.
type level struct {
	close byte // what ends it
	taken int  // tokens of it so far: names and values of an object count apart
}

// depthMax bounds how deep values may nest, so that no input can exhaust the stack. It
// is jsontext's bound.
const depthMax = 10_000

var (
	errJSON  = errors.New("provider: invalid JSON")
	errDepth = errors.New("provider: JSON nests too deep")
)

// NewScan makes a scan.
func NewScan() *Scan { return new(Scan) }

// Reset starts over with data, which is not copied.
func (s *Scan) Reset(data []byte) { *s = Scan{data: data, open: s.open[:0]} }

// Err is the first error of the walk.
func (s *Scan) Err() error { return s.err }

// Kind tells the next value's kind without taking it, 0 at the end or after an error.
func (s *Scan) Kind() jsontext.Kind {
	if s.kind == 0 && s.err == nil {
		s.peek()
	}
	return jsontext.Kind(s.kind)
}

// peek finds the next token, and what must stand before it.
func (s *Scan) peek() {
	i := space(s.data, s.pos)
	var closing byte
	if n := len(s.open) - 1; n >= 0 {
		l := &s.open[n]
		inObject, comma := l.close == '}', false
		switch {
		case i == len(s.data):
		case inObject && l.taken%2 == 1:
			if s.data[i] != ':' {
				s.fail(errJSON)
				return
			}
			i = space(s.data, i+1)
		case l.taken > 0 && s.data[i] == ',':
			i, comma = space(s.data, i+1), true
		case l.taken > 0 && s.data[i] != l.close:
			s.fail(errJSON)
			return
		}
		if i == len(s.data) {
			s.fail(io.ErrUnexpectedEOF)
			return
		}
		if !comma && !(inObject && l.taken%2 == 1) {
			closing = l.close
		}
	} else if i == len(s.data) {
		return
	}
	switch c := s.data[i]; {
	case c == '"', c == '{', c == '[', c == 't', c == 'f', c == 'n', c == closing && c != 0:
		s.kind = c
	case c == '-', '0' <= c && c <= '9':
		s.kind = '0'
	default:
		s.fail(errJSON)
		return
	}
	s.next = i
}

func (s *Scan) fail(err error) {
	s.err, s.kind = err, 0
}

// take moves behind a token of the level around it.
func (s *Scan) take(end int) {
	s.pos, s.kind = end, 0
	if n := len(s.open); n > 0 {
		s.open[n-1].taken++
	}
}

// Open enters an object or array. Another value is skipped: then Open reports false.
func (s *Scan) Open(kind jsontext.Kind) bool {
	if s.Kind() != kind {
		s.Skip()
		return false
	}
	if len(s.open) == depthMax {
		s.fail(errDepth)
		return false
	}
	s.take(s.next + 1)
	s.open = append(s.open, level{close: byte(kind) + 2}) // } is { + 2, and so is ] to [
	return true
}

// Member goes to the next member of the object and takes its name, or leaves the
// object.
func (s *Scan) Member() bool {
	if !s.Element() {
		return false
	}
	if s.kind != '"' {
		s.fail(errJSON)
		return false
	}
	s.name = s.Value()
	return s.err == nil
}

// Element goes to the next element of the array, or leaves the array.
func (s *Scan) Element() bool {
	switch s.Kind() {
	case 0:
		return false
	case '}', ']': // peek gives only the one that fits
		s.pos, s.kind = s.next+1, 0
		s.open = s.open[:len(s.open)-1]
		return false
	}
	return true
}

// Name is the current member's name without quotes. A name with escapes is no name
// that anybody looks for.
func (s *Scan) Name() []byte { return s.name[1 : len(s.name)-1] }

// Value takes the next value as raw text, a part of the data given to Reset.
func (s *Scan) Value() []byte {
	switch s.Kind() {
	case 0:
		if s.err == nil {
			s.err = io.EOF
		}
		return nil
	case '}', ']':
		s.fail(errJSON)
		return nil
	}
	from := s.next
	end, err := valueEnd(s.data, from, len(s.open))
	if err != nil {
		s.fail(err)
		return nil
	}
	s.take(end)
	return s.data[from:end]
}

// Text takes the next value if it is a string, quotes included; another is skipped.
func (s *Scan) Text() []byte {
	if s.Kind() != '"' {
		s.Skip()
		return nil
	}
	return s.Value()
}

// Int takes the next value if it is a number, and reports whether it was one. Counts
// sometimes come as 16.0.
func (s *Scan) Int() (int64, bool) {
	if s.Kind() != '0' {
		s.Skip()
		return 0, false
	}
	v := s.Value()
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < -1<<53 || f > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Skip takes the next value and drops it.
func (s *Scan) Skip() { s.Value() }

// Rest is what has not been taken of the data given to Reset, from the next value on.
func (s *Scan) Rest() []byte { return bytes.TrimLeft(s.data[s.pos:], ",: \t\r\n") }

// Since is what was taken since Rest gave rest, from that value's first byte on.
func (s *Scan) Since(rest []byte) []byte { return s.data[len(s.data)-len(rest) : s.pos] }
