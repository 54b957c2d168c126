package executor

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// CrashPointEnv arms a crash point: "name" or "name:n" has the process kill itself, as
// kill -9 does, when it passes the point for the n-th time. For tests alone.
const CrashPointEnv = "TURNFOLD_CRASH_POINT"

// crashPoint is a gap between two durable operations of the executor. A process may die
// in any of them, and what is known then must be enough (docs/invariants.md, I7, I9).
type crashPoint string

const (
	crashIntent    crashPoint = "intent"    // the intent is remembered, nothing is claimed
	crashClaim     crashPoint = "claim"     // the key is claimed, nothing is sent
	crashSent      crashPoint = "sent"      // the tool has answered, and nobody has been told
	crashReport    crashPoint = "report"    // the report is remembered, the log knows nothing
	crashBody      crashPoint = "body"      // the result is on its way to the log, its report is not
	crashFact      crashPoint = "fact"      // the report is on the log, the turn is not told
	crashSettled   crashPoint = "settled"   // the turn is told, the memory has not noted it
	crashAcked     crashPoint = "acked"     // the command is ended
	crashNoted     crashPoint = "noted"     // the memory has noted it
	crashNotRun    crashPoint = "not_run"   // the withdrawal is on the log, not remembered
	crashWithdrawn crashPoint = "withdrawn" // it is remembered, the turn is not told
	crashTakeover  crashPoint = "takeover"  // a dead holder's claim is reported, nothing follows yet
	crashAbandoned crashPoint = "abandoned" // a claim that another host has won is forgotten
)

// CrashPoints lists the names of all crash points, in the order of a call's way.
func CrashPoints() []string {
	return []string{string(crashIntent), string(crashClaim), string(crashSent), string(crashReport), string(crashBody),
		string(crashFact), string(crashSettled), string(crashAcked), string(crashNoted), string(crashNotRun),
		string(crashWithdrawn), string(crashTakeover), string(crashAbandoned)}
}

// crasher is an armed crash point; nil passes everything.
type crasher struct {
	at   crashPoint
	left atomic.Int64
	die  func()
}

// armCrash reads what CrashPointEnv says; empty text arms nothing.
func armCrash(text string) (*crasher, error) {
	if text == "" {
		return nil, nil
	}
	name, count, counted := strings.Cut(text, ":")
	n := int64(1)
	if counted {
		var err error
		if n, err = strconv.ParseInt(count, 10, 64); err != nil || n < 1 {
			return nil, fmt.Errorf("%s=%s: the count must be 1 or more", CrashPointEnv, text)
		}
	}
	if !slices.Contains(CrashPoints(), name) {
		return nil, fmt.Errorf("%s=%s: there is no such point; there are %s", CrashPointEnv, text, strings.Join(CrashPoints(), ", "))
	}
	c := &crasher{at: crashPoint(name), die: killSelf}
	c.left.Store(n)
	return c, nil
}

// pass goes by a crash point.
func (c *crasher) pass(at crashPoint) {
	if c != nil && c.at == at && c.left.Add(-1) == 0 {
		c.die()
	}
}

// killSelf ends the process without another word: no deferred call, no flush.
func killSelf() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}
