// Package anthropic speaks Anthropic's Messages.
//
// Invariant: a reply counts as finished only if message_stop came after a known stop
// reason, every block was closed, every call has a name, and every argument text is
// exactly one JSON object (I4). A thinking block goes back only if it came whole, with
// its signature, and then in the same bytes each time: half a block makes every later
// request an error.
package anthropic

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

// Name is the API's name in the configuration and on the log.
const Name = "anthropic-messages"

// version is the API's version that this package was written for.
const version = "2023-06-01"

// maxTokens is sent when no output limit is set: the API insists on one. 4096 is what
// its oldest models allow.
const maxTokens = 4096

// API is the dialect.
type API struct{}

// Name is "anthropic-messages".
func (API) Name() string { return Name }

// NewDecoder makes the decoder of one response.
func (API) NewDecoder() provider.Decoder { return newDecoder() }

// Encode makes the request. Equal requests give equal bytes, and a longer conversation
// begins with the bytes of a shorter one, which is what prompt caches look for.
func (API) Encode(ep provider.Endpoint, req provider.Request) (*provider.Wire, error) {
	u, err := ep.Address("v1", "messages")
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Anthropic-Version": {version}}
	if ep.Key != "" {
		h.Set("X-Api-Key", ep.Key)
	}
	e := encoder{labels: provider.Labels{Fits: fits}}
	if err := e.request(req); err != nil {
		return nil, err
	}
	return &provider.Wire{Method: http.MethodPost, URL: u.String(), Header: h, Body: e.Out}, nil
}

// fits reports whether the API takes a call's id. Other APIs' ids may have other forms.
func fits(id string) bool {
	for _, c := range []byte(id) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

type encoder struct {
	provider.Writer
	labels provider.Labels
}

func (e *encoder) request(req provider.Request) error {
	limit := req.MaxOutputTokens
	if limit <= 0 {
		limit = maxTokens
	}
	e.Raw(`{"model":`)
	e.Quote(req.Model)
	e.Raw(`,"stream":true,"max_tokens":`, strconv.Itoa(limit))
	if err := e.tools(req); err != nil {
		return err
	}
	if system := req.SystemText(); len(system) > 0 {
		e.Raw(`,"system":[`)
		for _, text := range system {
			e.text(text)
		}
		e.Raw("]")
	}
	e.Raw(`,"messages":[`)
	for _, m := range req.Messages {
		if err := e.message(m); err != nil {
			return err
		}
	}
	e.Raw("]}")
	return nil
}

// tools offers the tools and the choice. The API refuses a history with calls when no
// tools are declared, so that a last request, which shall call none, declares by name
// what was called, and forbids it.
func (e *encoder) tools(req provider.Request) error {
	choice, err := req.Choice()
	if err != nil {
		return err
	}
	tools := req.Tools
	if len(tools) == 0 {
		if tools = called(req.Messages); len(tools) == 0 {
			return nil
		}
		choice = "none"
	}
	e.Raw(`,"tools":[`)
	for _, t := range tools {
		schema, err := t.Schema()
		if err != nil {
			return err
		}
		if schema == "" {
			schema = `{"type":"object","properties":{}}`
		}
		e.Comma()
		e.Raw(`{"name":`)
		e.Quote(t.Name)
		if t.Description != "" {
			e.Raw(`,"description":`)
			e.Quote(t.Description)
		}
		e.Raw(`,"input_schema":`, schema, "}")
	}
	e.Raw(`],"tool_choice":{"type":"`, map[string]string{"auto": "auto", "none": "none", "required": "any"}[choice], `"}`)
	return nil
}

// called lists the tools that the history calls, in order, each once.
func called(messages []provider.Message) []provider.Tool {
	var out []provider.Tool
	seen := map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Call != nil && !seen[p.Call.Name] {
				seen[p.Call.Name] = true
				out = append(out, provider.Tool{Name: p.Call.Name})
			}
		}
	}
	return out
}

// message writes a message. The API refuses one without content, so that it is left
// out; system messages are elsewhere.
func (e *encoder) message(m provider.Message) error {
	role, mark := "user", len(e.Out)
	if m.Role == "assistant" {
		role = m.Role
	}
	if mark > 0 {
		e.Comma()
	}
	e.Raw(`{"role":"`, role, `","content":[`)
	empty := len(e.Out)
	switch m.Role {
	case "system":
	case "user":
		e.text(m.Text)
	case "assistant":
		if err := e.reply(m.Parts); err != nil {
			return err
		}
	case "tool":
		for i, r := range m.Results {
			e.result(e.labels.Result(i, r.ID), r)
		}
	default:
		return fmt.Errorf("a message has the unknown role %q", m.Role)
	}
	if len(e.Out) == empty {
		e.Out = e.Out[:mark]
		return nil
	}
	e.Raw("]}")
	return nil
}

// text writes a text block, unless the API would refuse it for having none.
func (e *encoder) text(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	e.Comma()
	e.Raw(`{"type":"text","text":`)
	e.Quote(text)
	e.Raw("}")
}

func (e *encoder) reply(parts []provider.Part) error {
	e.labels.Reply()
	// Thinking must not be the last block of a message; there it has nothing to explain.
	for n := len(parts); n > 0 && parts[n-1].Opaque != nil; n-- {
		parts = parts[:n-1]
	}
	for _, p := range parts {
		switch {
		case p.Call != nil:
			e.Comma()
			e.Raw(`{"type":"tool_use","id":`)
			e.Quote(e.labels.Call(p.Call.ID))
			e.Raw(`,"name":`)
			e.Quote(p.Call.Name)
			e.Raw(`,"input":`)
			if err := e.Arguments(p.Call); err != nil {
				return err
			}
			e.Raw("}")
		case p.Opaque == nil:
			e.text(p.Text)
		case p.Opaque.API == Name && jsontext.Value(p.Opaque.Data).IsValid():
			e.Comma()
			e.Raw(p.Opaque.Data)
		}
	}
	return nil
}

func (e *encoder) result(id string, r provider.Result) {
	e.Comma()
	e.Raw(`{"type":"tool_result","tool_use_id":`)
	e.Quote(id)
	if r.Text != "" {
		e.Raw(`,"content":`)
		e.Quote(r.Text)
	}
	if r.Error {
		e.Raw(`,"is_error":true`)
	}
	e.Raw("}")
}
