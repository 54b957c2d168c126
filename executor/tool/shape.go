package tool

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnfold/turnfold/subjects/effect"
)

// shape is what a schema says about the top level of the arguments.
type shape struct {
	names    []string // in the schema's order; those of parts it refers to follow by name
	required map[string]bool
	open     bool // members that it does not name are allowed
}

func shapeOf(d *Declaration) shape {
	s := shape{required: map[string]bool{}}
	if d.Parameters == "" {
		s.open = true
		return s
	}
	compiled, err := compile(d.Parameters)
	if err != nil {
		return s // Parse has refused such a schema
	}
	found := map[string]bool{}
	closed := false
	walk(compiled, map[*jsonschema.Schema]bool{}, func(part *jsonschema.Schema) {
		for name := range part.Properties {
			found[name] = true
		}
		for _, name := range part.Required {
			s.required[name] = true
		}
		closed = closed || isFalse(part.AdditionalProperties) || isFalse(part.UnevaluatedProperties)
	})
	s.open = !closed
	for _, name := range propertiesInOrder(d.Parameters) {
		s.names = append(s.names, name)
		delete(found, name)
	}
	var rest []string
	for name := range found {
		rest = append(rest, name)
	}
	slices.Sort(rest)
	s.names = append(s.names, rest...)
	return s
}

// walk visits the parts of a schema that hold for the same value.
func walk(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool, visit func(*jsonschema.Schema)) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	visit(s)
	walk(s.Ref, seen, visit)
	for _, parts := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range parts {
			walk(part, seen, visit)
		}
	}
}

func isFalse(v any) bool {
	switch v := v.(type) {
	case bool:
		return !v
	case *jsonschema.Schema:
		return v != nil && v.Bool != nil && !*v.Bool
	}
	return false
}

// propertiesInOrder reads the names under the schema's own properties.
func propertiesInOrder(schema string) []string {
	raw, ok := effect.Lookup(schema, "/properties")
	if !ok {
		return nil
	}
	dec := jsontext.NewDecoder(strings.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	var names []string
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil
		}
		names = append(names, name.String())
		if dec.SkipValue() != nil {
			return nil
		}
	}
	return names
}
