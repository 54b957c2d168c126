package tool

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// parse reads declarations that must be good.
func parse(t *testing.T, text string) *Set {
	t.Helper()
	set, err := Parse("tools.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestLoadDeclaration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tools.yaml")
	text := `tools:
  - name: issue_refund
    description: Refund one order.
    parameters: {type: object, required: [order_id], properties: {order_id: {type: string}, amount: {type: integer, maximum: 9007199254740993}, note: {type: string}}}
    effect: keyed
    identity: [order_id]
    repeat: per_step
    timeout: 3s
    cap: 4
    rows: /orders
    approval: always
    redact: [/note]
    card: refund
    run: {http: {url: "http://127.0.0.1:9998/refund", key_header: X-Key, headers: {X-A: b}, headers_env: {Authorization: AUTH}, secret_env: SECRET, follow_redirects: no}}
  - {name: find, effect: read, identity: null, run: {command: {argv: [./find.sh, -v], dir: bin, env: {LANG: C}, pass_env: [TOKEN]}}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Names(); !reflect.DeepEqual(got, []string{"issue_refund", "find"}) {
		t.Errorf("names %v", got)
	}
	d, _ := set.Get("issue_refund")
	want := &Declaration{Name: "issue_refund", Description: "Refund one order.",
		Parameters: `{"type":"object","required":["order_id"],"properties":{"order_id":{"type":"string"},"amount":{"type":"integer","maximum":9007199254740993},"note":{"type":"string"}}}`,
		Effect:     effect.Keyed, Identity: effect.Identity{Fields: []string{"order_id"}}, IdentityDeclared: true,
		Repeat: RepeatPerStep, Timeout: 3 * time.Second, Cap: 4, Rows: "/orders", Approval: ApprovalAlways,
		ApprovalTimeout: ApprovalTimeoutDefault, Scope: effect.ScopeTurn,
		Redact: []string{"/note"}, Card: "refund", Line: 2,
		Run: Run{HTTP: &HTTP{Method: "POST", URL: "http://127.0.0.1:9998/refund", KeyHeader: "X-Key", Headers: map[string]string{"X-A": "b"},
			HeadersEnv: map[string]string{"Authorization": "AUTH"}, SecretEnv: "SECRET"}}}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got  %+v\nwant %+v", d, want)
	}
	d, _ = set.Get("find")
	if d.Timeout != 10*time.Second || d.Cap != 2 || d.Repeat != RepeatPerCall || d.Approval != ApprovalNever || !d.Identity.All || d.IdentityDeclared {
		t.Errorf("defaults %+v", d)
	}
	if c := d.Run.Command; c.Dir != filepath.Join(filepath.Dir(path), "bin") || !reflect.DeepEqual(c.PassEnv, []string{"TOKEN"}) {
		t.Errorf("command %+v", c)
	}
	if _, err := Load(path + ".not"); err == nil || !strings.Contains(err.Error(), "tools file: ") {
		t.Errorf("missing file: %v", err)
	}
	for _, empty := range []string{"", "# nothing yet\n", "tools:\n", "tools: []", "{}"} {
		if got := parse(t, empty).Names(); len(got) != 0 {
			t.Errorf("%q has %v", empty, got)
		}
	}
}

func TestLoadFaults(t *testing.T) {
	const good = "name: x, effect: keyed, run: {http: {url: http://a/b}}"
	for _, c := range []struct{ name, tool, want string }{
		{"unknown key", "{" + good + ", identiti: [a]}", `tools.yaml:2: tools[0].identiti: unknown key; did you mean identity?`},
		{"unknown deep key", "{name: x, effect: read, run: {http: {url: http://a, header: {}}}}",
			`tools.yaml:2: tools[0].run.http.header: unknown key; did you mean headers?`},
		{"missing", "{description: d}", `tools.yaml:2: tools[0].name: is missing; name the tool, as in name: issue_refund
tools.yaml:2: tools[0].effect: is missing; write effect: read, keyed or once
tools.yaml:2: tools[0].run: is missing; say how it runs, as in run: {http: {url: …}}`},
		{"name", "{name: a b, effect: read, run: {http: {url: http://a}}}", `tools.yaml:2: tools[0].name: "a b" is not a tool name; use 1 to 64 of A-Z a-z 0-9 _ -`},
		{"number as name", "{name: 7, effect: read, run: {http: {url: http://a}}}", `tools.yaml:2: tools[0].name: is the number 7, want text; write it in quotes: "7"
tools.yaml:2: tools[0].name: "" is not a tool name; use 1 to 64 of A-Z a-z 0-9 _ -`},
		{"twice", "{" + good + "}\n- {" + good + "}", `tools.yaml:3: tools[1]: the name "x" is taken by the tool on line 2; give one of them another name`},
		{"effect", "{name: x, effect: keyd, run: {http: {url: http://a}}}", `tools.yaml:2: tools[0].effect: "keyd" is not known; did you mean keyed? known are read, keyed, once`},
		{"identity", "{" + good + ", identity: all}", `tools.yaml:2: tools[0].identity: is neither a list nor "*"; write a list of parameters, as in [order_id], or "*" for all arguments`},
		{"identity list", `{` + good + `, identity: [a, a, "*"]}`, `tools.yaml:2: tools[0].identity[1]: "a" is named twice; keep one
tools.yaml:2: tools[0].identity[2]: "*" is not a parameter; write identity: "*", without the list`},
		{"empty identity", "{" + good + ", identity: []}", `tools.yaml:2: tools[0].identity: is empty, which would make all calls one effect; write a list of parameters, as in [order_id], or "*" for all arguments`},
		{"duration", "{" + good + ", timeout: 10}", `tools.yaml:2: tools[0].timeout: "10" is not a duration; write a number and a unit, as in 500ms, 10s or 5m`},
		{"cap", "{" + good + ", cap: 0}", `tools.yaml:2: tools[0].cap: is 0; write a number from 1 to 100`},
		{"pointers", `{` + good + `, rows: orders, redact: [note, ""]}`, `tools.yaml:2: tools[0].rows: "orders" is not a JSON pointer; write it as in /orders or /orders/0/id; ~ is ~0, / inside a name is ~1
tools.yaml:2: tools[0].redact[0]: "note" is not a JSON pointer; write it as in /orders or /orders/0/id; ~ is ~0, / inside a name is ~1
tools.yaml:2: tools[0].redact[1]: redacts all arguments; name a member, as in /note`},
		{"schema type", "{" + good + ", parameters: {type: strin}}", `tools.yaml:2: tools[0].parameters: /type fits not exactly one of the allowed forms; mend the JSON Schema`},
		{"schema of a list", "{" + good + ", parameters: {type: array}}", `tools.yaml:2: tools[0].parameters: its type is not object, but arguments always are one; mend the JSON Schema`},
		{"schema far away", `{` + good + `, parameters: {$ref: "https://example.com/s.json"}}`,
			`tools.yaml:2: tools[0].parameters: refers to https://example.com/s.json: a schema may refer only to itself; copy the part into $defs; mend the JSON Schema`},
		{"schema file", `{` + good + `, parameters: {$ref: "file:///etc/passwd"}}`,
			`tools.yaml:2: tools[0].parameters: refers to file:///etc/passwd: a schema may refer only to itself; copy the part into $defs; mend the JSON Schema`},
		{"schema not an object", "{" + good + ", parameters: [a]}", `tools.yaml:2: tools[0].parameters: is not an object; write a JSON Schema of an object`},
		{"schema number", "{" + good + ", parameters: {maxProperties: .inf}}", `tools.yaml:2: tools[0].parameters.maxProperties: JSON has no number .inf; write a finite decimal number`},
		{"mcp", "{name: x, effect: read, run: {mcp: {server: a, tool: b}}}", `tools.yaml:2: tools[0].run.mcp.server: mcp_servers has no "a"; add it to mcp_servers`},
		{"nats", "{name: x, effect: read, run: {nats: {subject: a.*, creds: c, key_header: Nats-Msg-Id, headers: {nats-ttl: x}}}}", `tools.yaml:2: tools[0].run.nats.subject: "a.*" has wildcards; a request goes to one subject; write one literal subject, as in svc.refund
tools.yaml:2: tools[0].run.nats.creds: is for another server, but url names none; add url, or remove creds
tools.yaml:2: tools[0].run.nats.key_header: "Nats-Msg-Id" cannot carry the key; write a header name, such as Idempotency-Key
tools.yaml:2: tools[0].run.nats.headers.nats-ttl: the server gives headers of this name a meaning; remove it`},
		{"own subject", "{name: x, effect: read, run: {nats: {subject: tf.ev.0.a.b}}}", `tools.yaml:2: tools[0].run.nats.subject: "tf.ev.0.a.b" belongs to the server or to turnfold's own logs; write one literal subject, as in svc.refund`},
		{"proposed", "{" + good + ", proposed: true}", `tools.yaml:2: tools[0].proposed: is a proposal that nobody has confirmed; confirm effect and identity, then delete this line`},
		{"not proposed", "{" + good + ", proposed: false}", `tools.yaml:2: tools[0].proposed: is a proposal that nobody has confirmed; confirm effect and identity, then delete this line`},
		{"no way", "{name: x, effect: read, run: {}}", `tools.yaml:2: tools[0].run: says no way to run; write http: {url: …}, command: {argv: […]}, nats: {subject: …} or mcp: {server: …, tool: …}`},
		{"two ways", "{name: x, effect: read, run: {http: {url: http://a}, command: {argv: [a]}}}", `tools.yaml:2: tools[0].run: says 2 ways to run; keep one of http and command`},
		{"url", "{name: x, effect: read, run: {http: {url: localhost/a}}}", `tools.yaml:2: tools[0].run.http.url: "localhost/a" is not an http or https address; write it as in http://127.0.0.1:9998/refund`},
		{"redirects", "{name: x, effect: read, run: {http: {url: http://a, follow_redirects: yes}}}",
			`tools.yaml:2: tools[0].run.http.follow_redirects: redirects are never followed: a second request is a second effect; remove it and write the final address in url`},
		{"headers", `{name: x, effect: read, run: {http: {url: http://a, headers: {turnfold-turn: x, "a b": y, idempotency-key: z}}}}`,
			`tools.yaml:2: tools[0].run.http.headers.turnfold-turn: turnfold sets this header itself; remove it
tools.yaml:2: tools[0].run.http.headers.a b: "a b" is not a header name; write a header name, such as Authorization
tools.yaml:2: tools[0].run.http.headers.idempotency-key: this header is set twice; keep one`},
		{"secret in the file", "{name: x, effect: read, run: {http: {url: http://a, secret_env: whsec_ab+c}}}",
			`tools.yaml:2: tools[0].run.http.secret_env: is not the name of an environment variable; name the variable, as in PAYMENTS_SECRET, not its value`},
		{"command", "{name: x, effect: read, run: {command: {argv: [], env: {TURNFOLD_KEY: x}}}}",
			`tools.yaml:2: tools[0].run.command.argv: names no program; write the program first, as in [./refund.sh]
tools.yaml:2: tools[0].run.command.env.TURNFOLD_KEY: turnfold sets the variables TURNFOLD_* itself; use another name`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("tools.yaml", []byte("tools:\n- "+c.tool+"\n"))
			if err == nil {
				t.Fatal("no fault")
			}
			if err.Error() != c.want {
				t.Errorf("got\n%s\nwant\n%s", err, c.want)
			}
		})
	}
}

