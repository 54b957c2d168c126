package gateway

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// runInput is AG-UI's RunAgentInput.
type runInput struct {
	ThreadID       string           `json:"threadId"`
	RunID          string           `json:"runId"`
	Messages       []jsontext.Value `json:"messages"`
	ForwardedProps struct {
		Turnfold ownMembers `json:"turnfold"`
	} `json:"forwardedProps"`
}

func unmarshalPart(raw jsontext.Value, into any) error {
	return json.Unmarshal(raw, into, json.MatchCaseInsensitiveNames(true))
}

// postRun runs an agent: a turn that answers the thread. The same run posted again
// attaches, from the start.
func (g *Gateway) postRun(w http.ResponseWriter, r *http.Request, tenant string) {
	began := time.Now()
	reset, err := holdAsked(r, "snapshot")
	if err == nil && reset == "step" {
		err = fault{http.StatusUnprocessableEntity, "reset", "must be hold or snapshot"}
	}
	var body runInput
	if err == nil {
		err = g.decode(w, r, &body)
	}
	var req turnRequest
	if err == nil {
		req, err = body.request()
	}
	if err == nil {
		v := view{hold: reset == "hold", compact: true, linger: savedWait,
			enc: &render.AGUI{Thread: body.ThreadID, Run: body.RunID, History: body.Messages}}
		err = g.serveTurn(w, r, subjects.Turn{Tenant: tenant, ID: req.Turn}, req, v, began)
	}
	if err != nil {
		g.refuseFor(w, r, err)
	}
}

func (in runInput) request() (turnRequest, error) {
	if in.ThreadID == "" || in.RunID == "" {
		return turnRequest{}, fault{http.StatusUnprocessableEntity, "runId", "threadId and runId must be set"}
	}
	var messages []event.Message
	for i, raw := range in.Messages {
		var m struct {
			Role    string         `json:"role"`
			Content jsontext.Value `json:"content"`
		}
		field := fmt.Sprintf("messages[%d]", i)
		if json.Unmarshal(raw, &m) != nil {
			return turnRequest{}, fault{http.StatusUnprocessableEntity, field, "is no message"}
		}
		switch m.Role {
		case "developer":
			m.Role = "system"
		case "system", "user", "assistant":
		default:
			continue // calls and reasoning of earlier turns are no part of this one
		}
		text, err := plainText(field+".content", m.Content)
		if err != nil {
			return turnRequest{}, err
		}
		if text != "" {
			messages = append(messages, event.Message{Role: m.Role, Content: text})
		}
	}
	return in.ForwardedProps.Turnfold.request("run-"+digestOf(in.ThreadID, in.RunID), messages)
}
