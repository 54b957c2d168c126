package tool

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Verifier asks a target whether it knows a key. It changes nothing there.
type Verifier struct {
	runner Runner
	found  string
	// For is how long questions are worth asking.
	For time.Duration
}

// Answer is what a target said of a key.
type Answer struct {
	// Yes: the target knows the key, so the effect happened. Everything else proves
	// nothing: a holder that was paused may still send (docs/invariants.md, I7).
	Yes  bool
	Body string // with a yes, what the target says of the effect
	Why  string // without one, for people
}

// NewVerifiers makes the verifiers of the tools that declare one, by name. Close each.
// They share sessions to MCP servers with each other, not with the runners.
func NewVerifiers(set *Set, cfg RunnerConfig) (map[string]*Verifier, error) {
	cfg.links, cfg.asks = &links{}, true
	out := map[string]*Verifier{}
	var errs []error
	for _, d := range set.All() {
		if d.Verify == nil {
			continue
		}
		q := &Declaration{Name: d.Name, Effect: effect.Read, Run: d.Verify.Run, Timeout: d.Verify.Timeout}
		r, err := NewRunner(q, cfg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[d.Name] = &Verifier{runner: r, found: d.Verify.Found, For: d.Verify.For}
	}
	if len(errs) == 0 {
		return out, nil
	}
	for _, v := range out {
		_ = v.Close() // nothing was asked
	}
	return nil, errors.Join(errs...)
}

// Ask asks once. The call's timeout is not the run's: the declaration's of the verify
// counts.
func (v *Verifier) Ask(ctx context.Context, c Call) Answer {
	c.Timeout, c.Progress = 0, nil
	r := v.runner.Run(ctx, c)
	if r.Outcome != effect.Succeeded {
		return Answer{Why: strings.TrimSpace(string(r.Outcome) + " " + r.ErrorClass + " " + r.Detail)}
	}
	if v.found != "" {
		at, ok := effect.Lookup(r.Body, v.found)
		if !ok || slices.Contains([]string{"false", "0"}, at) || effect.EmptyRows(r.Body, v.found) {
			return Answer{Why: "the answer has nothing at " + v.found}
		}
	}
	return Answer{Yes: true, Body: r.Body}
}

// Close frees what the verifier holds.
func (v *Verifier) Close() error {
	if c, ok := v.runner.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
