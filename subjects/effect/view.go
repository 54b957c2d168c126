package effect

import (
	"cmp"
	"maps"
	"slices"
)

// Token is what is known of one claim.
type Token struct {
	ID   string
	Call string // the call it was made for
	// Claimed: the claim itself, or a renewal of it, is among the facts. A report
	// alone proves a claim as well, whose own fact was lost.
	Claimed    bool
	Host       string // the claim's writer, if Claimed
	Epoch      uint64 // the highest seen
	Generation int    // of the key that was sent
	Identity   string // digest of what the key stood for when it was claimed; may be empty
	// Report is the report that counts; its Outcome is empty while the claim is
	// open.
	Report Fact
	// Erased: the result was taken away, and so was what the report said in words.
	Erased bool
}

// Open tells whether nobody has reported how the claim's run ended.
func (t Token) Open() bool { return t.Report.Outcome == "" }

// View is the meaning of a key's facts: their join. It is a value; Join of the
// same facts in any order, with any repeats, gives an equal View.
type View struct {
	Tokens []Token  // sorted by ID
	NotRun []string // withdrawn calls, sorted
	// Conflict: facts contradict each other, such as a success and a failure of
	// one token. Decisions stay on the side of "it happened"; an audit reports it.
	Conflict bool
}

// Join returns what facts mean together. Source: docs/invariants.md, I7.
func Join(facts []Fact) View {
	tokens := map[string]Token{}
	notRun := map[string]bool{}
	v := View{}
	for _, f := range facts {
		switch f.Kind {
		case KindClaim, KindRenew, KindReport, KindErased:
			t, seen := tokens[f.Token]
			if seen {
				v.Conflict = v.Conflict || contradicts(t, f)
			}
			tokens[f.Token] = t.with(f)
		case KindNotRun:
			notRun[f.Call] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tokens)) {
		v.Tokens = append(v.Tokens, tokens[id])
	}
	v.NotRun = slices.Sorted(maps.Keys(notRun))
	return v
}

// with adds f to t. Every field only grows in some order, which is what makes
// the join of facts independent of their order.
func (t Token) with(f Fact) Token {
	t.ID = f.Token
	if t.Call == "" || f.Call != "" && f.Call < t.Call {
		t.Call = f.Call
	}
	t.Generation = max(t.Generation, f.Generation)
	if f.Kind == KindReport {
		if f.Outcome == "" {
			f.Outcome = Unknown // a report always ends the claim
		}
		if CompareReports(f, t.Report) > 0 {
			t.Report = f
		}
		return t
	}
	if f.Kind == KindErased {
		t.Erased = true
		return t
	}
	t.Claimed = true
	t.Host = max(t.Host, f.Host)
	t.Epoch = max(t.Epoch, f.Epoch)
	t.Identity = max(t.Identity, f.Identity)
	return t
}

// contradicts compares f with all facts of its token so far. Of those the
// report that counts is enough: an earlier contradiction is flagged already.
func contradicts(t Token, f Fact) bool {
	if f.Call != t.Call && f.Call != "" && t.Call != "" {
		return true
	}
	r := t.Report
	if f.Kind != KindReport || f.Outcome.rank() < 2 || r.Outcome.rank() < 2 {
		return false
	}
	return f.Outcome != r.Outcome || f.BodyDigest != r.BodyDigest && f.BodyDigest != "" && r.BodyDigest != ""
}

// Token returns what is known of one claim.
func (v View) Token(id string) (Token, bool) {
	i, ok := slices.BinarySearchFunc(v.Tokens, id, func(t Token, id string) int { return cmp.Compare(t.ID, id) })
	if !ok {
		return Token{}, false
	}
	return v.Tokens[i], true
}

// Succeeded returns the token whose success is the key's: the first one that has
// a body, else the first one.
func (v View) Succeeded() (Token, bool) {
	var found Token
	for _, t := range v.Tokens {
		if t.Report.Outcome != Succeeded {
			continue
		}
		if t.Report.BodyDigest != "" {
			return t, true
		}
		if found.ID == "" {
			found = t
		}
	}
	return found, found.ID != ""
}

// Generation returns the number n of the optional suffix ".n" of the key that
// the next claim sends to the target; 0 means no suffix. If every earlier claim
// reported failed, it is a number not sent before, because targets replay stored
// failures too. If any is unaccounted for, it is the number sent then, so that
// the target can tell that it has seen the key.
func (v View) Generation() int {
	next, sent, unaccounted := 0, 0, false
	for _, t := range v.Tokens {
		if t.Report.Outcome == Failed {
			next = max(next, t.Generation+1)
			continue
		}
		sent, unaccounted = max(sent, t.Generation), true
	}
	if unaccounted {
		return sent
	}
	return next
}
