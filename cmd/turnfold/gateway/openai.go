package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// refuseOpenAI answers with an error in the form that OpenAI's clients read.
func refuseOpenAI(w http.ResponseWriter, f fault) {
	status := f.status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest // the only word for it there
	}
	body, err := json.Marshal(render.OpenAIError(status, f.Error(), f.field, ""), json.Deterministic(true))
	if err != nil {
		body = []byte(`{"error":{"message":"internal error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}

// postCompletion answers a conversation. Its clients cannot take text back, so that each
// attempt is sent once it has won. With pass, the client's own tools are offered and
// their calls handed over; else turnfold offers and runs its own, and shows none.
func (g *Gateway) postCompletion(w http.ResponseWriter, r *http.Request, tenant string, pass bool) {
	began := time.Now()
	// Errors come after the turn has done what it has done: asking again is another turn,
	// and its calls other effects. The official clients heed this.
	w.Header().Set("X-Should-Retry", "false")
	body, err := g.readBody(w, r)
	var c completion
	if err == nil {
		c, err = parseCompletion(body)
	}
	var req turnRequest
	if err == nil {
		req, err = c.request(g, pass)
	}
	if err == nil {
		t := subjects.Turn{Tenant: tenant, ID: g.completionTurn(r, tenant, body)}
		req.Turn, req.named = t.ID, true
		v := view{hold: true, compact: true, linger: savedWait, whole: !c.Stream,
			enc: &render.OpenAI{Model: c.Model, Created: began.Unix(), Stream: c.Stream, Usage: c.StreamOptions.IncludeUsage}}
		err = g.serveTurn(w, r, t, req, v, began)
	}
	if err != nil {
		f := g.faultOf(r, err)
		if f.status == http.StatusServiceUnavailable {
			w.Header().Del("X-Should-Retry") // nothing has begun
		}
		refuseOpenAI(w, f)
	}
}

// completionTurn names the turn of a request: by the key that the client gives, or by the
// first try of what its library sends again by itself.
func (g *Gateway) completionTurn(r *http.Request, tenant string, body []byte) string {
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		return "cmpl-" + digestOf(key)
	}
	name := tenant + " completion " + digestOf(r.URL.Path, string(body))
	if retry, _ := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count")); retry > 0 {
		if turn, ok := g.recent.get(name); ok {
			return turn
		}
	}
	turn := "cmpl-" + uuid.NewString()
	g.recent.put(name, turn)
	return turn
}

// route finds the route that a model's name means: a route of that name, or the first
// one, by name, whose first entry asks that model.
func (g *Gateway) route(model string) (string, bool) {
	if model == "" || model == "turnfold" {
		model = routeDefault
	}
	if _, ok := g.cfg.Routes[model]; ok {
		return model, true
	}
	for _, name := range slices.Sorted(maps.Keys(g.cfg.Routes)) {
		if e := g.cfg.Routes[name]; len(e) > 0 && e[0].Model == model {
			return name, true
		}
	}
	return "", false
}

// getModels lists what a request may name as its model.
func (g *Gateway) getModels(w http.ResponseWriter, _ *http.Request, _ string) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := []model{}
	for _, name := range slices.Sorted(maps.Keys(g.cfg.Routes)) {
		list = append(list, model{name, "model", 0, "turnfold"})
	}
	g.answer(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", list})
}

// completion is the body of a request, as far as turnfold looks at it.
type completion struct {
	Model         string              `json:"model"`
	Messages      []completionMessage `json:"messages"`
	Stream        bool                `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools      []completionTool `json:"tools"`
	ToolChoice jsontext.Value   `json:"tool_choice"`
	N          int              `json:"n"`
	Turnfold   ownMembers       `json:"turnfold"`

	rest map[string]jsontext.Value // the members that have no name here
}

type completionMessage struct {
	Role       string           `json:"role"`
	Content    jsontext.Value   `json:"content"`
	ToolCalls  []completionCall `json:"tool_calls"`
	ToolCallID string           `json:"tool_call_id"`
}

type completionCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type completionTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
	} `json:"function"`
}

func parseCompletion(body []byte) (completion, error) {
	var c completion
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fault{http.StatusBadRequest, "", "The body is no request of chat completions: " + err.Error()}
	}
	if err := json.Unmarshal(body, &c.rest); err != nil {
		return c, fault{http.StatusBadRequest, "", "The body is no request of chat completions."}
	}
	for _, name := range []string{"model", "messages", "stream", "stream_options", "tools", "tool_choice", "n", "turnfold"} {
		delete(c.rest, name)
	}
	switch {
	case c.N > 1:
		return c, fault{http.StatusBadRequest, "n", "must be 1"}
	case len(c.Messages) == 0:
		return c, fault{http.StatusBadRequest, "messages", "is empty"}
	}
	return c, nil
}

func (c completion) request(g *Gateway, pass bool) (turnRequest, error) {
	route, ok := g.route(c.Model)
	if !ok {
		return turnRequest{}, fault{http.StatusNotFound, "model", fmt.Sprintf("The model %q is no route of this server and no model of one; GET /v1/models lists them.", c.Model)}
	}
	if !pass && len(c.Tools) > 0 {
		return turnRequest{}, fault{http.StatusBadRequest, "tools", "At this address turnfold offers its own tools. A client that runs its own uses the base URL /v1/passthrough."}
	}
	messages, err := c.messages(pass)
	if err != nil {
		return turnRequest{}, err
	}
	own := c.Turnfold
	own.Route = route
	req, err := own.request("", messages)
	if err != nil {
		return req, err
	}
	if pass {
		err = c.offer(&req)
	}
	if err == nil {
		err = c.params(g, &req, pass)
	}
	return req, err
}

func (c completion) messages(pass bool) ([]event.Message, error) {
	var out []event.Message
	for i, m := range c.Messages {
		field := fmt.Sprintf("messages[%d]", i)
		if m.Role == "developer" {
			m.Role = "system"
		}
		if (m.Role == "tool" || len(m.ToolCalls) > 0) && !pass {
			return nil, fault{http.StatusBadRequest, field, "A conversation with the client's calls is for the base URL /v1/passthrough."}
		}
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) {
			return nil, fault{http.StatusBadRequest, field + ".role", "must be system, developer, user, assistant or tool"}
		}
		text, err := plainText(field+".content", m.Content)
		if err != nil {
			return nil, err
		}
		e := event.Message{Role: m.Role, Content: text, CallID: m.ToolCallID}
		for k, call := range m.ToolCalls {
			if call.Type != "" && call.Type != "function" {
				return nil, fault{http.StatusBadRequest, fmt.Sprintf("%s.tool_calls[%d]", field, k), "is no call of a function"}
			}
			e.Calls = append(e.Calls, event.MessageCall{ID: call.ID, Name: call.Function.Name, Args: call.Function.Arguments})
		}
		if text != "" || m.Role == "tool" || len(e.Calls) > 0 {
			out = append(out, e)
		}
	}
	return out, nil
}
