package fold

import (
	"strconv"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Asked is one call as an attempt asked for it, whether the attempt won or not. It is
// for people who ask why two calls are one effect; nothing runs by it.
type Asked struct {
	Step       int    `json:"step"`
	Attempt    int    `json:"attempt"`
	Index      int    `json:"index"` // place in the attempt, 0-based
	ProviderID string `json:"provider_id,omitzero"`
	Tool       string `json:"tool,omitzero"`
	Args       string `json:"args"` // as it came, perhaps cut off; declared redactions are applied
	Whole      bool   `json:"whole"`
	// Call is the committed call's id; empty in an attempt that did not win.
	Call string `json:"call,omitzero"`
	// Key is the effect key: of an attempt that did not win, the one that the call would
	// have had. Empty if the arguments are no whole object, or no tool has the name.
	Key string `json:"key,omitzero"`
}

// Asked lists what every opened attempt asked for, in the order of steps, attempts and
// places.
func (s *State) Asked() []Asked {
	out := []Asked{}
	for i, st := range s.Steps {
		for _, a := range st.Attempts {
			if a.Started == nil {
				continue
			}
			if a.N == st.Committed {
				out = append(out, s.committed(st)...)
			} else {
				out = append(out, s.abandoned(i, a)...)
			}
		}
	}
	return out
}

func (s *State) committed(st *Step) []Asked {
	var out []Asked
	for _, c := range st.Calls {
		out = append(out, Asked{Step: st.N, Attempt: st.Committed, Index: c.Index, ProviderID: c.ProviderID, Tool: c.Tool,
			Args: s.redacted(c), Whole: true, Call: c.ID, Key: c.Key})
	}
	return out
}

// abandoned identifies an attempt's calls as if it had won: after the steps before it,
// and in a state of their own, so that the turn's stays as it is.
func (s *State) abandoned(step int, a *Attempt) []Asked {
	trial := &Step{N: step + 1}
	shadow := State{Turn: s.Turn, Opened: s.Opened, Steps: append(s.Steps[:step:step], trial)}
	f := &folder{State: &shadow}
	var out []Asked
	for i, sl := range a.slots {
		c := &Call{ID: strconv.Itoa(step+1) + "." + strconv.Itoa(i), Index: i, Tool: sl.name, Args: string(sl.args)}
		trial.Calls = append(trial.Calls, c)
		_, err := effect.Canonical(c.Args)
		t, known := s.tool(c.Tool)
		if err == nil && known {
			f.identify(c, t)
		}
		e := Asked{Step: step + 1, Attempt: a.N, Index: i, ProviderID: sl.id, Tool: sl.name, Whole: err == nil, Key: c.Key}
		switch {
		case known:
			e.Args = effect.Redact(c.Args, t.Redact)
		case s.redacts(): // whose arguments these are is not known, or not yet
			e.Args = effect.Redacted
		default:
			e.Args = c.Args
		}
		out = append(out, e)
	}
	return out
}

// redacts reports whether any tool of the turn declares what nobody is shown.
func (s *State) redacts() bool {
	for _, t := range s.Opened.Tools {
		if len(t.Redact) > 0 {
			return true
		}
	}
	return false
}
