package tool

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	const head = "mcp_servers: {m: {command: [x]}}\ntools:\n"
	const base = "name: x, parameters: {properties: {order_id: {}, note: {}}}"
	const run = ", run: {http: {url: http://a}}"
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", "{" + base + ", effect: keyed, identity: [order_id, note]" + run + "}", "{" + base + ", effect: keyed, identity: [note, order_id]" + run + "}", ""},
		{"identity", "{" + base + ", effect: keyed, identity: [order_id]" + run + "}", "{" + base + `, effect: keyed, identity: "*"` + run + "}",
			"identity [order_id] -> * keys"},
		{"effect", "{" + base + ", effect: keyed, identity: [order_id]" + run + "}", "{" + base + `, effect: once, identity: [order_id]` + run + "}",
			"effect keyed -> once"},
		{"repeat", "{" + base + ", effect: once, identity: [order_id]" + run + "}", "{" + base + `, effect: once, repeat: per_step, identity: [order_id]` + run + "}",
			"repeat never -> per_step keys"},
		{"removed", "{" + base + ", effect: read" + run + "}", "{name: y, effect: read, run: {http: {url: http://b}}}", "removed  ->  running; added  -> "},
		{"renamed tool", "{" + base + ", effect: read" + run + "}", "{name: y, effect: read" + run + "}", "removed  -> y keys running; added  -> "},
		{"renamed field", "{" + base + ", effect: keyed, identity: [order_id]" + run + "}",
			"{name: x, parameters: {properties: {order: {}, note: {}}}, effect: keyed, identity: [order]" + run + "}",
			"identity [order_id] -> [order] keys renamed; parameters order_id -> order renamed"},
		{"new decoration", "{" + base + ", effect: keyed, identity: [order_id]" + run + "}",
			"{name: x, parameters: {properties: {order_id: {}, note: {}, why: {}}}, effect: keyed, identity: [order_id]" + run + "}", "parameters  -> why"},
		{"new field, all named", "{" + base + `, effect: keyed, identity: "*"` + run + "}",
			`{name: x, parameters: {properties: {order_id: {}, note: {}, why: {}}}, effect: keyed, identity: "*"` + run + "}", "parameters  -> why keys"},
		{"other rules", "{" + base + ", effect: read" + run + "}", "{name: x, parameters: {required: [note], properties: {order_id: {}, note: {}}}, effect: read" + run + "}",
			"parameters schema -> other schema"},
		{"elsewhere", "{" + base + ", effect: read" + run + "}", "{" + base + ", effect: read, run: {nats: {subject: a}}}",
			"run http http://a -> nats a keys running"},
		{"key elsewhere", "{name: x, effect: keyed, run: {mcp: {server: m, tool: t}}}", "{name: x, effect: keyed, run: {mcp: {server: m, tool: t, key: argument}}}",
			"key header, meta -> argument idempotency_key keys running"},
		{"the rest", "{" + base + ", effect: read" + run + "}", "{" + base + ", effect: read, timeout: 1s, cap: 3, approval: always, rows: /a, redact: [/note]" + run + "}",
			"timeout 10s -> 1s; cap 2 -> 3; approval never -> always; rows  -> /a; redact  -> /note"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, change := range Compare(parse(t, head+"- "+c.before+"\n"), parse(t, head+"- "+c.after+"\n")) {
				text := change.What + " " + change.Before + " -> " + change.After
				if change.Keys {
					text += " keys"
				}
				if change.Running {
					text += " running"
				}
				if strings.Contains(change.Message, "renamed") && change.What != "removed" {
					text += " renamed"
				}
				got = append(got, text)
				if !strings.HasPrefix(change.String(), change.Tool+": "+change.What) || change.Message == "" {
					t.Errorf("says %q", change)
				}
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
	if got := Compare(nil, nil); len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}
