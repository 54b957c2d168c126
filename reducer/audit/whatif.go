package audit

import (
	"context"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// Settings are what a turn might have been opened with instead. What is nil stays as
// it was.
type Settings struct {
	AttemptsPerStep, AttemptsPerTurn *int
	BackoffBaseMS, BackoffMaxMS      *int64
	AfterText                        *string
	CallsPerTurn                     *int
	TokensPerTurn                    *int64
	Entries                          []event.Entry
	Caps                             map[string]int // by tool; "*" is every other
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// opened is a turn's opening under the settings.
func (s Settings) opened(b event.TurnOpened) *event.TurnOpened {
	set(&b.Policy.AttemptsPerStep, s.AttemptsPerStep)
	set(&b.Policy.AttemptsPerTurn, s.AttemptsPerTurn)
	set(&b.Policy.BackoffBaseMS, s.BackoffBaseMS)
	set(&b.Policy.BackoffMaxMS, s.BackoffMaxMS)
	set(&b.Policy.AfterText, s.AfterText)
	set(&b.Policy.CallsPerTurn, s.CallsPerTurn)
	set(&b.Policy.TokensPerTurn, s.TokensPerTurn)
	if len(s.Entries) > 0 {
		b.Entries = s.Entries
	}
	tools := make([]event.Tool, len(b.Tools))
	for i, t := range b.Tools {
		if n, ok := s.Caps["*"]; ok {
			t.Cap = n
		}
		if n, ok := s.Caps[t.Name]; ok {
			t.Cap = n
		}
		tools[i] = t
	}
	b.Tools = tools
	return &b
}

// Effort is what turns took.
type Effort struct {
	Attempts     int64 `json:"attempts"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	WaitMS       int64 `json:"wait_ms"` // backoff before attempts
	Calls        int64 `json:"calls"`   // commanded
	Salvaged     int64 `json:"salvaged"`
	Failed       int64 `json:"failed"`
}

// Comparison is history beside what it would have been. Only what the record holds can
// be compared: where the settings ask for more than happened (another attempt, say),
// the turn counts as open, and nobody knows how it would have ended.
type Comparison struct {
	Turns   int64  `json:"turns"`
	Differ  int64  `json:"differ"` // turns that end otherwise, or take another effort
	Open    int64  `json:"open"`   // turns that would have gone on, to an end that nobody knows
	Was     Effort `json:"was"`
	Would   Effort `json:"would"`
	Stopped int64  `json:"calls_stopped"` // calls that ran, and would not have run
	// Differing lists the turns that differ, as far as they were asked for.
	Differing []Difference `json:"differing,omitzero"`
}

// Difference is one turn that would have been otherwise.
type Difference struct {
	Turn   string `json:"turn"`
	Finish string `json:"finish"`
	Would  string `json:"would"` // open, if it would have gone on
}

// WhatIf folds recorded turns under other settings.
func WhatIf(ctx context.Context, src Source, s Settings, list int, progress func(events, turns uint64)) (Comparison, error) {
	var c Comparison
	r := Replay{Progress: progress, keep: true, Turn: func(x *Replayed) error {
		if !x.State.Over() {
			return nil // it is still open: there is nothing to compare with
		}
		c.add(x, s, list)
		return nil
	}}
	err := r.Run(ctx, src)
	return c, err
}

func (c *Comparison) add(x *Replayed, s Settings, list int) {
	was, wasCalls, _ := effort(x, nil)
	would, wouldCalls, state := effort(x, &s)
	c.Turns++
	c.Was.plus(was)
	c.Would.plus(would)
	for call := range wasCalls {
		if !wouldCalls[call] {
			c.Stopped++
		}
	}
	finish := state.Finish
	if !state.Over() {
		finish = "open"
		c.Open++
	}
	if finish == x.State.Finish && would == was {
		return
	}
	c.Differ++
	if len(c.Differing) < list {
		c.Differing = append(c.Differing, Difference{x.State.Turn.String(), x.State.Finish, finish})
	}
}

func (e *Effort) plus(o Effort) {
	e.Attempts += o.Attempts
	e.InputTokens += o.InputTokens
	e.OutputTokens += o.OutputTokens
	e.WaitMS += o.WaitMS
	e.Calls += o.Calls
	e.Salvaged += o.Salvaged
	e.Failed += o.Failed
}

// effort folds a turn's events, under other settings if there are any.
func effort(x *Replayed, s *Settings) (Effort, map[string]bool, fold.State) {
	state := fold.State{Turn: x.State.Turn}
	var e Effort
	calls := map[string]bool{}
	for _, ev := range x.events {
		if b, opens := ev.Body.(*event.TurnOpened); opens && s != nil {
			ev.Body = s.opened(*b)
		}
		next, outputs, _ := fold.Guarded(state, ev)
		state = next
		for _, o := range outputs {
			switch b := o.Body.(type) {
			case *feed.StepCommand:
				e.WaitMS += b.DelayMS
			case *feed.CallCommand:
				calls[b.Call] = true
			}
		}
	}
	v := state.View()
	for _, st := range v.Steps {
		for _, a := range st.Attempts {
			if !a.Unsent {
				e.Attempts++
			}
		}
	}
	e.InputTokens, e.OutputTokens, e.Calls = v.Usage.Input, v.Usage.Output, int64(len(calls))
	if state.Salvaged {
		e.Salvaged++
	}
	if state.Status == fold.Failed {
		e.Failed++
	}
	return e, calls, state
}
