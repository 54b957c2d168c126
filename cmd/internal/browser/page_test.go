package browser

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The page shows a turn whose first attempt broke after a whole call: what was said and
// taken back, that two requests came to one effect, and the verdict. What waits for a
// person is decided there, what is unknown is resolved, and a turn is cancelled, each by
// somebody with a name.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var r struct {
		clean
		Selected, Reset, Resetmark, Shown, Before, Wasted, Event  string
		Lanes, Dropped, Names, Decor, Way, Commands, Found, Marks []string
		IDs                                                       [][2]string
		Cards, Checks, Hold, Gaps, Nodes, Page404                 int
		ParkedArgs, Approval, MustSay, Approved, Resolved, Dark   string
		NarrowList, NarrowTurn, Away                              int
		Kit                                                       struct {
			Wrong []string
			Feeds int
		}
		Policy struct {
			Refused []string
			Policy  string
		}
	}
	kit, err := filepath.Abs("../../../reducer/render/testdata/kit")
	must(t, err)
	drive(t, "page", &r, w.p.Base, kit)
	r.check(t)
	equal := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	same := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	equal("selected by key", r.Selected, "slow-1")
	same("lanes", r.Lanes, "attempt 1.1, abandoned, connection", "attempt 1.2, won", "call 1.0 of issue_refund, succeeded", "attempt 2.1, won")
	equal("reset", r.Reset, "reset · connection")
	same("taken back", r.Dropped, "I am sorry about your order. Refunding the damaged ")
	equal("reset in the text", r.Resetmark, "✕ reset connection · attempt 1 is taken back")
	equal("shown", r.Shown, winner)
	if !strings.HasPrefix(r.Before, "I am sorry") {
		t.Errorf("before the reset the user saw %q", r.Before)
	}
	if r.Cards != 1 || w.refunds.Effects() != 2 { // the refund, and the money that was wired
		t.Errorf("%d cards of the first turn, %d effects of both", r.Cards, w.refunds.Effects())
	}
	if !slices.Equal(r.IDs, [][2]string{{"call_a1", "DEL"}, {"call_b7", "CODE"}}) {
		t.Errorf("asked as %v", r.IDs)
	}
	same("identity", r.Names, "order_id", "order_id")
	same("decoration", r.Decor, "amount", "note")
	same("way", r.Way, "call 1.0", "claim", "run", "succeeded")
	same("marks of the feed", r.Marks, "reset", "tool_start", "tool_result", "completion")
	if r.Checks != 13 || r.Hold != 2 || r.Gaps < 1 {
		t.Errorf("%d invariants hold, %d hold times, %d silent gaps", r.Checks, r.Hold, r.Gaps)
	}
	if !strings.Contains(r.Wasted, "1 attempt not counted") {
		t.Errorf("usage says %q", r.Wasted)
	}
	if !slices.Contains(r.Commands, "turnfold audit slow-1") || !strings.Contains(r.Event, "turnfold show slow-1 --as-of ") {
		t.Errorf("commands %q; of an event: %q", r.Commands, r.Event)
	}
	if strings.Contains(r.ParkedArgs, secret) || !strings.Contains(r.ParkedArgs, "[redacted]") || !strings.Contains(r.ParkedArgs, "9007199254740993") {
		t.Errorf("arguments of a tool that redacts: %q", r.ParkedArgs)
	}
	equal("shown to the approver", r.Approval, `{"to":"`+secret+`","amount":9007199254740993}`)
	equal("an approval by nobody", r.MustSay, "Who are you? is missing.")
	equal("approved by", r.Approved, "Ada")
	equal("resolved by", r.Resolved, "Grace")
	same("found", r.Found, "pay-2", "pay-1")
	if r.NarrowList > 390 || r.NarrowTurn > 390 {
		t.Errorf("a narrow window scrolls sideways: %d, %d", r.NarrowList, r.NarrowTurn)
	}
	if len(r.Kit.Wrong) > 0 || r.Kit.Feeds < 10 {
		t.Errorf("of %d feeds of the conformance kit the page folds some wrong: %q", r.Kit.Feeds, r.Kit.Wrong)
	}
	for _, command := range r.Commands {
		w.runs(t, command)
	}
	if r.Away < 6 {
		t.Errorf("without the server the list keeps %d turns", r.Away)
	}
	equal("dark paper", r.Dark, "rgb(16, 18, 22)")
	same("refused by the policy", r.Policy.Refused, "markup")
	if !strings.Contains(r.Policy.Policy, "default-src 'none'") || strings.Contains(r.Policy.Policy, "unsafe") || r.Page404 != 404 {
		t.Errorf("policy %q, a file that is not there: %d", r.Policy.Policy, r.Page404)
	}
}

// runs runs a command that the page shows, as a person would who has copied it.
func (w *world) runs(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if words[0] != "turnfold" {
		return // of other programs
	}
	cmd := exec.CommandContext(t.Context(), w.p.Binary, append(words[1:], "--config", "turnfold.yaml")...)
	cmd.Dir = w.p.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
}
