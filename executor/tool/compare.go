package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Change is what a new declaration does that the old one did not.
type Change struct {
	Tool   string `json:"tool"`
	What   string `json:"what"` // added, removed, or the member that differs
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Keys: an equal call gets another key, or the target sees the key elsewhere.
	Keys bool `json:"keys"`
	// Running: turns that are running are concerned too. All others keep the
	// declaration that they opened with.
	Running bool   `json:"running"`
	Message string `json:"message"`
}

func (c Change) String() string {
	what := c.What
	if c.Before != "" || c.After != "" {
		what += fmt.Sprintf(" %s -> %s", cmp.Or(c.Before, "none"), cmp.Or(c.After, "none"))
	}
	return fmt.Sprintf("%s: %s: %s", c.Tool, what, c.Message)
}

// Compare lists what a change of declarations means for effects, and above all for
// keys: those of running turns, and those by which old and new turns would find each
// other's effects at a target.
func Compare(before, after *Set) []Change {
	var out []Change
	for _, d := range before.All() {
		now, ok := after.Get(d.Name)
		if !ok {
			out = append(out, removed(d, before, after))
			continue
		}
		out = append(out, compareTool(d, now)...)
	}
	for _, d := range after.All() {
		if _, ok := before.Get(d.Name); !ok {
			out = append(out, Change{Tool: d.Name, What: "added", Message: "offered to turns that open from now on"})
		}
	}
	return out
}

func removed(d *Declaration, before, after *Set) Change {
	c := Change{Tool: d.Name, What: "removed", Running: true,
		Message: "running turns still offer it to the model, and executors have nothing left to run it with; let them end first"}
	for _, now := range after.All() {
		if _, known := before.Get(now.Name); !known && target(now) == target(d) {
			c.Keys, c.After = true, now.Name
			c.Message += "; if it is renamed: a key holds the tool's name, so " + now.Name + " never finds an effect of " + d.Name
		}
	}
	return c
}

func compareTool(d, now *Declaration) []Change {
	var out []Change
	add := func(what, before, after string, keys, running bool, message string) {
		if before != after {
			out = append(out, Change{d.Name, what, before, after, keys, running, message})
		}
	}
	const pinned = "running turns keep what they opened with"
	add("identity", identityText(d), identityText(now), true, false, identityMessage(d, now))
	compareParameters(d, now, add)
	add("effect", string(d.Effect), string(now.Effect), false, false, effectMessage(now.Effect)+"; "+pinned)
	add("repeat", string(d.Repeat), string(now.Repeat), true, false,
		"equal calls later in a turn are counted otherwise, so their keys have other ordinals; "+pinned)
	add("run", target(d), target(now), true, true,
		"holds at once, also for running turns: a target that has not seen a key performs the effect again")
	add("key", keyWay(d), keyWay(now), true, true,
		"holds at once, also for running turns: a request sent again carries its key where the first one did not")
	add("timeout", d.Timeout.String(), now.Timeout.String(), false, false, pinned)
	add("cap", fmt.Sprint(d.Cap), fmt.Sprint(now.Cap), false, false, pinned)
	add("approval", string(d.Approval), string(now.Approval), false, false, pinned)
	add("approval_timeout", d.ApprovalTimeout.String(), now.ApprovalTimeout.String(), false, false, pinned)
	add("scope", scopeText(d), scopeText(now), true, false,
		"turns opened from now on give equal calls other keys, so they find no effect of turns before; "+pinned)
	add("concurrency", fmt.Sprint(d.Concurrency), fmt.Sprint(now.Concurrency), false, true, "holds at once")
	add("verify", verifyText(d), verifyText(now), false, true,
		"holds at once, also for what is unknown already: a wrong yes would call an effect done that is not")
	add("rows", d.Rows, now.Rows, false, false, pinned)
	add("redact", strings.Join(d.Redact, " "), strings.Join(now.Redact, " "), false, false,
		"what was shown stays shown; "+pinned)
	return out
}

