package effect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Outcome is how an effect, or one claim's run of it, ended. Empty means that
// nothing is known yet.
type Outcome string

const (
	Succeeded Outcome = "succeeded" // it happened
	Failed    Outcome = "failed"    // it definitely did not happen
	Unknown   Outcome = "unknown"   // it may have happened
	Refused   Outcome = "refused"   // not asked for: bad arguments, not allowed, a cap
	NotRun    Outcome = "not_run"   // withdrawn before any claim
)

// Known tells whether o can never change any more. Only Unknown may be resolved.
// Source: docs/invariants.md, I7.
func (o Outcome) Known() bool {
	return o == Succeeded || o == Failed || o == Refused || o == NotRun
}

// Interrupted is the error class of an Unknown that nobody observed: the holder
// of the claim is gone, or its lease ran out. The call has no outcome from it.
const Interrupted = "interrupted"

// FactKind names what a Fact says.
type FactKind string

const (
	KindClaim  FactKind = "claim"   // the right to perform was taken
	KindRenew  FactKind = "renew"   // its holder is alive
	KindReport FactKind = "report"  // how the run of a claim ended
	KindNotRun FactKind = "not_run" // a call was withdrawn before it had a claim
	KindErased FactKind = "erased"  // the claim's result was taken away on purpose
)

// kindUnknown starts the kind of a fact that this binary does not know.
const kindUnknown = "unknown:"

// factVersion is raised only for a change that is not safe to ignore.
const factVersion = 1

// ErrFactVersion marks a fact that only a newer binary can read. Ignoring it
// could repeat an effect, so the reader stops.
var ErrFactVersion = errors.New("effect: fact of a newer version")

// Fact is one thing that a host has written about a key. Facts are never taken
// back; what they mean together is Join.
type Fact struct {
	Kind FactKind `json:"kind"`
	// Token is unique to one claim, and kept when its publication is retried.
	Token string `json:"token,omitempty"`
	// Call is the call that the claim was made for, opaque here.
	Call string `json:"call,omitempty"`
	// Epoch tells renewals of one claim apart.
	Epoch uint64 `json:"epoch,omitempty"`
	// Generation is View.Generation as it was when the claim was made.
	Generation int `json:"gen,omitempty"`
	// Outcome of a report: Succeeded, Failed or Unknown.
	Outcome    Outcome `json:"outcome,omitempty"`
	ErrorClass string  `json:"class,omitempty"`
	Detail     string  `json:"detail,omitempty"`
	// BodyDigest is the SHA-256 digest of the result body in hex, if there is one.
	BodyDigest string `json:"body,omitempty"`
	// Identity is a digest of the identity that a claim's key stands for; empty where
	// nobody had it.
	Identity string `json:"identity,omitempty"`
	// By says who reported, if it was not whoever ran, and Why what they said.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// Host wrote the fact.
	Host string `json:"host,omitempty"`
	// Input is the log sequence of the event that the call was commanded at.
	Input uint64 `json:"input,omitempty"`
	// Raw is the text of a fact of an unknown kind, byte for byte.
	Raw string `json:"-"`
}

// EncodeFact returns the JSON of f. A fact of an unknown kind comes out as it
// came in. Text that is not UTF-8 is mended, for it is only ever a detail.
func EncodeFact(f Fact) []byte {
	if f.Raw != "" {
		return []byte(f.Raw)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read these
	err := e.Encode(struct {
		V int `json:"v"`
		Fact
	}{factVersion, f})
	if err != nil {
		panic(fmt.Sprintf("effect: encode fact: %v", err)) // no field of a Fact can fail
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// DecodeFact reads a fact. A kind that this binary does not know is kept in Raw
// under the kind "unknown:<kind>", and Join ignores it.
func DecodeFact(b []byte) (Fact, error) {
	var head struct {
		V    int      `json:"v"`
		Kind FactKind `json:"kind"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Fact{}, fmt.Errorf("effect: decode fact: %w", err)
	}
	switch {
	case head.V > factVersion:
		return Fact{}, fmt.Errorf("%w: %d", ErrFactVersion, head.V)
	case head.V < 1 || head.Kind == "":
		return Fact{}, errors.New("effect: decode fact: no version or kind")
	}
	switch head.Kind {
	case KindClaim, KindRenew, KindReport, KindNotRun, KindErased:
	default:
		return Fact{Kind: kindUnknown + head.Kind, Raw: string(b)}, nil
	}
	var f Fact
	if err := json.Unmarshal(b, &f); err != nil {
		return Fact{}, fmt.Errorf("effect: decode fact: %w", err)
	}
	return f, f.check()
}

// check refuses a fact that says nothing: dropping it silently would lose a
// claim, and a lost claim can repeat an effect.
func (f Fact) check() error {
	var missing []string
	if f.Token == "" && f.Kind != KindNotRun {
		missing = append(missing, "token")
	}
	if f.Call == "" {
		missing = append(missing, "call")
	}
	if f.Outcome == "" && f.Kind == KindReport {
		missing = append(missing, "outcome")
	}
	if len(missing) > 0 {
		return fmt.Errorf("effect: decode fact: %s without %s", f.Kind, strings.Join(missing, ", "))
	}
	return nil
}

// rank orders outcomes of reports: the higher one counts. An outcome from the
// future ranks as Unknown, the only one that claims nothing.
func (o Outcome) rank() int {
	switch o {
	case "":
		return 0
	case Failed:
		return 2
	case Succeeded:
		return 3
	default:
		return 1
	}
}

// CompareReports orders two reports of one token: the greater one counts. Known
// outranks unknown, and success outranks failure, because what happened cannot
// be undone by a report. An unknown that somebody observed outranks an
// interruption. The rest of the order only makes the choice the same everywhere.
func CompareReports(a, b Fact) int {
	return cmp.Or(
		cmp.Compare(a.Outcome.rank(), b.Outcome.rank()),
		cmp.Compare(observed(a), observed(b)),
		cmp.Compare(a.BodyDigest, b.BodyDigest), // one with a body before one without
		cmp.Compare(a.ErrorClass, b.ErrorClass),
		cmp.Compare(a.Detail, b.Detail),
		cmp.Compare(a.Outcome, b.Outcome),
		cmp.Compare(a.Host, b.Host),
		cmp.Compare(a.Epoch, b.Epoch),
		cmp.Compare(a.Input, b.Input),
		cmp.Compare(a.Generation, b.Generation),
		cmp.Compare(a.Call, b.Call),
		cmp.Compare(a.By, b.By),
		cmp.Compare(a.Why, b.Why),
		cmp.Compare(a.Identity, b.Identity),
	)
}

// observed is 0 for an interruption. A known outcome was always observed.
func observed(f Fact) int {
	if f.Outcome.rank() < 2 && f.ErrorClass == Interrupted {
		return 0
	}
	return 1
}
