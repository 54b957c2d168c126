package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects/feed"
)

func item(step, attempt int, b feed.Body) Item {
	return Item{Output: feed.Output{ID: "1.0", Turn: "t", Step: step, Attempt: attempt, Body: b}}
}

// brokenTurn is a turn whose first attempt breaks, and whose second step adds text.
var brokenTurn = []Item{
	item(0, 0, &feed.TurnAccepted{}),
	item(1, 1, &feed.TextDelta{Text: "I am sorry about the dam"}),
	item(1, 1, &feed.Reset{Abandoned: 1, Reason: "connection"}),
	item(1, 2, &feed.TextDelta{Text: "Sorry! "}),
	item(1, 2, &feed.ToolStart{Call: "1.0", Tool: "refund", Args: `{"order": 1}`}),
	item(1, 2, &feed.ToolResult{Call: "1.0", Tool: "refund", Outcome: "succeeded", Result: "{}"}),
	item(2, 1, &feed.Unknown{Name: "hologram"}),
	item(2, 1, &feed.TextDelta{Text: "Done."}),
	item(0, 0, &feed.Completion{Text: "Sorry! Done.", Finish: "stop", Attempts: 3}),
}

func TestRenderer(t *testing.T) {
	var r Renderer
	for _, it := range brokenTurn {
		r.Apply(it.Output)
	}
	if r.Text() != "Sorry! Done." {
		t.Errorf("shows %q", r.Text())
	}
	r.Apply(item(0, 0, &feed.Reset{}).Output)
	if r.Text() != "" {
		t.Errorf("after a reset of the turn: %q", r.Text())
	}
}

// Every type of item goes through every encoder and renderer.
func TestEveryType(t *testing.T) {
	for _, name := range feed.Types() {
		b, _ := feed.New(name)
		it := item(1, 1, b)
		var r Renderer
		r.Apply(it.Output)
		if err := NewTerminal(TerminalConfig{W: new(bytes.Buffer)}).Apply(it); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, e := range []Encoder{NDJSON{}, SSE{}} {
			out, err := e.Append(nil, it)
			if err != nil || !bytes.Contains(out, []byte(`"type":"`+name+`"`)) || !bytes.HasSuffix(out, []byte("\n")) {
				t.Errorf("%s as %s: %s (%v)", name, e.ContentType(), out, err)
			}
		}
	}
}

// What an item holds cannot forge another one.
func TestRawLines(t *testing.T) {
	it := Item{Output: feed.Output{ID: "1.0"}, Raw: []byte("{\"type\":\"x\",\n\"id\":\"1.0\"}")}
	for _, e := range []Encoder{NDJSON{}, SSE{}} {
		if out, err := e.Append(nil, it); err == nil {
			t.Errorf("%s: %q", e.ContentType(), out)
		}
	}
	it = item(1, 1, &feed.TextDelta{Text: "a\n\ndata: b\r"})
	if out, err := (SSE{}).Append(nil, it); err != nil || bytes.Count(out, []byte("\n")) != 3 {
		t.Errorf("%q %v", out, err)
	}
}

func show(t *testing.T, cfg TerminalConfig, items ...Item) string {
	t.Helper()
	var out bytes.Buffer
	cfg.W = &out
	term := NewTerminal(cfg)
	for _, it := range items {
		if err := term.Apply(it); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestTerminal(t *testing.T) {
	plainText := show(t, TerminalConfig{}, brokenTurn...)
	want := `I am sorry about the dam
↺ attempt 2: connection
Sorry! 
→ refund {"order": 1}
✓ refund succeeded {}
Done.
· stop; attempts 3; tokens 0 in, 0 out
`
	if plainText != want {
		t.Errorf("a file shows\n%s\nwant\n%s", plainText, want)
	}
	size := func() (int, int) { return 10, 24 }
	erased := show(t, TerminalConfig{Erase: true, Size: size}, brokenTurn[:3]...)
	if !strings.HasSuffix(erased, "\x1b[2A\r\x1b[J↺ attempt 2: connection\n") { // 24 characters in rows of 10
		t.Errorf("a terminal gets %q", erased)
	}
	low := show(t, TerminalConfig{Erase: true, Size: func() (int, int) { return 10, 2 }}, brokenTurn[:3]...)
	if strings.Contains(low, "\x1b[J") {
		t.Errorf("what has left the screen is erased: %q", low)
	}
	if c := show(t, TerminalConfig{Color: true}, brokenTurn[4]); !strings.HasPrefix(c, cyan) {
		t.Errorf("no color: %q", c)
	}
}

// A model's text cannot command the terminal.
func TestControlCharacters(t *testing.T) {
	got := show(t, TerminalConfig{}, item(1, 1, &feed.TextDelta{Text: "a\x1b]0;x\x07b\rc\u202ed\n"}))
	if got != "a]0;xbcd\n" {
		t.Errorf("%q", got)
	}
}