func TestJSONFileKeepsOrderAndLetters(t *testing.T) {
	set := parse(t, "{\"tools\": [\n {\"name\": \"x\", \"effect\": \"keyed\", \"description\": \"\\ud83d\\ude00 a\\/b\",\n  \"identity\": \"*\", \"approval\": null, \"parameters\": {\"type\": \"object\", \"properties\": {\"z\": {}, \"a\": {\"default\": null, \"enum\": [1.50, 1e2, null]}}},\n  \"run\": {\"http\": {\"url\": \"http://a\"}}}]}")
	d, _ := set.Get("x")
	if d.Description != "\U0001F600 a/b" || d.Line != 2 {
		t.Errorf("%q on line %d", d.Description, d.Line)
	}
	if want := `{"type":"object","properties":{"z":{},"a":{"default":null,"enum":[1.50,1e2,null]}}}`; d.Parameters != want {
		t.Errorf("got %s", d.Parameters)
	}
}

func TestAliasBombIsRefused(t *testing.T) {
	text := "tools:\n- name: x\n  effect: read\n  run: {http: {url: http://a}}\n  parameters:\n    a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := '1'; i < '8'; i++ {
		text += strings.ReplaceAll(strings.ReplaceAll("    aN: &aN [*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP]\n", "N", string(i)), "P", string(i-1))
	}
	if _, err := Parse("tools.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "alias") {
		t.Errorf("got %v", err)
	}
}
