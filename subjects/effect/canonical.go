package effect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrInvalidArguments marks argument text that has no meaning of its own: not
// exactly one JSON object, a repeated member, a lone surrogate, a number beyond
// the limits. The call is refused; the text is never repaired (invariant I4).
var ErrInvalidArguments = errors.New("effect: invalid arguments")

// depthMax bounds how deeply objects and arrays nest, the outer object included.
// No tool needs more, and it bounds the stack of every recursion over arguments.
const depthMax = 1000

// jsonSpace is the white space of RFC 8259, section 2.
const jsonSpace = " \t\n\r"

// Canonical returns the one spelling of the value that args spells. Two texts
// have the same canonical text exactly if they mean the same:
//
//   - members are sorted by the code points of their decoded NFC names,
//   - strings and names are decoded and normalised to NFC,
//   - numbers are exact decimals of any size, in the form that number describes,
//   - the order of arrays, the types, and explicit nulls are kept.
//
// Empty or blank text means the empty object. A member named twice, after
// decoding and normalising, is an error: it would be a choice, not a meaning.
// For values that RFC 8785 covers, the text is that of RFC 8785 except that
// members are sorted by code point, not by UTF-16 unit.
// Source: docs/invariants.md, I6.
func Canonical(args string) (string, error) {
	root, err := parse(args, false)
	if err != nil {
		return "", err
	}
	return string(root.append(make([]byte, 0, len(args)))), nil
}

// Value returns what args spells, for whoever checks it against a schema: an object is a
// map[string]any, an array a []any, a number a json.Number. Strings, names and numbers
// are as they were written, not as Canonical writes them: the tool gets the text as it
// came. It takes and refuses what Canonical does.
func Value(args string) (any, error) {
	root, err := parse(args, true)
	return root.value, err
}

// node is one parsed value. The zero kind does not occur.
type node struct {
	kind    jsontext.Kind
	text    string   // a string, decoded and in NFC; a number or literal, as written out
	members []member // of an object, sorted by name; of an array, in order
	value   any      // see Value; only if the parser keeps it
}

// member is a named value of an object, or an element of an array.
type member struct {
	name string // decoded, in NFC; empty in an array
	node node
}

// parse reads args as exactly one object. With keep, every node has its value.
func parse(args string, keep bool) (node, error) {
	if strings.Trim(args, jsonSpace) == "" {
		return node{kind: '{', value: map[string]any{}}, nil
	}
	// The decoder's own check for repeated names is off: it compares names
	// before NFC, so object has to make the check anyway.
	p := parser{jsontext.NewDecoder(strings.NewReader(args), jsontext.AllowDuplicateNames(true)), keep}
	root, err := p.value(1)
	if err != nil {
		return node{}, err
	}
	if root.kind != '{' {
		return node{}, invalid("", "the arguments are not a JSON object")
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return node{}, invalid("", "something follows the JSON object")
	}
	return root, nil
}

type parser struct {
	dec  *jsontext.Decoder
	keep bool
}

func (p parser) value(depth int) (node, error) {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return node{}, syntaxError(err)
	}
	kind := tok.Kind()
	switch kind {
	case '{', '[':
		if depth > depthMax {
			return node{}, invalid(p.dec.StackPointer(), fmt.Sprintf("nested deeper than %d", depthMax))
		}
		if kind == '{' {
			return p.object(depth)
		}
		return p.array(depth)
	case '"':
		text := tok.String()
		n := node{kind: kind, text: nfc(text)}
		if p.keep {
			n.value = text
		}
		return n, nil
	case '0':
		raw := tok.String()
		text, err := number(raw)
		if err != nil {
			return node{}, invalid(p.dec.StackPointer(), err.Error())
		}
		n := node{kind: kind, text: text}
		if p.keep {
			n.value = json.Number(raw)
		}
		return n, nil
	default: // null, true, false
		n := node{kind: kind, text: tok.String()}
		if p.keep && kind != 'n' {
			n.value = kind == 't'
		}
		return n, nil
	}
}

func (p parser) object(depth int) (node, error) {
	n := node{kind: '{'}
	var values map[string]any
	if p.keep {
		values = map[string]any{}
		n.value = values
	}
	for p.dec.PeekKind() != '}' {
		name, err := p.dec.ReadToken()
		if err != nil {
			return node{}, syntaxError(err)
		}
		raw := name.String()
		m := member{name: nfc(raw)}
		if m.node, err = p.value(depth + 1); err != nil {
			return node{}, err
		}
		n.members = append(n.members, m)
		if p.keep {
			values[raw] = m.node.value
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return node{}, syntaxError(err)
	}
	// UTF-8 orders bytes as it orders code points.
	slices.SortFunc(n.members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(n.members); i++ {
		if name := n.members[i].name; name == n.members[i-1].name {
			return node{}, invalid(p.dec.StackPointer().AppendToken(name), "repeated member")
		}
	}
	return n, nil
}

func (p parser) array(depth int) (node, error) {
	n := node{kind: '['}
	values := []any{}
	for p.dec.PeekKind() != ']' {
		v, err := p.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.members = append(n.members, member{node: v})
		if p.keep {
			values = append(values, v.value)
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return node{}, syntaxError(err)
	}
	if p.keep {
		n.value = values
	}
	return n, nil
}

func (n node) append(dst []byte) []byte {
	switch n.kind {
	case '{', '[':
		dst = append(dst, byte(n.kind))
		for i, m := range n.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			if n.kind == '{' {
				dst = append(quote(dst, m.name), ':')
			}
			dst = m.node.append(dst)
		}
		return append(dst, byte(n.kind)+2) // '{'+2 is '}', '['+2 is ']'
	case '"':
		return quote(dst, n.text)
	default:
		return append(dst, n.text...)
	}
}

// quote appends s as a JSON string with the fewest escapes: \" \\ \b \f \n \r \t,
// and \u00xx for the other control characters. A golden test freezes this.
func quote(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // fails only on invalid UTF-8, which parse refuses
	return dst
}

func invalid(at jsontext.Pointer, what string) error {
	if at == "" {
		return fmt.Errorf("%w: %s", ErrInvalidArguments, what)
	}
	return fmt.Errorf("%w at %q: %s", ErrInvalidArguments, string(at), what)
}

func syntaxError(err error) error {
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok && s.Err != nil {
		what := strings.TrimPrefix(s.Err.Error(), "jsontext: ")
		return invalid(s.JSONPointer, fmt.Sprintf("%s (byte %d)", what, s.ByteOffset))
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return invalid("", err.Error())
}
