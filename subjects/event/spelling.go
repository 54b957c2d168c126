package event

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/turnfold/turnfold/subjects"
)

// What Encode of this version has spelled is recognized by its bytes and read in a
// short way. Anything else takes the long way, which alone decides what is refused: no
// short way reads what the long one would read otherwise, or not at all.

var ownHead = []byte(`{"v":` + strconv.Itoa(subjects.Version) + `,"kind":"`)

// ownKind makes the empty body of an event as Encode spells it at this version, so that
// the members need not be read twice. Anything else gives none, and takes the long way.
// That the rest is an object that repeats no member is for whoever reads it.
func ownKind(data []byte) Body {
	rest, ok := bytes.CutPrefix(data, ownHead)
	if !ok {
		return nil
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil
	}
	if make := kinds[string(rest[:end])]; make != nil { // a spelling with escapes is in no table
		return make()
	}
	return nil
}

// ownDelta reads a piece of text, which is what most events are, if nothing in it is
// escaped; nil for everything else.
func ownDelta(data []byte) Body {
	r := spelling{rest: data}
	r.literal(string(ownHead))
	reasoning := bytes.HasPrefix(r.rest, []byte("reasoning.delta"))
	if reasoning {
		r.literal("reasoning.delta")
	} else {
		r.literal("text.delta")
	}
	var at At
	r.literal(`","step":`)
	at.Step = r.number()
	r.literal(`,"attempt":`)
	at.Attempt = r.number()
	r.literal(`,"token":"`)
	at.Token = r.plain()
	r.literal(`","ord":`)
	at.Ord = r.number()
	r.literal(`,"text":"`)
	text := r.plain()
	r.literal(`"}`)
	switch {
	case r.foreign || len(r.rest) > 0:
		return nil
	case reasoning:
		return &ReasoningDelta{At: at, Text: text}
	}
	return &TextDelta{At: at, Text: text}
}

// spelling reads bytes that are spelled as expected. Once they are not, it is foreign,
// and what it gives means nothing.
type spelling struct {
	rest    []byte
	foreign bool
}

func (r *spelling) literal(want string) {
	if len(r.rest) < len(want) || string(r.rest[:len(want)]) != want {
		r.rest, r.foreign = nil, true
		return
	}
	r.rest = r.rest[len(want):]
}

// digitsMax keeps a number from overflowing an int on any platform.
const digitsMax = 9

// number reads a natural number.
func (r *spelling) number() int {
	n, i := 0, 0
	for i < len(r.rest) && i <= digitsMax && r.rest[i] >= '0' && r.rest[i] <= '9' {
		n = 10*n + int(r.rest[i]-'0')
		i++
	}
	if i == 0 || i > digitsMax || r.rest[0] == '0' && i > 1 {
		r.rest, r.foreign = nil, true
		return 0
	}
	r.rest = r.rest[i:]
	return n
}

// plain reads text up to the next quotation mark, if all of it stands for itself.
func (r *spelling) plain() string {
	end := 0
	for end < len(r.rest) && r.rest[end] != '"' {
		if c := r.rest[end]; c < ' ' || c == '\\' {
			break
		}
		end++
	}
	if end == len(r.rest) || r.rest[end] != '"' || !utf8.Valid(r.rest[:end]) {
		r.rest, r.foreign = nil, true
		return ""
	}
	text := string(r.rest[:end])
	r.rest = r.rest[end:]
	return text
}
