package gateway

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// callForm is what a call's id looks like: its step and its index there.
var callForm = regexp.MustCompile(`^[1-9][0-9]{0,8}\.[0-9]{1,9}$`)

// waiting reads the call that the address names, and the turn that it is of.
func (g *Gateway) waiting(r *http.Request, t subjects.Turn) (fold.State, fold.Approval, error) {
	id := r.PathValue("call")
	if !callForm.MatchString(id) {
		return fold.State{}, fold.Approval{}, fault{http.StatusBadRequest, "call", fmt.Sprintf("%q is no call; calls are named <step>.<index>", id)}
	}
	s, err := g.load(r.Context(), t)
	if err != nil {
		return s, fold.Approval{}, err
	}
	if s.Call(id) == nil {
		return s, fold.Approval{}, fault{http.StatusNotFound, "call", "No such call in this turn."}
	}
	a, ok := s.Approval(id)
	if !ok {
		return s, a, fault{http.StatusConflict, "call", "The call does not wait for an approval (any more)."}
	}
	return s, a, nil
}

// getApproval shows an approver what would run, redacting nothing: who decides must see
// what is decided (docs/effects.md, "Approval"). It has an address of its own, so that a
// proxy can keep it for approvers.
func (g *Gateway) getApproval(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	_, a, err := g.waiting(r, t)
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusOK, a)
}

func (g *Gateway) postApprove(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	g.decide(w, r, t, true, func(a action, c fold.Approval) event.Body {
		return &event.CallApproved{Call: c.Call, Digest: c.Digest, By: a.By, Reason: a.Reason}
	})
}

func (g *Gateway) postDeny(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	g.decide(w, r, t, false, func(a action, c fold.Approval) event.Body {
		return &event.CallDenied{Call: c.Call, By: a.By, Reason: a.Reason}
	})
}

// decide checks that a call waits for a person, and that it is the one that the person
// saw. To refuse a call nobody needs to have seen it.
func (g *Gateway) decide(w http.ResponseWriter, r *http.Request, t subjects.Turn, mustSee bool, body func(action, fold.Approval) event.Body) {
	a, err := g.readAction(w, r, true)
	var c fold.Approval
	if err == nil {
		_, c, err = g.waiting(r, t)
	}
	if err == nil {
		err = a.sees(c, mustSee)
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.act(w, r, t, body(a, c))
}

// sees says whether the person has seen the arguments that would run.
func (a action) sees(c fold.Approval, must bool) error {
	if a.saw {
		if a.Digest == "" {
			a.Digest = fold.ArgsDigest(a.Args)
		} else if a.Digest != fold.ArgsDigest(a.Args) {
			return fault{http.StatusUnprocessableEntity, "digest", "is not that of args; send one of them"}
		}
	}
	switch {
	case a.Digest == "" && must:
		return fault{http.StatusUnprocessableEntity, "digest",
			"is missing; send the digest of the arguments that you were shown, so that nothing else is approved"}
	case a.Digest != "" && a.Digest != c.Digest:
		return fault{http.StatusConflict, "digest", "The call has other arguments than those that were shown."}
	}
	return nil
}
