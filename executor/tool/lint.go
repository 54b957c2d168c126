package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Level says whether a finding must be mended.
type Level string

// The levels of a finding. An error is a declaration that repeats effects, or takes
// two for one: it may not run. A strict finding leaves the name of an effect to the
// model's mood: lint refuses it, and serve says so and runs it.
const (
	LevelError   Level = "error"
	LevelStrict  Level = "strict"
	LevelWarning Level = "warning"
)

// Finding is one thing to mend in a declaration that can be read.
type Finding struct {
	Tool    string `json:"tool"`
	Line    int    `json:"line"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s; %s", f.Tool, f.Level, f.Message, f.Fix)
}

// Field is one parameter and what it is for the effect.
type Field struct {
	Name string `json:"name"`
	// Identity: another value is another effect. Otherwise the field is decoration: a
	// reworded value is the same effect.
	Identity bool `json:"identity"`
	Required bool `json:"required"`
	Redacted bool `json:"redacted"`
}

// Describe lists a tool's parameters in the schema's order.
func Describe(d *Declaration) []Field {
	s := shapeOf(d)
	out := make([]Field, len(s.names))
	for i, name := range s.names {
		out[i] = Field{
			Name:     name,
			Identity: d.Effect != effect.Read && (d.Identity.All || slices.Contains(d.Identity.Fields, name)),
			Required: s.required[name],
			Redacted: slices.Contains(d.Redact, pointer([]string{name})),
		}
	}
	return out
}

// Errors keeps the findings that must be mended before the tools may run.
func Errors(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Level != LevelError })
}

// Refused keeps the findings that lint does not let pass.
func Refused(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Level == LevelWarning })
}

// Lint checks what a declaration means; that it can be read, Parse has checked.
func Lint(set *Set) []Finding {
	var out []Finding
	for _, d := range set.All() {
		add := func(level Level, fix, format string, args ...any) {
			out = append(out, Finding{d.Name, d.Line, level, fmt.Sprintf(format, args...), fix})
		}
		s := shapeOf(d)
		if d.Effect == effect.Read {
			lintRead(d, add)
		} else {
			lintIdentity(d, s, add)
		}
		if d.Run.MCP != nil && d.Effect == effect.Keyed {
			lintKeyed(d.Run.MCP, add)
		}
		lintShown(d, s, add)
	}
	return out
}

type adder func(level Level, fix, format string, args ...any)

func lintRead(d *Declaration, add adder) {
	if d.Repeat != RepeatPerCall {
		add(LevelWarning, "remove repeat", "repeat is %s, but a read runs for every call", d.Repeat)
	}
	if d.Approval == ApprovalAlways {
		add(LevelWarning, "remove approval, or declare the tool keyed or once",
			"a read that needs approval; if it changes something, it is no read")
	}
}

func lintIdentity(d *Declaration, s shape, add adder) {
	switch {
	case !d.IdentityDeclared && len(s.names) > 0:
		add(LevelError, fmt.Sprintf(`list the parameters that name the effect, as in identity: [%s], or write identity: "*"`, s.names[0]),
			"is %s and has parameters, but no identity: every rewording by the model would be another effect", d.Effect)
	case d.Identity.All && s.open && len(s.names) > 0:
		add(LevelStrict, "add additionalProperties: false to the schema",
			"all arguments name the effect and the schema is open: a member that the model adds makes another effect")
	}
	for _, field := range d.Identity.Fields {
		if !slices.Contains(s.names, field) {
			add(LevelError, "name one of the parameters: "+strings.Join(s.names, ", "),
				"identity names %q, which is no parameter: calls that differ in nothing else would be one effect", field)
		}
	}
	if named := slices.ContainsFunc(d.Identity.Fields, func(f string) bool { return s.required[f] }); !named && len(d.Identity.Fields) > 0 {
		add(LevelWarning, "list the identity under required in the schema",
			"no field of the identity is required: calls that leave all of them out are one effect")
	}
	if d.Effect == effect.Once && d.Cap > CapDefault {
		add(LevelWarning, fmt.Sprintf("write cap: %d or less", CapDefault),
			"gets one try, yet the model may ask %d times for what has failed", d.Cap)
	}
}

// lintKeyed checks that the key can arrive where requests are to be collapsed by it.
func lintKeyed(m *MCP, add adder) {
	switch {
	case m.KeyArgument != "":
	case !m.KeyMeta && m.Server != nil && m.Server.URL == "":
		add(LevelError, "add meta or argument to run.mcp.key, or declare it once",
			"is keyed, but the key cannot reach a program in a header: a repeat would be another effect")
	default:
		add(LevelWarning, "make sure that it does, or declare the tool once",
			"is keyed, which is true only if the MCP server collapses calls by %s in _meta or by the header %s", MetaKey, KeyHeaderDefault)
	}
}

// lintShown checks what people and models are shown.
func lintShown(d *Declaration, s shape, add adder) {
	if d.Description == "" {
		add(LevelWarning, "say in one sentence what it does", "has no description for the model to go by")
	}
	for _, p := range d.Redact {
		first := ""
		for token := range jsontext.Pointer(p).Tokens() {
			first = token
			break
		}
		if !s.open && !slices.Contains(s.names, first) {
			add(LevelWarning, "name one of the parameters: "+strings.Join(s.names, ", "),
				"redacts %s, which is no parameter", p)
		}
	}
}
