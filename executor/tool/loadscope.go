package tool

import (
	"strings"

	"github.com/turnfold/turnfold/executor/tool/strict"
	"github.com/turnfold/turnfold/subjects/effect"
)

// parseApprovalTimeout reads how long a call may wait for a person.
func parseApprovalTimeout(v strict.Value, d *Declaration) {
	d.ApprovalTimeout = v.Duration(ApprovalTimeoutDefault, approvalTimeoutMin, approvalTimeoutMax)
	if v.Present() && d.Approval != ApprovalAlways {
		v.Fault("add approval: always, or remove it", "means nothing for a tool that needs no approval")
	}
}

// parseScope reads what equal calls are one effect within. A wider scope than the turn
// goes with repeat: never alone, because ordinals are counted in one turn and would meet
// those of another.
func parseScope(o strict.Object, d *Declaration) {
	at, window := o.Get("scope"), o.Get("window")
	d.Scope = at.Enum(effect.ScopeTurn, effect.ScopeTurn, effect.ScopeConversation, effect.ScopeTenant)
	d.Window = window.Duration(0, windowMin, windowMax)
	switch {
	case d.Scope == effect.ScopeTurn:
		if window.Present() {
			window.Fault("add scope: conversation or tenant, or remove it", "means nothing within a turn")
		}
	case d.Effect == effect.Read:
		at.Fault("remove it", "a read is never one effect with another")
	case d.Repeat != RepeatNever:
		at.Fault("write repeat: never, or scope: turn", "repeat: %s counts within one turn", d.Repeat)
	case d.Scope == effect.ScopeTenant && !window.Present():
		at.Fault("add window, as in window: 24h", "without a window the tenant could do this once, and never again")
	}
}

// parseVerify reads how the target is asked whether it knows a key.
func parseVerify(v strict.Value, folder string, servers map[string]*MCPServer, class effect.Class) *Verify {
	o := v.Object(membersOf("verify")...)
	if class == effect.Read {
		v.Fault("remove it", "a read changes nothing, so nothing of it is ever in doubt")
	}
	return &Verify{
		Run:     parseWay(v, o, folder, servers, effect.Read, "verify"),
		Found:   parsePointer(o.Get("found")),
		Timeout: o.Get("timeout").Duration(VerifyTimeoutDefault, timeoutMin, timeoutMax),
		For:     o.Get("for").Duration(VerifyForDefault, verifyForMin, verifyForMax),
	}
}

// parseVerifyHTTP reads a question over HTTP. It differs from a call in its method and
// in that its address may hold the key.
func parseVerifyHTTP(v strict.Value) *HTTP {
	o := v.Object(membersOf("verify.http")...)
	h := parseHTTP(o)
	h.Method = o.Get("method").Enum("GET", "GET", "POST")
	for part := range strings.SplitSeq(h.URL, "{") {
		if name, _, ok := strings.Cut(part, "}"); ok && name != "key" && part != h.URL {
			o.Get("url").Fault("write {key}", "{%s} stands for nothing", name)
		}
	}
	return h
}
