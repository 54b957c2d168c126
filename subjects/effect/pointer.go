package effect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Redacted is the JSON string that stands for a value that is not shown.
const Redacted = `"[redacted]"`

// Lookup returns the exact text of the value at an RFC 6901 pointer; the empty
// pointer means the whole text. Names compare as Canonical compares them. It is
// not ok if nothing is there, the pointer is malformed, or the text is not JSON
// (one that repeats a member is not: which one was meant would be a choice).
func Lookup(text, pointer string) (raw string, ok bool) {
	if !jsontext.Value(text).IsValid() {
		return "", false
	}
	lo, hi, ok := span(text, pointer)
	return text[lo:hi], ok
}

// EmptyRows tells whether a result shows nothing at the pointer rows, which may
// be empty for the whole result: [], {}, null or "". A result that is not JSON is
// empty only if it is blank. If nothing is at rows, that is not an empty result
// but another kind of answer. Source: docs/invariants.md, I12.
func EmptyRows(result, rows string) bool {
	if strings.Trim(result, jsonSpace) == "" {
		return true
	}
	raw, ok := Lookup(result, rows)
	if !ok {
		return false
	}
	switch raw[0] {
	case '[', '{':
		return strings.Trim(raw[1:len(raw)-1], jsonSpace) == ""
	default:
		return raw == "null" || raw == `""`
	}
}

// Redact returns args with the value at each pointer replaced by Redacted and
// every other byte untouched. It fails closed: if args are not valid arguments,
// or a pointer is malformed, nothing but Redacted remains.
func Redact(args string, pointers []string) string {
	if len(pointers) == 0 {
		return args
	}
	if _, err := parse(args, false); err != nil {
		return Redacted
	}
	type cut struct{ lo, hi int }
	var cuts []cut
	for _, p := range pointers {
		if p == "" || !jsontext.Pointer(p).IsValid() {
			return Redacted
		}
		if lo, hi, ok := span(args, p); ok {
			cuts = append(cuts, cut{lo, hi})
		}
	}
	slices.SortFunc(cuts, func(a, b cut) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi)) })
	var out strings.Builder
	done := 0
	for _, c := range cuts {
		if c.lo < done {
			continue // within a value that is gone already
		}
		out.WriteString(args[done:c.lo])
		out.WriteString(Redacted)
		done = c.hi
	}
	out.WriteString(args[done:])
	return out.String()
}

// span finds the value at pointer in text, which is valid JSON or blank.
func span(text, pointer string) (lo, hi int, ok bool) {
	p := jsontext.Pointer(pointer)
	if !p.IsValid() {
		return 0, 0, false
	}
	dec := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	for token := range p.Tokens() {
		t, err := dec.ReadToken()
		if err != nil {
			return 0, 0, false
		}
		switch t.Kind() {
		case '{':
			ok = seekMember(dec, nfc(token))
		case '[':
			ok = seekElement(dec, token)
		default:
			ok = false
		}
		if !ok {
			return 0, 0, false
		}
	}
	v, err := dec.ReadValue()
	if err != nil {
		return 0, 0, false
	}
	hi = int(dec.InputOffset())
	return hi - len(v), hi, true
}

// seekMember moves dec, just inside an object, to the value of the member name.
func seekMember(dec *jsontext.Decoder, name string) bool {
	for {
		t, err := dec.ReadToken()
		if err != nil || t.Kind() == '}' {
			return false
		}
		if nfc(t.String()) == name {
			return true
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
}

// seekElement moves dec, just inside an array, to the element of that index.
func seekElement(dec *jsontext.Decoder, index string) bool {
	n, err := strconv.ParseUint(index, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != index {
		return false // "-", "01" and "+1" name no element
	}
	for ; n > 0; n-- {
		if dec.PeekKind() == ']' || dec.SkipValue() != nil {
			return false
		}
	}
	return dec.PeekKind() != ']'
}