func identityText(d *Declaration) string {
	switch {
	case d.Effect == effect.Read:
		return ""
	case d.Identity.All:
		return "*"
	}
	fields := slices.Clone(d.Identity.Fields)
	slices.Sort(fields) // their order means nothing
	return "[" + strings.Join(slices.Compact(fields), ", ") + "]"
}

func identityMessage(d, now *Declaration) string {
	message := "turns opened from now on give equal calls other keys; running turns keep theirs, because declarations are pinned when a turn opens"
	var gone, come []string
	old, new := shapeOf(d).names, shapeOf(now).names
	for _, f := range d.Identity.Fields {
		if !slices.Contains(new, f) {
			gone = append(gone, f)
		}
	}
	for _, f := range now.Identity.Fields {
		if !slices.Contains(old, f) {
			come = append(come, f)
		}
	}
	if len(gone) > 0 && len(come) > 0 {
		message += fmt.Sprintf("; if %s is renamed to %s: a key holds the names of its fields too", strings.Join(gone, ", "), strings.Join(come, ", "))
	}
	return message
}

// compareParameters tells fields that come, go or are renamed.
func compareParameters(d, now *Declaration, add func(what, before, after string, keys, running bool, message string)) {
	old, new := shapeOf(d).names, shapeOf(now).names
	var gone, come []string
	for _, f := range old {
		if !slices.Contains(new, f) {
			gone = append(gone, f)
		}
	}
	for _, f := range new {
		if !slices.Contains(old, f) {
			come = append(come, f)
		}
	}
	keys := now.Effect != effect.Read && (d.Identity.All || now.Identity.All)
	message := "fields that only describe change no key"
	if keys {
		message = "all arguments name the effect, so a call that uses these fields has another key than before"
	}
	before, after := strings.Join(gone, ", "), strings.Join(come, ", ")
	if before != "" && after != "" {
		message += "; if one is the other renamed, running turns still use the old name and the target must take both"
	}
	switch {
	case before != after:
		add("parameters", before, after, keys, false, message)
	case d.Parameters != now.Parameters:
		add("parameters", "schema", "other schema", false, false, "the same fields under other rules; keys stay")
	}
}

func scopeText(d *Declaration) string {
	if d.Window > 0 {
		return d.Scope + " " + d.Window.String()
	}
	return d.Scope
}

func verifyText(d *Declaration) string {
	if d.Verify == nil {
		return ""
	}
	return strings.TrimSpace(target(&Declaration{Run: d.Verify.Run}) + " " + d.Verify.Found)
}

func effectMessage(after effect.Class) string {
	switch after {
	case effect.Read:
		return "runs for every call and is repeated freely, also after an unknown outcome"
	case effect.Keyed:
		return "is sent again with the same key after an unknown outcome; that is right only if the target collapses equal keys"
	}
	return "gets one try; what is unknown stays unknown"
}

// target is where a tool runs, without how its key travels.
func target(d *Declaration) string {
	switch r := d.Run; {
	case r.HTTP != nil:
		return "http " + r.HTTP.URL
	case r.Command != nil:
		return "command " + strings.Join(r.Command.Argv, " ")
	case r.NATS != nil:
		return strings.TrimSpace("nats " + r.NATS.Subject + " " + r.NATS.URL)
	case r.MCP != nil && r.MCP.Server != nil:
		return "mcp " + cmp.Or(r.MCP.Server.URL, strings.Join(r.MCP.Server.Argv, " ")) + " " + r.MCP.Tool
	}
	return ""
}

func keyWay(d *Declaration) string {
	switch r := d.Run; {
	case r.HTTP != nil:
		return r.HTTP.KeyHeader
	case r.NATS != nil:
		return r.NATS.KeyHeader
	case r.MCP != nil:
		var ways []string
		for way, on := range map[string]bool{"meta": r.MCP.KeyMeta, "header": r.MCP.KeyHeader, "argument " + r.MCP.KeyArgument: r.MCP.KeyArgument != ""} {
			if on {
				ways = append(ways, way)
			}
		}
		slices.Sort(ways)
		return strings.Join(ways, ", ")
	}
	return ""
}
