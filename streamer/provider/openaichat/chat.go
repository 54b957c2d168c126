// Package openaichat speaks OpenAI's Chat Completions, and what compatible servers
// make of it.
//
// Invariant: a reply counts as finished only if a known finish reason came, every call
// has a name, and every argument text is exactly one JSON object (I4). Servers differ in
// how they number, label and cut their pieces, never in that.
package openaichat

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

// Name is the API's name in the configuration and on the log.
const Name = "openai-chat"

// API is the dialect.
type API struct{}

// Name is "openai-chat".
func (API) Name() string { return Name }

// NewDecoder makes the decoder of one response.
func (API) NewDecoder() provider.Decoder { return newDecoder() }

// Encode makes the request. Equal requests give equal bytes, and a longer conversation
// begins with the bytes of a shorter one, which is what prompt caches look for.
func (API) Encode(ep provider.Endpoint, req provider.Request) (*provider.Wire, error) {
	u, err := url.Parse(ep.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the base URL is no http or https address") // it may hold a key: not named
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	if ep.Key != "" {
		h.Set("Authorization", "Bearer "+ep.Key)
	}
	e := encoder{used: map[string]bool{}}
	if err := e.request(req); err != nil {
		return nil, err
	}
	return &provider.Wire{Method: http.MethodPost, URL: u.JoinPath("chat", "completions").String(), Header: h, Body: e.out}, nil
}

type encoder struct {
	out  []byte
	used map[string]bool // call ids of this request
	// The calls that the next tool message answers: id as the provider gave it, and as
	// it goes back.
	calls []label
}

type label struct {
	was, is string
	done    bool
}

func (e *encoder) raw(s string) { e.out = append(e.out, s...) }

// quote never fails: what is no UTF-8 becomes U+FFFD.
func (e *encoder) quote(s string) { e.out, _ = jsontext.AppendQuote(e.out, s) }

func (e *encoder) request(req provider.Request) error {
	e.raw(`{"model":`)
	e.quote(req.Model)
	e.raw(`,"stream":true,"stream_options":{"include_usage":true}`)
	if req.MaxOutputTokens > 0 {
		e.raw(fmt.Sprintf(`,"max_tokens":%d`, req.MaxOutputTokens))
	}
	named, err := e.params(req)
	if err != nil {
		return err
	}
	if err := e.tools(req, named["tool_choice"]); err != nil {
		return err
	}
	e.raw(`,"messages":[`)
	first := true
	if req.System != "" {
		e.text("system", req.System)
		first = false
	}
	for _, m := range req.Messages {
		if m.Role == "tool" && len(m.Results) == 0 {
			continue
		}
		if !first {
			e.raw(",")
		}
		first = false
		switch m.Role {
		case "system", "user":
			e.text(m.Role, m.Text)
		case "assistant":
			e.assistant(m)
		case "tool":
			e.results(m.Results)
		default:
			return fmt.Errorf("a message has the unknown role %q", m.Role)
		}
	}
	e.raw("]}")
	return nil
}

// tools offers the tools and the choice. A choice without tools is an error to the API.
func (e *encoder) tools(req provider.Request, chosen bool) error {
	if len(req.Tools) == 0 || req.ToolChoice == "none" {
		// A history with calls needs no tools here, and a model that is offered none
		// cannot call one: some compatible servers do not heed the choice "none".
		return nil
	}
	e.raw(`,"tools":[`)
	for i, t := range req.Tools {
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"type":"function","function":{"name":`)
		e.quote(t.Name)
		if t.Description != "" {
			e.raw(`,"description":`)
			e.quote(t.Description)
		}
		schema := strings.TrimSpace(t.Parameters)
		if schema == "" {
			schema = `{"type":"object","properties":{}}`
		}
		if schema[0] != '{' || !jsontext.Value(schema).IsValid() {
			return fmt.Errorf("the parameters of tool %q are no JSON object", t.Name)
		}
		e.raw(`,"parameters":` + schema + `}}`)
	}
	e.raw("]")
	if chosen {
		return nil // by the client's own words
	}
	switch req.ToolChoice {
	case "", "auto", "required":
		e.raw(`,"tool_choice":`)
		if req.ToolChoice == "" {
			req.ToolChoice = "auto"
		}
		e.quote(req.ToolChoice)
		return nil
	}
	return fmt.Errorf("unknown tool choice %q", req.ToolChoice)
}

func (e *encoder) text(role, text string) {
	e.raw(`{"role":"` + role + `","content":`)
	e.quote(text)
	e.raw("}")
}

// assistant writes a reply. Content is null when only calls were made: some servers
// insist on the member, some on its not being empty.
func (e *encoder) assistant(m provider.Message) {
	var text strings.Builder
	var calls []*provider.Call
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			calls = append(calls, p.Call)
		case p.Opaque == nil: // this API has no opaque blocks; others' mean nothing to it
			text.WriteString(p.Text)
		}
	}
	e.raw(`{"role":"assistant","content":`)
	if text.Len() == 0 && len(calls) > 0 {
		e.raw("null")
	} else {
		e.quote(text.String())
	}
	e.calls = e.calls[:0]
	for i, c := range calls {
		e.raw([]string{`,"tool_calls":[`, ","}[min(i, 1)])
		e.call(c)
	}
	if len(calls) > 0 {
		e.raw("]")
	}
	e.raw("}")
}

func (e *encoder) call(c *provider.Call) {
	id := e.unique(c.ID)
	e.calls = append(e.calls, label{was: c.ID, is: id})
	args := c.Args
	if strings.Trim(args, " \t\r\n") == "" {
		args = "{}"
	}
	e.raw(`{"id":`)
	e.quote(id)
	e.raw(`,"type":"function","function":{"name":`)
	e.quote(c.Name)
	e.raw(`,"arguments":`)
	e.quote(args)
	e.raw("}")
	if jsontext.Value(c.Opaque).IsValid() && c.Opaque[0] == '{' {
		e.raw(`,"extra_content":` + c.Opaque)
	}
	e.raw("}")
}

// unique keeps the provider's id unless it is missing or taken: some providers give one
// id to several calls, or the same ids in each reply, and then refuse their own history
// (cases 18).
func (e *encoder) unique(id string) string {
	for n := 1; id == "" || e.used[id]; n++ {
		id = fmt.Sprintf("call_%d", len(e.used)+n)
	}
	e.used[id] = true
	return id
}

// results answers the calls of the message before, each by its own id.
func (e *encoder) results(rs []provider.Result) {
	for i, r := range rs {
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"role":"tool","tool_call_id":`)
		e.quote(e.answers(i, r.ID))
		e.raw(`,"content":`)
		e.quote(r.Text)
		e.raw("}")
	}
}

// answers finds the call of the i-th result: the one at its place, or else the first
// unanswered one of that id.
func (e *encoder) answers(i int, id string) string {
	if i < len(e.calls) && e.calls[i].was == id && !e.calls[i].done {
		e.calls[i].done = true
		return e.calls[i].is
	}
	for k := range e.calls {
		if e.calls[k].was == id && !e.calls[k].done {
			e.calls[k].done = true
			return e.calls[k].is
		}
	}
	return id
}
