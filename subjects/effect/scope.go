package effect

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// The kinds of scope: what equal calls are one effect within.
const (
	ScopeTurn         = "turn"
	ScopeConversation = "conversation"
	ScopeTenant       = "tenant"
)

// scopeVersion is in every scope that is not a turn. Other rules for windows need
// another number, or old and new turns would take each other's effects for theirs.
const scopeVersion = "1"

// Scope is what an effect is unique within, from data that is pinned when a turn
// opens; no clock is asked (docs/invariants.md, I6).
type Scope struct {
	Kind         string // ScopeTurn if empty
	Turn         string
	Conversation string // empty: the turn is a conversation of its own
	WindowMS     int64  // 0: no window
	AtMS         int64  // when the turn was opened, in milliseconds since 1970
}

// String is what a key holds of the scope. A turn is its bare id, as it was before
// there were other scopes; all others have a slash, which no id has, so that no two
// kinds can meet.
func (s Scope) String() string {
	var name string
	switch {
	case s.Kind == ScopeTenant:
		name = ScopeTenant + "/" + scopeVersion
	case s.Kind == ScopeConversation && s.Conversation != "":
		name = ScopeConversation + "/" + scopeVersion + "/" + s.Conversation
	default:
		return s.Turn
	}
	if s.WindowMS <= 0 {
		return name
	}
	// Windows lie end to end from 1970 on, so that every turn finds the same ones.
	n := s.AtMS / s.WindowMS
	if s.AtMS%s.WindowMS < 0 {
		n--
	}
	return name + "/" + strconv.FormatInt(s.WindowMS, 10) + "/" + strconv.FormatInt(n, 10)
}

// IdentityDigest names an identity text in facts, in 32 hex digits.
func IdentityDigest(identity string) string {
	if identity == "" {
		identity = "{}"
	}
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:16])
}
