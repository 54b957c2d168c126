package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects/event"
)

// bookkeeping are members that concern the provider's books or the connection, not the
// answer. They are not passed on.
var bookkeeping = []string{"user", "store", "metadata", "safety_identifier", "prompt_cache_key", "service_tier"}

// offer makes the request's tools the turn's: the client runs them.
func (c completion) offer(req *turnRequest) error {
	req.Client, req.Tools = true, nil
	for i, t := range c.Tools {
		if t.Type != "function" || t.Function.Name == "" {
			return fault{http.StatusBadRequest, fmt.Sprintf("tools[%d]", i), "is no function"}
		}
		req.ClientTools = append(req.ClientTools, event.Tool{Name: t.Function.Name, Description: t.Function.Description,
			Parameters: string(t.Function.Parameters), Effect: "client"})
	}
	if c.ToolChoice.Kind() != '"' {
		return nil
	}
	if err := json.Unmarshal(c.ToolChoice, &req.ToolChoice); err != nil || !slices.Contains([]string{"auto", "none", "required"}, req.ToolChoice) {
		return fault{http.StatusBadRequest, "tool_choice", "must be auto, none, required or a function"}
	}
	return nil
}

// params keeps what else the request asks of the model, for providers that speak the same
// protocol. Strict: a member that could not be passed on is refused.
func (c completion) params(g *Gateway, req *turnRequest, strict bool) error {
	params := c.rest
	for _, name := range bookkeeping {
		delete(params, name)
	}
	if kind := c.ToolChoice.Kind(); strict && kind == '{' {
		params["tool_choice"] = c.ToolChoice
	}
	if len(params) == 0 {
		return nil
	}
	for _, e := range g.cfg.Routes[req.Route] {
		if e.API == "openai-chat" {
			continue
		}
		if !strict {
			return nil
		}
		names := slices.Sorted(maps.Keys(params))
		return fault{http.StatusBadRequest, names[0], fmt.Sprintf("cannot be passed on: the route %s may ask %s, which speaks %s.", req.Route, e.Provider, e.API)}
	}
	req.OwnLimit = params["max_tokens"] != nil || params["max_completion_tokens"] != nil
	raw, err := json.Marshal(params, json.Deterministic(true))
	req.Params = string(raw)
	return err
}
