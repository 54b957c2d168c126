// Package openairesponses speaks OpenAI's Responses.
//
// Invariant: a reply counts as finished only if response.completed came, every call was
// closed with its whole argument text, every call has a name, and every argument text is
// exactly one JSON object (I4). The API tells a text several times, in pieces and then
// whole: what was said once is never said again, and a contradiction is a failure.
package openairesponses

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

// Name is the API's name in the configuration and on the log.
const Name = "openai-responses"

// API is the dialect.
type API struct{}

// Name is "openai-responses".
func (API) Name() string { return Name }

// NewDecoder makes the decoder of one response.
func (API) NewDecoder() provider.Decoder { return newDecoder() }

// Encode makes the request. Equal requests give equal bytes, and a longer conversation
// begins with the bytes of a shorter one, which is what prompt caches look for. Nothing
// is stored at the provider: the log has the conversation.
func (API) Encode(ep provider.Endpoint, req provider.Request) (*provider.Wire, error) {
	u, err := ep.Address("", "responses")
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	if ep.Key != "" {
		h.Set("Authorization", "Bearer "+ep.Key)
	}
	e := encoder{labels: provider.Labels{Fits: fits}}
	if err := e.request(req); err != nil {
		return nil, err
	}
	return &provider.Wire{Method: http.MethodPost, URL: u.String(), Header: h, Body: e.Out}, nil
}

// fits reports whether the API takes a call's id; a longer one is an error.
func fits(id string) bool { return len(id) <= 64 }

// reasons reports whether a model has reasoning to hand over. Others refuse to be asked
// for it, so a name that is not known to reason is not asked.
func reasons(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	if len(model) > 1 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9' || strings.HasPrefix(model, "codex") {
		return true
	}
	major, ok := strings.CutPrefix(model, "gpt-")
	return ok && major != "" && major[0] >= '5' && major[0] <= '9' && !strings.Contains(major, "chat")
}

type encoder struct {
	provider.Writer
	labels provider.Labels
}

func (e *encoder) request(req provider.Request) error {
	e.Raw(`{"model":`)
	e.Quote(req.Model)
	e.Raw(`,"stream":true,"store":false`)
	if req.MaxOutputTokens > 0 {
		e.Raw(`,"max_output_tokens":`, strconv.Itoa(req.MaxOutputTokens))
	}
	if err := e.tools(req); err != nil {
		return err
	}
	if req.System != "" {
		e.Raw(`,"instructions":`)
		e.Quote(req.System)
	}
	e.Raw(`,"input":[`)
	for _, m := range req.Messages {
		if err := e.message(m); err != nil {
			return err
		}
	}
	e.Raw("]}")
	return nil
}

// tools offers the tools and the choice. None are offered where none may be called: the
// API takes a history with calls all the same. A schema is strict unless that is denied,
// and a strict one must have a form that not every schema has.
func (e *encoder) tools(req provider.Request) error {
	choice, err := req.Choice()
	if err != nil || len(req.Tools) == 0 || choice == "none" {
		return err
	}
	// Reasoning matters between the steps of a turn, and only calls make more than one.
	if reasons(req.Model) {
		e.Raw(`,"include":["reasoning.encrypted_content"]`)
	}
	e.Raw(`,"tools":[`)
	for _, t := range req.Tools {
		schema, err := t.Schema()
		if err != nil {
			return err
		}
		if schema == "" {
			schema = `{"type":"object","properties":{}}`
		}
		e.Comma()
		e.Raw(`{"type":"function","name":`)
		e.Quote(t.Name)
		if t.Description != "" {
			e.Raw(`,"description":`)
			e.Quote(t.Description)
		}
		e.Raw(`,"parameters":`, schema, `,"strict":false}`)
	}
	e.Raw(`],"tool_choice":"`, choice, `"`)
	return nil
}

func (e *encoder) message(m provider.Message) error {
	switch m.Role {
	case "system", "user":
		e.text(m.Role, m.Text)
	case "assistant":
		e.reply(m.Parts)
	case "tool":
		for i, r := range m.Results {
			e.Comma()
			e.Raw(`{"type":"function_call_output","call_id":`)
			e.Quote(e.labels.Result(i, r.ID))
			e.Raw(`,"output":`)
			e.Quote(r.Text)
			e.Raw("}")
		}
	default:
		return fmt.Errorf("a message has the unknown role %q", m.Role)
	}
	return nil
}

func (e *encoder) text(role, text string) {
	e.Comma()
	e.Raw(`{"role":"`, role, `","content":`)
	e.Quote(text)
	e.Raw("}")
}

// reply writes the items of a reply, in their order. Items other than reasoning go
// without the ids that they had: those are optional, differ from event to event behind
// some gateways, and a call with one must have the very reasoning that it came with.
func (e *encoder) reply(parts []provider.Part) {
	e.labels.Reply()
	// The API refuses reasoning without the item that it led to.
	for n := len(parts); n > 0 && parts[n-1].Opaque != nil; n-- {
		parts = parts[:n-1]
	}
	for _, p := range parts {
		switch {
		case p.Call != nil:
			args := p.Call.Args
			if strings.Trim(args, " \t\r\n") == "" {
				args = "{}"
			}
			e.Comma()
			e.Raw(`{"type":"function_call","call_id":`)
			e.Quote(e.labels.Call(p.Call.ID))
			e.Raw(`,"name":`)
			e.Quote(p.Call.Name)
			e.Raw(`,"arguments":`)
			e.Quote(args)
			e.Raw("}")
		case p.Opaque == nil:
			if p.Text != "" {
				e.text("assistant", p.Text)
			}
		case p.Opaque.API == Name && jsontext.Value(p.Opaque.Data).IsValid():
			e.Comma()
			e.Raw(p.Opaque.Data)
		}
	}
}
