package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/turnfold/turnfold/subjects/feed"
)

// TerminalConfig says what a terminal can do.
type TerminalConfig struct {
	W io.Writer
	// Erase: W is a terminal that can take shown text back.
	Erase bool
	// Color: W shows colors, and the user wants them.
	Color bool
	// Size gives columns and rows. Nil, or a zero, means 80 by 24.
	Size func() (columns, rows int)
}

// Terminal shows a feed to a person: the text as it comes, and a line for everything
// else that is worth one.
type Terminal struct {
	cfg    TerminalConfig
	shown  screen // text since the last line of another kind
	step   int    // of the text in shown
	midway bool   // the cursor stands behind text
	err    error
}

// NewTerminal makes a terminal renderer that has shown nothing yet.
func NewTerminal(cfg TerminalConfig) *Terminal { return &Terminal{cfg: cfg} }

// Apply shows the feed's next item. Its error is the writer's.
func (t *Terminal) Apply(it Item) error {
	switch b := it.Body.(type) {
	case *feed.TextDelta:
		t.text(it.Step, b.Text)
	case *feed.Reset:
		t.reset(it.Output, b)
	case *feed.ToolStart:
		t.line(cyan, "→ %s %s", b.Tool, oneLine(b.Args))
	case *feed.ToolProgress:
		t.line(dim, "… %s %s", b.Tool, oneLine(progress(b)))
	case *feed.ToolResult:
		t.result(b)
	case *feed.ApprovalRequest:
		t.line(yellow, "? %s %s waits for approval: call %s, digest %s", b.Tool, oneLine(b.Args), b.Call, b.Digest)
	case *feed.ClientCall:
		t.line(cyan, "→ %s %s (for the client to run)", b.Tool, oneLine(b.Args))
	case *feed.Image:
		t.line(dim, "▣ %s %s", b.Mime, oneLine(pictured(b)))
	case *feed.Card:
		t.line(dim, "▤ %s %s", b.Card, oneLine(b.Data))
	case *feed.Completion:
		t.completion(b)
	case *feed.Error:
		t.line(red, "✗ %s (%s)", oneLine(b.Message), b.Class)
	}
	return t.err
}

// pictured says where a picture is; one that came along cannot be shown here.
func pictured(b *feed.Image) string {
	if b.URL != "" {
		return b.URL
	}
	return fmt.Sprintf("(%d bytes)", len(b.Data)*3/4)
}

func progress(b *feed.ToolProgress) string {
	if b.Percent > 0 {
		return fmt.Sprintf("%d%% %s", b.Percent, b.Message)
	}
	return b.Message
}

func (t *Terminal) text(step int, text string) {
	if step != t.step && t.midway {
		t.newline()
	}
	if t.step != step {
		t.step, t.shown = step, screen{}
	}
	text = printable(text)
	columns, _ := t.size()
	t.shown.add(text, columns)
	t.write(text)
	t.midway = text != "" && !strings.HasSuffix(text, "\n") || text == "" && t.midway
}

// reset takes back what the abandoned attempt has shown if the terminal can, and says
// so in any case: what has left the screen, or a file, cannot be taken back.
func (t *Terminal) reset(o feed.Output, b *feed.Reset) {
	_, rows := t.size()
	ours := o.Step == 0 || o.Step == t.step
	if ours && t.cfg.Erase && t.shown.rows < rows {
		if t.shown.rows > 0 {
			t.write(fmt.Sprintf("\x1b[%dA", t.shown.rows))
		}
		t.write("\r\x1b[J")
		t.midway = false
	}
	t.shown = screen{}
	if o.Step == 0 {
		t.line(yellow, "↺ from the start: %s", b.Reason)
		return
	}
	t.line(yellow, "↺ attempt %d: %s", b.Abandoned+1, b.Reason)
}

func (t *Terminal) result(b *feed.ToolResult) {
	sign, color := "✗", red
	switch b.Outcome {
	case "succeeded":
		sign, color = "✓", green
	case "unknown":
		sign, color = "?", yellow
	}
	what := b.Outcome
	if b.ErrorClass != "" {
		what += " " + b.ErrorClass
	}
	if b.Replayed {
		what += " (replayed)"
	}
	t.line(color, "%s %s %s %s", sign, b.Tool, what, oneLine(b.Result))
}

func (t *Terminal) completion(b *feed.Completion) {
	kept := ""
	if b.Salvaged {
		kept = ", salvaged"
	}
	if b.Message != "" {
		t.line(yellow, "! %s", oneLine(b.Message))
	}
	text := fmt.Sprintf("· %s%s; attempts %d; tokens %d in, %d out", b.Finish, kept, b.Attempts, b.Usage.Input, b.Usage.Output)
	if u := b.Usage; u.WastedInput+u.WastedOutput > 0 {
		text += fmt.Sprintf(" (%d of them wasted)", u.WastedInput+u.WastedOutput)
	}
	if u := b.Usage; u.Currency != "" {
		text += fmt.Sprintf("; cost %d.%06d %s", u.Cost/1e9, u.Cost%1e9/1e3, u.Currency)
	}
	t.line(dim, "%s", text)
}

// line writes a line of its own, below which text begins anew.
func (t *Terminal) line(color, format string, args ...any) {
	if t.midway {
		t.newline()
	}
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if t.cfg.Color {
		text = color + text + plain
	}
	t.write(text + "\n")
	t.shown = screen{}
}

func (t *Terminal) newline() {
	t.write("\n")
	t.midway = false
}

func (t *Terminal) write(s string) {
	if t.err == nil && s != "" {
		_, t.err = io.WriteString(t.cfg.W, s)
	}
}

func (t *Terminal) size() (columns, rows int) {
	if t.cfg.Size != nil {
		columns, rows = t.cfg.Size()
	}
	if columns <= 0 {
		columns = 80
	}
	if rows <= 0 {
		rows = 24
	}
	return columns, rows
}
