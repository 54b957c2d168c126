package streamer

import (
	"strings"
	"unicode/utf8"

	"github.com/turnfold/turnfold/subjects/event"
)

// pieceBytesMax bounds the text of one event, as JSON spells it. It is far below the
// smallest message limit in use (1 MiB, the server's default), and a feed item made
// from it fits as well.
const pieceBytesMax = 256 << 10

// merge joins neighbours that differ in nothing but the text they add: fragments of
// the same text, reasoning or argument text. Order and content stay as they are.
func merge(in []event.Body) []event.Body {
	out := in[:0:0]
	for i := 0; i < len(in); {
		n := 1
		for i+n < len(in) && continues(in[i], in[i+n]) {
			n++
		}
		if n == 1 {
			out = append(out, in[i])
		} else {
			out = append(out, join(in[i:i+n]))
		}
		i += n
	}
	return out
}

// continues reports whether b only adds text to what a began.
func continues(a, b event.Body) bool {
	switch a := a.(type) {
	case *event.TextDelta:
		_, ok := b.(*event.TextDelta)
		return ok
	case *event.ReasoningDelta:
		_, ok := b.(*event.ReasoningDelta)
		return ok
	case *event.CallDelta:
		b, ok := b.(*event.CallDelta)
		return ok && a.Index == b.Index && b.ID == "" && b.Name == "" && b.Opaque == ""
	}
	return false
}

func join(in []event.Body) event.Body {
	var all strings.Builder
	for _, b := range in {
		all.WriteString(textOf(b))
	}
	return withText(in[0], all.String())
}

// textOf is the part of a body that may be cut anywhere.
func textOf(b event.Body) string {
	switch b := b.(type) {
	case *event.TextDelta:
		return b.Text
	case *event.ReasoningDelta:
		return b.Text
	case *event.CallDelta:
		return b.Args
	}
	return ""
}

// bodyBytes is about what a waiting body costs besides its text.
const bodyBytes = 64

func sizeOf(b event.Body) int {
	n := bodyBytes + len(textOf(b))
	switch b := b.(type) {
	case *event.OpaqueBlock:
		n += len(b.Data)
	case *event.CallDelta:
		n += len(b.Opaque)
	}
	return n
}

func withText(b event.Body, text string) event.Body {
	switch b := b.(type) {
	case *event.TextDelta:
		return &event.TextDelta{Text: text}
	case *event.ReasoningDelta:
		return &event.ReasoningDelta{Text: text}
	case *event.CallDelta:
		c := *b
		c.Args = text
		return &c
	}
	return b
}

// split cuts a body into bodies whose text is at most max bytes of JSON each, between
// characters. A call's labels stay with its first piece.
func split(b event.Body, max int) []event.Body {
	text := textOf(b)
	if len(text)*6 <= max { // no character is spelled with more than six bytes per byte
		return []event.Body{b}
	}
	n := fits(text, max)
	out := []event.Body{withText(b, text[:n])}
	rest := b
	if c, ok := b.(*event.CallDelta); ok {
		rest = &event.CallDelta{Index: c.Index}
	}
	for text = text[n:]; text != ""; text = text[n:] {
		n = fits(text, max)
		out = append(out, withText(rest, text[:n]))
	}
	return out
}

// fits is how many bytes of text, whole characters, JSON spells within max bytes; at
// least one character.
func fits(text string, max int) int {
	spelled := 0
	for i := 0; i < len(text); {
		n, cost := 1, 1
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			_, n = utf8.DecodeRuneInString(text[i:])
			cost = n
		case c < ' ' || c == 0x7f:
			cost = 6
		case c == '"' || c == '\\':
			cost = 2
		}
		if spelled += cost; spelled > max && i > 0 {
			return i
		}
		i += n
	}
	return len(text)
}

// address gives a body of a model stream its place.
func address(b event.Body, at event.At) {
	switch b := b.(type) {
	case *event.TextDelta:
		b.At = at
	case *event.ReasoningDelta:
		b.At = at
	case *event.CallDelta:
		b.At = at
	case *event.OpaqueBlock:
		b.At = at
	case *event.AttemptFinished:
		b.At = at
	case *event.AttemptFailed:
		b.At = at
	}
}
