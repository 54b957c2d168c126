package strict

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Value is a member's value at its place. The zero node is an absent value; its
// readers give zero values and add no fault.
type Value struct {
	node   *yaml.Node
	file   string
	path   string
	report *Report
}

// Present reports whether the value is there and is not null.
func (v Value) Present() bool { return v.node != nil && v.resolved().ShortTag() != "!!null" }

// Path is the member's path from the root.
func (v Value) Path() string { return v.path }

// Line is the value's line, 1-based; 0 if absent.
func (v Value) Line() int {
	if v.node == nil {
		return 0
	}
	return v.node.Line
}

// Fault notes that something is wrong with the value.
func (v Value) Fault(fix, format string, args ...any) {
	v.report.Add(Fault{File: v.file, Line: v.Line(), Field: v.path, Problem: fmt.Sprintf(format, args...), Fix: fix})
}

// At is the place of a member of this object, for faults about the whole: it has the
// member's path and the object's line.
func (v Value) At(key string) Value {
	return Value{v.node, v.file, join(v.path, key), v.report}
}

// resolved follows an alias; the parser has made sure that it leads somewhere.
func (v Value) resolved() *yaml.Node {
	n := v.node
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// Member is one member of an object.
type Member struct {
	Key string
	Value
}

// Members lists an object's members in the file's order, without the null ones.
func (v Value) Members() []Member {
	if !v.Present() {
		return nil
	}
	n := v.resolved()
	if n.Kind != yaml.MappingNode {
		v.Fault("write name: value members", "is %s, want an object", kindOf(n))
		return nil
	}
	var out []Member
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		m := Member{key.Value, Value{val, v.file, join(v.path, key.Value), v.report}}
		at := Value{key, v.file, m.path, v.report}
		if key.Kind != yaml.ScalarNode {
			v.Fault("write a name", "has a key that is %s", kindOf(key))
			continue
		}
		if key.ShortTag() == "!!merge" {
			at.Fault("write the members out", "merge keys are not supported")
			continue
		}
		if line := first[key.Value]; line > 0 {
			at.Fault("keep one", "is here for the second time; the first is on line %d", line)
			continue
		}
		first[key.Value] = key.Line
		if m.Present() {
			out = append(out, m)
		}
	}
	return out
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Object is an object whose keys are all known.
type Object struct {
	of      Value
	members map[string]Value
}

// Object reads an object and reports every key that is not known.
func (v Value) Object(known ...string) Object {
	o := Object{v, map[string]Value{}}
	for _, m := range v.Members() {
		o.members[m.Key] = m.Value
		if !contains(known, m.Key) {
			m.Fault(suggestion(m.Key, known), "unknown key")
		}
	}
	return o
}

// Get gives a member, absent if it is not there.
func (o Object) Get(key string) Value {
	if v, ok := o.members[key]; ok {
		return v
	}
	return Value{file: o.of.file, path: join(o.of.path, key), report: o.of.report}
}

// Need gives a member and reports its absence.
func (o Object) Need(key, fix string) Value {
	v := o.Get(key)
	if !v.Present() && o.of.node != nil && o.of.resolved().Kind == yaml.MappingNode {
		o.of.At(key).Fault(fix, "is missing")
	}
	return v
}

func suggestion(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "known are " + strings.Join(known, ", ")
}

func contains(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

// List gives a list's items; null items are faults.
func (v Value) List() []Value {
	if !v.Present() {
		return nil
	}
	n := v.resolved()
	if n.Kind != yaml.SequenceNode {
		v.Fault("write a list, as in [a, b]", "is %s, want a list", kindOf(n))
		return nil
	}
	out := make([]Value, 0, len(n.Content))
	for i, c := range n.Content {
		item := Value{c, v.file, fmt.Sprintf("%s[%d]", v.path, i), v.report}
		if !item.Present() {
			item.Fault("remove it", "is null")
			continue
		}
		out = append(out, item)
	}
	return out
}

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.Present() && v.resolved().Kind == yaml.SequenceNode }

// String gives a string.
func (v Value) String() string {
	if !v.Present() {
		return ""
	}
	n := v.resolved()
	switch tag := n.ShortTag(); {
	case n.Kind != yaml.ScalarNode:
		v.Fault("write text", "is %s, want text", kindOf(n))
	case tag == "!!int" || tag == "!!float" || tag == "!!bool":
		v.Fault(fmt.Sprintf("write it in quotes: %q", n.Value), "is %s, want text", kindOf(n))
	default:
		return n.Value
	}
	return ""
}

// Strings gives a list of strings.
func (v Value) Strings() []string {
	var out []string
	for _, item := range v.List() {
		out = append(out, item.String())
	}
	return out
}

// Scalar gives the text of a string, number or truth value as written.
func (v Value) Scalar() (string, bool) {
	if !v.Present() {
		return "", false
	}
	n := v.resolved()
	if n.Kind != yaml.ScalarNode {
		v.Fault("write a single value", "is %s, want a single value", kindOf(n))
		return "", false
	}
	return n.Value, true
}

// IsString reports whether the value is text rather than a number or truth value.
func (v Value) IsString() bool {
	if !v.Present() || v.resolved().Kind != yaml.ScalarNode {
		return false
	}
	tag := v.resolved().ShortTag()
	return tag != "!!int" && tag != "!!float" && tag != "!!bool"
}

// Int gives a whole number from lo to hi, or or if absent or wrong.
func (v Value) Int(or, lo, hi int) int {
	if !v.Present() {
		return or
	}
	n := v.resolved()
	i, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		v.Fault(fmt.Sprintf("write a number from %d to %d", lo, hi), "is %s, want a whole number", kindOf(n))
		return or
	}
	if i < lo || i > hi {
		v.Fault(fmt.Sprintf("write a number from %d to %d", lo, hi), "is %d", i)
		return or
	}
	return i
}

// Duration gives a duration from lo to hi, or or if absent or wrong.
func (v Value) Duration(or, lo, hi time.Duration) time.Duration {
	text, ok := v.Scalar()
	if !ok {
		return or
	}
	d, err := ParseDuration(text, lo, hi)
	if err != nil {
		v.Fault("", "%v", err)
		return or
	}
	return d
}

// ParseDuration reads a duration from lo to hi; its error names the fix.
func ParseDuration(text string, lo, hi time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write a number and a unit, as in 500ms, 10s or 5m", text)
	}
	if d < lo || d > hi {
		return 0, fmt.Errorf("%s is out of range; write a duration from %s to %s", Short(d), Short(lo), Short(hi))
	}
	return d, nil
}

// Short writes a duration as people do: 10m rather than 10m0s.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Enum gives one of the words, or or if absent or wrong.
func (v Value) Enum(or string, words ...string) string {
	if !v.Present() {
		return or
	}
	before := v.report.Len()
	s := v.String()
	if contains(words, s) {
		return s
	}
	if v.report.Len() == before {
		fix := "write " + strings.Join(words, " or ")
		if near := Nearest(s, words); near != "" {
			fix = fmt.Sprintf("did you mean %s? known are %s", near, strings.Join(words, ", "))
		}
		v.Fault(fix, "%q is not known", s)
	}
	return or
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return n.Value
	case "!!null":
		return "null"
	}
	return fmt.Sprintf("the text %q", n.Value)
}
