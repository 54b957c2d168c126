package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/turnfold/turnfold/subjects/effect"
)

// schemasMax bounds the cache of compiled schemas. A deployment has tens of tools;
// the bound only matters if it changes them all day long.
const schemasMax = 1024

// faultsShown bounds how many faults of one call's arguments are told to the model.
const faultsShown = 8

// schemaURL is the base of every schema. Nothing is ever loaded from it.
const schemaURL = "turnfold:parameters"

var schemas = struct {
	sync.Mutex
	byText map[string]*jsonschema.Schema
}{byText: map[string]*jsonschema.Schema{}}

// Validate checks a call's arguments against a declaration; see ValidateArgs.
func Validate(d *Declaration, args string) error {
	return ValidateArgs(d.Parameters, d.Redact, args)
}

// ValidateArgs checks argument text against a JSON Schema, with exact numbers. Empty
// parameters accept any object, empty arguments mean {}. The error is an
// effect.ErrInvalidArguments that says where and what is wrong, for the model to mend;
// it never shows a value, and of redacted members not even what is inside.
func ValidateArgs(parameters string, redact []string, args string) error {
	// Value also bounds numbers and depth, which keeps the checks below cheap.
	value, err := effect.Value(args)
	if err != nil {
		return err
	}
	if parameters == "" {
		return nil
	}
	schema, err := compile(parameters)
	if err != nil {
		return fmt.Errorf("compile parameters: %w", err)
	}
	err = schema.Validate(value)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return fmt.Errorf("%w: %s", effect.ErrInvalidArguments, describe(invalid, redact))
	}
	return fmt.Errorf("%w: they do not fit the schema", effect.ErrInvalidArguments)
}

// compile gives the compiled schema of a JSON text, from the cache if it can.
func compile(text string) (*jsonschema.Schema, error) {
	schemas.Lock()
	defer schemas.Unlock()
	if s, ok := schemas.byText[text]; ok {
		return s, nil
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, schemaFault(err)
	}
	if t := s.Types; t != nil && !slices.Contains(t.ToStrings(), "object") {
		return nil, errors.New("its type is not object, but arguments always are one")
	}
	if len(schemas.byText) >= schemasMax {
		clear(schemas.byText)
	}
	schemas.byText[text] = s
	return s, nil
}

// noLoader refuses references to other documents: what a schema means must not
// depend on a network or a disk.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a schema may refer only to itself; copy the part into $defs")
}

// schemaFault says what is wrong with a schema, without the base that no file names.
func schemaFault(err error) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return fmt.Errorf("refers to %s: %w", load.URL, load.Err)
	}
	var bad *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &invalid) {
		return errors.New(describe(invalid, nil))
	}
	return errors.New(strings.ReplaceAll(err.Error(), schemaURL, ""))
}

// describe lists the faults of a value, each with its place.
func describe(e *jsonschema.ValidationError, redact []string) string {
	var out []string
	collect(e, redact, &out)
	slices.Sort(out)
	out = slices.Compact(out)
	if more := len(out) - faultsShown; more > 0 {
		out = append(out[:faultsShown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

func collect(e *jsonschema.ValidationError, redact []string, out *[]string) {
	at := pointer(e.InstanceLocation)
	for _, r := range redact {
		if at == r || strings.HasPrefix(at, r+"/") {
			*out = append(*out, r+" does not fit its schema")
			return
		}
	}
	if what := fault(e.ErrorKind); what != "" {
		if at == "" {
			at = "the arguments"
		}
		*out = append(*out, at+" "+what)
		return
	}
	for _, cause := range e.Causes {
		collect(cause, redact, out)
	}
	if len(e.Causes) == 0 {
		*out = append(*out, at+" does not fit its schema")
	}
}

func pointer(path []string) string {
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, p := range path {
		b.WriteString("/" + escape.Replace(p))
	}
	return b.String()
}

// fault says what is wrong without the value that is; empty for a fault that only
// groups others.
func fault(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		return ""
	case *kind.AnyOf, *kind.OneOf:
		return "fits not exactly one of the allowed forms"
	case *kind.Type:
		return fmt.Sprintf("is of type %s, want %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Required:
		return "lacks " + strings.Join(k.Missing, ", ")
	case *kind.DependentRequired:
		return "lacks " + strings.Join(k.Missing, ", ")
	case *kind.AdditionalProperties:
		return "has members that the tool does not know: " + strings.Join(slices.Sorted(slices.Values(k.Properties)), ", ")
	case *kind.Enum:
		return fmt.Sprintf("must be one of %v", k.Want)
	case *kind.Const:
		return fmt.Sprintf("must be %v", k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %s", k.Want)
	case *kind.Format:
		return "is not a valid " + k.Want
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "must be more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "must be less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "must be a multiple of " + k.Want.RatString()
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items", k.Want)
	case *kind.UniqueItems:
		return "must not repeat an item"
	case *kind.FalseSchema:
		return "is not allowed"
	}
	return fmt.Sprintf("does not fit %s", strings.Join(k.KeywordPath(), "/"))
}
