package gateway

import (
	"net/http"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// effectList is the answer of GET /v1/effects?outcome=unknown.
type effectList struct {
	Effects []effectEntry `json:"effects"`
}

type effectEntry struct {
	Turn       string        `json:"turn"`
	Call       string        `json:"call"`
	Tool       string        `json:"tool"`
	Key        string        `json:"key"`
	Outcome    event.Outcome `json:"outcome"`
	ErrorClass string        `json:"error_class,omitzero"`
}

// listEffects lists the calls of a tenant whose outcome is unknown: those of ended turns
// from the list that owners keep, those of open turns from the turns themselves. Each
// is looked up in its turn, which is always right.
func (g *Gateway) listEffects(w http.ResponseWriter, r *http.Request, tenant string) {
	if r.URL.Query().Get("outcome") != string(event.OutcomeUnknown) {
		refuse(w, fault{http.StatusUnprocessableEntity, "outcome", "must be unknown; other effects are listed by their turns"})
		return
	}
	ctx := r.Context()
	list, err := g.cfg.Turns.Unknown(ctx, tenant, "")
	if err == nil {
		var open []subjects.Turn
		open, err = g.cfg.Turns.Open(ctx, -1)
		list = append(list, open...)
	}
	out := effectList{Effects: []effectEntry{}}
	seen := map[subjects.Turn]bool{}
	for _, t := range list {
		if err != nil || seen[t] || t.Tenant != tenant {
			continue
		}
		seen[t] = true
		s, lerr := g.cfg.Turns.Load(ctx, t, 0)
		err = lerr
		for _, st := range s.Steps {
			for _, c := range st.Calls {
				if c.Outcome == event.OutcomeUnknown {
					out.Effects = append(out.Effects, effectEntry{t.ID, c.ID, c.Tool, c.Key, c.Outcome, c.ErrorClass})
				}
			}
		}
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusOK, out)
}
