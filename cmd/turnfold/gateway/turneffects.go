package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
)

// turnEffects is the answer of GET /v1/turns/{turn}/effects: what each attempt asked
// for, which effects that came to, and what is known of each.
type turnEffects struct {
	Turn  string       `json:"turn"`
	Tools []toolView   `json:"tools"` // as pinned in the turn; those that were asked for
	Asked []fold.Asked `json:"asked"`
	// Effects are those of committed calls, in the order of their first calls. One that
	// has no facts yet has no claims.
	Effects []turnEffect     `json:"effects"`
	Loops   []fold.LoopCount `json:"loops"`
	// Calls and CallsMost are the turn's committed calls and their budget.
	Calls     int `json:"calls"`
	CallsMost int `json:"calls_most"`
}

// toolView is what a declaration says of its effects.
type toolView struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	Effect      string   `json:"effect"`
	IdentityAll bool     `json:"identity_all"`
	Identity    []string `json:"identity"` // members that name the effect; the rest is decoration
	Repeat      string   `json:"repeat"`
	Cap         int      `json:"cap"`
	TimeoutMS   int64    `json:"timeout_ms"`
	Approval    string   `json:"approval,omitzero"`
	Scope       string   `json:"scope,omitzero"`
	Redact      []string `json:"redact,omitzero"`
}

type turnEffect struct {
	Tool       string   `json:"tool"`
	Calls      []string `json:"calls"`
	effectView `json:",inline"`
}

func (g *Gateway) getTurnEffects(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	s, err := g.load(r.Context(), t)
	var out turnEffects
	if err == nil {
		out, err = g.effectsOf(r.Context(), &s)
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusOK, out)
}

func (g *Gateway) effectsOf(ctx context.Context, s *fold.State) (turnEffects, error) {
	out := turnEffects{Turn: s.Turn.ID, Tools: []toolView{}, Asked: s.Asked(), Effects: []turnEffect{}, Loops: s.LoopCounts(),
		CallsMost: s.Opened.Policy.CallsPerTurn}
	asked := func(name string) bool {
		return slices.ContainsFunc(out.Asked, func(a fold.Asked) bool { return a.Tool == name })
	}
	for _, t := range s.Opened.Tools {
		if asked(t.Name) {
			out.Tools = append(out.Tools, toolView{Name: t.Name, Description: t.Description, Effect: t.Effect,
				IdentityAll: t.IdentityAll || len(t.Identity) == 0, Identity: append([]string{}, t.Identity...), Repeat: t.Repeat,
				Cap: t.Cap, TimeoutMS: t.TimeoutMS, Approval: t.Approval, Scope: t.Scope, Redact: t.Redact})
		}
	}
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			out.Calls++
			at := slices.IndexFunc(out.Effects, func(e turnEffect) bool { return e.Key == c.Key })
			if c.Key != "" && at >= 0 {
				out.Effects[at].Calls = append(out.Effects[at].Calls, c.ID)
				continue
			}
			e := turnEffect{Tool: c.Tool, Calls: []string{c.ID}, effectView: emptyEffect(c.Key)}
			if c.Key != "" {
				view, _, err := g.effectOf(ctx, s.Turn.Tenant, c.Key)
				if err != nil {
					return out, err
				}
				e.effectView = view
			}
			out.Effects = append(out.Effects, e)
		}
	}
	return out, nil
}
