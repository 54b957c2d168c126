package tool

import (
	"strings"
	"testing"
)

func TestMCPDeclarations(t *testing.T) {
	set := parse(t, `mcp_servers:
  payments: {command: [./pay, -v], dir: bin, env: {LANG: C}, pass_env: [TOKEN]}
  shop: {url: "https://shop.example/mcp", headers: {X-A: b}, headers_env: {Authorization: AUTH}}
tools:
- {name: a, effect: keyed, run: {mcp: {server: payments, tool: refund}}}
- {name: b, effect: read, run: {mcp: {server: shop, tool: find, key: [meta, argument], errors: unknown}}}
- {name: c, effect: once, run: {mcp: {server: shop, tool: x, key: argument, argument: dedupe, errors: failed}}}
`)
	get := func(name string) *MCP { d, _ := set.Get(name); return d.Run.MCP }
	if m := get("a"); !m.KeyMeta || !m.KeyHeader || m.KeyArgument != "" || m.ErrorsFail || m.Server.Argv[0] != "./pay" || m.Server.Dir != "bin" ||
		m.Server.Env["LANG"] != "C" || m.Server.PassEnv[0] != "TOKEN" {
		t.Errorf("a %+v %+v", m, m.Server)
	}
	if m := get("b"); !m.KeyMeta || m.KeyHeader || m.KeyArgument != "idempotency_key" || m.ErrorsFail || m.Server.HeadersEnv["Authorization"] != "AUTH" {
		t.Errorf("b %+v %+v", m, m.Server)
	}
	if m := get("c"); m.KeyMeta || m.KeyArgument != "dedupe" || !m.ErrorsFail || m.Server != get("b").Server {
		t.Errorf("c %+v", m)
	}
	const head = "tools.yaml:1: mcp_servers."
	const tools = "tools.yaml:3: tools[0].run.mcp."
	for _, c := range []struct{ servers, run, want string }{
		{"a: {}", "", head + "a: says no way to reach the server; write command: [program, argument] or url: https://…"},
		{"a: {command: [x], url: \"http://a\"}", "", head + "a: says two ways to reach the server; keep one of command and url"},
		{"a: {command: [x], headers: {A: b}}", "", head + "a.headers: means nothing for a server that is reached this way; remove it"},
		{"a: {url: \"http://a\", dir: x}", "", head + "a.dir: means nothing for a server that is reached this way; remove it"},
		{"a: {url: \"http://a\", headers: {Mcp-Session-Id: b}}", "", head + "a.headers.Mcp-Session-Id: the protocol sets this header itself; remove it"},
		{"a: {url: \"ftp://a\"}", "", head + `a.url: "ftp://a" is not an http or https address; write it as in http://127.0.0.1:9998/refund`},
		{"a b: {command: [x]}", "", head + `a b: "a b" is not a name of a server; use 1 to 64 of A-Z a-z 0-9 _ -`},
		{"a: {command: [x]}", "{server: A, tool: t}", tools + `server: mcp_servers has no "A"; did you mean a?`},
		{"a: {command: [x]}", "{server: a}", tools + "tool: is missing; write the tool's name at the server"},
		{"a: {command: [x]}", "{server: a, tool: t, key: []}", tools + "key: is empty: the server would never see the key; write meta, header or argument, or a list of them"},
		{"a: {command: [x]}", "{server: a, tool: t, key: [body]}", tools + `key[0]: "body" is not known; write meta or header or argument`},
		{"a: {command: [x]}", "{server: a, tool: t, argument: k}", tools + "argument: names an argument, but the key is not sent as one; add argument to key, as in key: [meta, argument]"},
		{"a: {command: [x]}", "{server: a, tool: t, key: argument, argument: note}", tools + `argument: the key would overwrite the parameter "note"; take the field out of parameters and identity, so that turnfold alone fills it in, or name another argument`},
		{"a: {command: [x]}", "{server: a, tool: t, errors: fail}", tools + `errors: "fail" is not known; write failed or unknown`},
	} {
		text := "mcp_servers: {" + c.servers + "}\n"
		if c.run != "" {
			text += "tools:\n- {name: x, effect: once, parameters: {properties: {note: {}}}, run: {mcp: " + c.run + "}}\n"
		}
		if _, err := Parse("tools.yaml", []byte(text)); err == nil || err.Error() != c.want {
			t.Errorf("got\n%v\nwant\n%s", err, c.want)
		}
	}
	if _, err := NewRunners(set, RunnerConfig{Env: func(string) (string, bool) { return "", false }}); err == nil ||
		!strings.Contains(err.Error(), "tool a: mcp_servers.payments.pass_env: set the environment variable TOKEN") ||
		!strings.Contains(err.Error(), "tool b: mcp_servers.shop.headers_env.Authorization: set the environment variable AUTH") {
		t.Errorf("missing variables: %v", err)
	}
}
