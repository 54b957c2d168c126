package fold

import (
	"crypto/sha256"
	"strconv"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// emptiesCap is the number of empty results of one tool in one turn after which
// asking again is a loop (docs/effects.md, "Loops").
const emptiesCap = 3

// capDefault is the cap of a tool that declares none.
const capDefault = 2

// judge is the loop breaker (I12). Calls that end the same way count per tool,
// identity and error class; empty results count per tool; equal rows count per tool,
// whatever was asked. Over the cap, the result becomes terminal and the next request
// offers no tools, because asking a model to stop is only a suggestion.
func (f *folder) judge(c *Call) string {
	t, known := f.tool(c.Tool)
	limit := f.loopCap(c.Tool)
	switch c.Outcome {
	case event.OutcomeNotRun:
		return ""
	case event.OutcomeSucceeded:
		if !known {
			return ""
		}
		return f.judgeRows(c, t, limit)
	}
	k := c.Tool + "\x00" + c.identity + "\x00" + c.ErrorClass
	f.failures[k]++
	if f.failures[k] <= limit {
		return ""
	}
	f.ToolsOff = true
	return "\n[Stopped: this call has now ended the same way " + strconv.Itoa(f.failures[k]) +
		" times. No more tools are available in this turn. Tell the user honestly what is known and what is not.]"
}

// judgeRows judges a success by what it found: nothing, or the same as before.
func (f *folder) judgeRows(c *Call, t event.Tool, limit int) string {
	if t.Effect != "read" && t.Rows == "" {
		return ""
	}
	if effect.EmptyRows(c.Result, t.Rows) {
		f.empties[c.Tool]++
		if f.empties[c.Tool] < emptiesCap {
			return ""
		}
		f.ToolsOff = true
		return "\n[There are no such records: " + strconv.Itoa(f.empties[c.Tool]) + " calls of " + c.Tool +
			" found nothing. Do not search again; answer with what is known.]"
	}
	if f.Opened.Rules < 1 || t.Effect != "read" || t.Rows == "" {
		return "" // a tool that polls declares no rows: the same answer is no news to it, but no loop
	}
	raw, ok := effect.Lookup(c.Result, t.Rows)
	if !ok {
		return "" // another kind of answer
	}
	k := c.Tool + "\x00" + rowsPrint(raw)
	f.rows[k]++
	if f.rows[k] <= limit {
		return ""
	}
	f.ToolsOff = true
	return "\n[Stopped: the same records came back " + strconv.Itoa(f.rows[k]) + " times from " + c.Tool +
		", whatever was asked. No more tools are available in this turn. Answer with these records, and say honestly what is missing.]"
}

// rowsPrint tells rows apart by what they say, not by how they are spelled; where that
// cannot be told, by their bytes.
func rowsPrint(raw string) string {
	text, err := effect.Canonical(`{"rows":` + raw + `}`)
	if err != nil {
		text = raw
	}
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}
