package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// publishTries is how often an action is appended whose storing is unclear. A fact
// that is stored twice does no harm: the fold takes the first.
const publishTries = 3

// action is the body of everything that a person does to a turn.
type action struct {
	By, Reason string
	// Digest names the arguments that the person saw, or Args repeats them.
	Digest, Args string
	saw          bool // Args was given
}

func (g *Gateway) readAction(w http.ResponseWriter, r *http.Request, decides bool) (action, error) {
	var a action
	body, err := g.readBody(w, r)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return a, err // nobody has to say anything
	}
	err = members(body, func(d *jsontext.Decoder, name string) error {
		switch {
		case name == "by":
			return text(d, name, &a.By)
		case name == "reason":
			return text(d, name, &a.Reason)
		case name == "digest" && decides:
			return text(d, name, &a.Digest)
		case name == "args" && decides:
			a.saw = true
			return text(d, name, &a.Args)
		}
		return unknown("", name)
	})
	return a, err
}

// postCancel asks for the turn's end. What may have begun is still waited for, so the
// answer says that it was accepted, not that it is over.
func (g *Gateway) postCancel(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	a, err := g.readAction(w, r, false)
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	s, err := g.load(r.Context(), t)
	switch {
	case err != nil:
		g.refuseFor(w, r, err)
		return
	case s.Over():
		refuse(w, fault{http.StatusConflict, "turn", fmt.Sprintf("The turn has ended already (%s).", s.Finish)})
		return
	case s.Status == fold.Ending:
		g.answer(w, http.StatusAccepted, s.View())
		return
	}
	g.act(w, r, t, &event.TurnCancelled{By: a.By, Reason: a.Reason})
}

// act appends a fact and answers with the state in which it is.
func (g *Gateway) act(w http.ResponseWriter, r *http.Request, t subjects.Turn, body event.Body) {
	err := g.publish(r.Context(), t, body)
	var s fold.State
	if err == nil {
		s, err = g.load(r.Context(), t)
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusAccepted, s.View())
}

func (g *Gateway) publish(ctx context.Context, t subjects.Turn, body event.Body) error {
	data, err := event.Encode(body)
	if err != nil {
		return err
	}
	subject := subjects.Events(t.Partition(g.cfg.Partitions), t)
	for range publishTries {
		if _, err = g.cfg.Conn.Publish(ctx, subject, nil, data); !errors.Is(err, jet.ErrUnclear) {
			return err
		}
	}
	return err
}
