package tool

import (
	"reflect"
	"testing"
)

func TestLint(t *testing.T) {
	const props = "properties: {order_id: {type: string}, note: {type: string}}"
	for _, c := range []struct{ name, members, want string }{
		{"good", "effect: keyed, identity: [order_id], parameters: {" + props + ", required: [order_id]}", ""},
		{"no identity", "effect: keyed, parameters: {" + props + "}",
			`x: error: is keyed and has parameters, but no identity: every rewording by the model would be another effect; list the parameters that name the effect, as in identity: [order_id], or write identity: "*"`},
		{"no parameters, no identity", "effect: once", ""},
		{"empty properties, no identity", "effect: keyed, parameters: {type: object, properties: {}}", ""},
		{"read, no identity", "effect: read, parameters: {" + props + "}", ""},
		{"identity that is none", "effect: keyed, identity: [order], parameters: {" + props + "}",
			`x: error: identity names "order", which is no parameter: calls that differ in nothing else would be one effect; name one of the parameters: order_id, note`},
		{"optional identity", "effect: keyed, identity: [order_id], parameters: {" + props + "}",
			`x: warning: no field of the identity is required: calls that leave all of them out are one effect; list the identity under required in the schema`},
		{"open", `effect: keyed, identity: "*", parameters: {` + props + "}",
			`x: strict: all arguments name the effect and the schema is open: a member that the model adds makes another effect; add additionalProperties: false to the schema`},
		{"closed", `effect: keyed, identity: "*", parameters: {` + props + ", additionalProperties: false}", ""},
		{"closed below", `effect: keyed, identity: "*", parameters: {$ref: "#/$defs/a", $defs: {a: {` + props + ", unevaluatedProperties: false}}}", ""},
		{"once and cap", "effect: once, cap: 5", `x: warning: gets one try, yet the model may ask 5 times for what has failed; write cap: 2 or less`},
		{"repeating read", "effect: read, repeat: never", `x: warning: repeat is never, but a read runs for every call; remove repeat`},
		{"redacts nothing", "effect: read, redact: [/nota/0], parameters: {" + props + ", additionalProperties: false}",
			`x: warning: redacts /nota/0, which is no parameter; name one of the parameters: order_id, note`},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := parse(t, "tools:\n- {name: x, description: d, run: {http: {url: http://a}}, "+c.members+"}\n")
			got := ""
			for _, f := range Lint(set) {
				if f.Line != 2 {
					t.Errorf("line %d", f.Line)
				}
				if got != "" {
					got += "\n"
				}
				got += f.String()
			}
			if got != c.want && !(c.name == "identity that is none" && len(got) > len(c.want) && got[:len(c.want)] == c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if (len(Refused(Lint(set))) > 0) != (c.name == "no identity" || c.name == "identity that is none" || c.name == "open") {
				t.Errorf("refused %v", Refused(Lint(set)))
			}
			if (len(Errors(Lint(set))) > 0) != (c.name == "no identity" || c.name == "identity that is none") {
				t.Errorf("errors %v", Errors(Lint(set)))
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	set := parse(t, `tools:
- name: x
  effect: keyed
  identity: [order_id]
  redact: [/note]
  parameters: {required: [order_id], properties: {note: {}, order_id: {}}, allOf: [{properties: {b: {}, a: {}}}]}
  run: {http: {url: http://a}}
`)
	d, _ := set.Get("x")
	want := []Field{{Name: "note", Redacted: true}, {Name: "order_id", Identity: true, Required: true}, {Name: "a"}, {Name: "b"}}
	if got := Describe(d); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestLintKeyReachesMCP(t *testing.T) {
	set := parse(t, `mcp_servers: {p: {command: [x]}, u: {url: "http://a"}}
tools:
- {name: lost, effect: keyed, description: d, run: {mcp: {server: p, tool: t, key: header}}}
- {name: meta, effect: keyed, description: d, run: {mcp: {server: p, tool: t}}}
- {name: argument, effect: keyed, description: d, run: {mcp: {server: p, tool: t, key: argument}}}
- {name: header, effect: keyed, description: d, run: {mcp: {server: u, tool: t, key: [header]}}}
- {name: once, effect: once, description: d, run: {mcp: {server: p, tool: t, key: header}}}
`)
	got := map[string]Level{}
	for _, f := range Lint(set) {
		got[f.Tool] = f.Level
	}
	if want := map[string]Level{"lost": LevelError, "meta": LevelWarning, "header": LevelWarning}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
