package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// chatRequest is what the AI SDK's chat transports post.
type chatRequest struct {
	ID       string `json:"id"`
	Messages []struct {
		ID    string           `json:"id"`
		Role  string           `json:"role"`
		Parts []jsontext.Value `json:"parts"`
	} `json:"messages"`
	Trigger   string     `json:"trigger"`
	MessageID string     `json:"messageId"`
	Turnfold  ownMembers `json:"turnfold"`
}

// aiSDKView: hold is right for every version of the SDK, step for 7 and later.
func aiSDKView(r *http.Request) (view, error) {
	reset, err := holdAsked(r, "hold")
	if err != nil || reset == "snapshot" {
		return view{}, fault{http.StatusUnprocessableEntity, "reset", "must be hold or step"}
	}
	return view{enc: new(render.AISDK), hold: reset == "hold", compact: true, linger: savedWait,
		header: map[string]string{"X-Vercel-Ai-Ui-Message-Stream": "v1"}}, nil
}

// postChat answers the last message of a chat. Posting the same again attaches.
func (g *Gateway) postChat(w http.ResponseWriter, r *http.Request, tenant string) {
	began := time.Now()
	v, err := aiSDKView(r)
	var body chatRequest
	if err == nil {
		err = g.decode(w, r, &body)
	}
	var req turnRequest
	if err == nil {
		req, err = body.request()
	}
	if err == nil {
		t := subjects.Turn{Tenant: tenant, ID: req.Turn}
		g.recent.put(tenant+" chat "+body.ID, t.ID)
		err = g.serveTurn(w, r, t, req, v, began)
	}
	if err != nil {
		g.refuseFor(w, r, err)
	}
}

func chatPrefix(chat string) string { return "chat-" + digestOf(chat) + "-" }

// request makes a turn of a chat. Its id follows from the chat and what was said, so that
// a post that is repeated is no second turn; only an answer that is asked for anew is.
func (c chatRequest) request() (turnRequest, error) {
	if c.ID == "" {
		return turnRequest{}, fault{http.StatusUnprocessableEntity, "id", "names no chat"}
	}
	messages := []event.Message{}
	said := []string{c.Trigger, c.MessageID}
	for i, m := range c.Messages {
		field := fmt.Sprintf("messages[%d]", i)
		if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
			return turnRequest{}, fault{http.StatusUnprocessableEntity, field + ".role", "must be system, user or assistant"}
		}
		text, err := chatText(field, m.Role, m.Parts)
		if err != nil {
			return turnRequest{}, err
		}
		said = append(said, m.ID, m.Role, text)
		if text != "" {
			messages = append(messages, event.Message{Role: m.Role, Content: text})
		}
	}
	if n := len(messages); n > 0 && messages[n-1].Role == "assistant" {
		return turnRequest{}, fault{http.StatusUnprocessableEntity, "messages", "end with an answer; nothing is asked"}
	}
	if c.Trigger == "regenerate-message" {
		said = append(said, uuid.NewString())
	}
	return c.Turnfold.request(chatPrefix(c.ID)+digestOf(said...), messages)
}

// chatText joins the texts of a message. What an answer showed beside its text stays out:
// calls of earlier turns are no part of this one.
func chatText(field, role string, parts []jsontext.Value) (string, error) {
	var out strings.Builder
	for i, raw := range parts {
		var p struct{ Type, Text string }
		if err := unmarshalPart(raw, &p); err != nil {
			return "", fault{http.StatusUnprocessableEntity, fmt.Sprintf("%s.parts[%d]", field, i), "is no part"}
		}
		switch {
		case p.Type == "text":
			out.WriteString(p.Text)
		case role == "user" && !strings.HasPrefix(p.Type, "data-"):
			return "", fault{http.StatusUnprocessableEntity, fmt.Sprintf("%s.parts[%d]", field, i), fmt.Sprintf("is of type %q; only text can be sent", p.Type)}
		}
	}
	return out.String(), nil
}

// getChatStream takes a chat's running answer up again, from its start: the SDK replaces
// what it has. 204 says that there is none. ?turn= names the answer, also one that has
// ended meanwhile; without it, one that this server began not long ago is sent again to
// clients that know reset-step, because those replace it and earlier ones append it.
func (g *Gateway) getChatStream(w http.ResponseWriter, r *http.Request, tenant string) {
	v, err := aiSDKView(r)
	id := r.URL.Query().Get("turn")
	chat := r.PathValue("chat")
	if err == nil && id == "" {
		id, err = g.openChat(r, tenant, chat)
		if id == "" && !v.hold {
			id, _ = g.recent.get(tenant + " chat " + chat)
		}
	}
	switch {
	case err != nil:
		g.refuseFor(w, r, err)
		return
	case id == "":
		w.WriteHeader(http.StatusNoContent)
		return
	case !strings.HasPrefix(id, chatPrefix(chat)) || subjects.CheckID("turn", id) != nil:
		refuse(w, fault{http.StatusUnprocessableEntity, "turn", "is no turn of this chat"})
		return
	}
	t := subjects.Turn{Tenant: tenant, ID: id}
	known, err := g.known(r.Context(), t)
	if err == nil && !known {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err == nil {
		err = g.attach(w, r, t, v)
	}
	if err != nil {
		g.refuseFor(w, r, err)
	}
}

// openChat is the latest open turn of a chat, or empty.
func (g *Gateway) openChat(r *http.Request, tenant, chat string) (string, error) {
	open, err := g.openTurns(r.Context(), tenant)
	if err != nil {
		return "", err
	}
	found, at := "", ""
	for _, id := range open {
		if !strings.HasPrefix(id, chatPrefix(chat)) {
			continue
		}
		s, err := g.cfg.Turns.Load(r.Context(), subjects.Turn{Tenant: tenant, ID: id}, 0)
		if err != nil {
			return "", err
		}
		if s.Opened != nil && s.Opened.At >= at {
			found, at = id, s.Opened.At
		}
	}
	return found, nil
}
