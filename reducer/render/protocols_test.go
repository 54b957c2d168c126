package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects/feed"
)

// contractProtocols shows each item to each encoder.
func contractProtocols(t *testing.T, page *strings.Builder) {
	t.Helper()
	page.WriteString("\n## In other protocols\n\nWhat each item becomes; see [protocols](protocols.md).\n\n| item | AI SDK | AG-UI | ACP | OpenAI |\n|---|---|---|---|---|\n")
	for _, typ := range feedTypes() {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n", typ, becomes(t, typ, new(AISDK), "type"), becomes(t, typ, &AGUI{Thread: "a", Run: "b"}, "type"),
			becomesACP(typ), becomes(t, typ, &OpenAI{Stream: true}, ""))
	}
}

func sample(typ string) Item {
	b, _ := feed.New(typ)
	switch b := b.(type) {
	case *feed.TextDelta:
		b.Text = "a"
	case *feed.ReasoningDelta:
		b.Text = "a"
	case *feed.ToolResult:
		b.Outcome = "succeeded"
	case *feed.Image:
		b.URL = "https://example.com/a.png"
	}
	return item(1, 1, b)
}

// becomes lists what an encoder adds for an item, beside what it opens and closes for it.
func becomes(t *testing.T, typ string, e Encoder, member string) string {
	t.Helper()
	list := []Item{item(0, 0, &feed.TurnAccepted{}), item(1, 1, &feed.TextDelta{Text: "x"}), item(1, 1, &feed.ToolStart{})}
	var out []byte
	if typ == "turn_accepted" {
		list = nil
	}
	if typ == "reset" {
		list = list[:2]
	}
	for _, it := range list {
		if _, err := e.Append(nil, it); err != nil {
			t.Fatal(err)
		}
	}
	it := sample(typ)
	if d := map[string]bool{"turn_accepted": true, "completion": true, "error": true, "message_saved": true}; d[typ] {
		it.Step, it.Attempt = 0, 0
	}
	out, err := e.Append(out, it)
	if err != nil {
		t.Fatal(err)
	}
	if typ == "completion" {
		out = e.End(out, "")
	}
	if _, failed := it.Body.(*feed.Error); failed && member == "" {
		out = e.End(out, "")
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		raw, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || raw == "[DONE]" {
			continue
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		names = append(names, name(v, member))
	}
	if len(names) == 0 {
		return "–"
	}
	return strings.Join(names, ", ")
}

func name(v map[string]any, member string) string {
	if member != "" {
		s := fmt.Sprint(v[member])
		if s == "CUSTOM" {
			s += " " + fmt.Sprint(v["name"])
		}
		return "`" + s + "`"
	}
	if v["error"] != nil {
		return "`error`"
	}
	choices, _ := v["choices"].([]any)
	if len(choices) == 0 {
		return "`usage`"
	}
	c := choices[0].(map[string]any)
	if c["finish_reason"] != nil {
		return "`finish_reason`"
	}
	for k := range c["delta"].(map[string]any) {
		if k != "content" || len(c["delta"].(map[string]any)) == 1 {
			return "`delta." + k + "`"
		}
	}
	return "`delta`"
}

func becomesACP(typ string) string {
	switch typ {
	case "approval_request":
		return "`tool_call`, `session/request_permission`"
	case "completion":
		return "`stopReason`"
	case "error":
		return "JSON-RPC error"
	case "message_saved":
		return "`_meta`"
	}
	var names []string
	for _, u := range ACPUpdates(sample(typ)) {
		names = append(names, "`"+u["sessionUpdate"].(string)+"`")
	}
	if len(names) == 0 {
		return "–"
	}
	return strings.Join(names, ", ")
}
