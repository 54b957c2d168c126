package gemini

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

type encoder struct {
	provider.Writer
	strict bool
	ids    []string // of the calls that the next results answer; "" where none was given
}

func (e *encoder) request(req provider.Request) error {
	e.Raw("{")
	if req.MaxOutputTokens > 0 {
		e.Raw(`"generationConfig":{"maxOutputTokens":`, strconv.Itoa(req.MaxOutputTokens), "}")
	}
	if err := e.tools(req); err != nil {
		return err
	}
	if system := req.SystemText(); len(system) > 0 {
		e.Comma()
		e.Raw(`"systemInstruction":{"parts":[`)
		for _, text := range system {
			e.text(text)
		}
		e.Raw("]}")
	}
	e.Comma()
	e.Raw(`"contents":[`)
	for _, m := range req.Messages {
		if err := e.message(m); err != nil {
			return err
		}
	}
	e.Raw("]}")
	return nil
}

// tools offers the tools and the choice. None are offered where none may be called: the
// API takes a history with calls all the same, and its mode NONE means no more. The
// parameters go as the JSON Schema they are: the older member takes only a subset of it,
// and refuses the rest.
func (e *encoder) tools(req provider.Request) error {
	choice, err := req.Choice()
	if err != nil || len(req.Tools) == 0 || choice == "none" {
		return err
	}
	e.Comma()
	e.Raw(`"tools":[{"functionDeclarations":[`)
	for _, t := range req.Tools {
		schema, err := t.Schema()
		if err != nil {
			return err
		}
		e.Comma()
		e.Raw(`{"name":`)
		e.Quote(t.Name)
		if t.Description != "" {
			e.Raw(`,"description":`)
			e.Quote(t.Description)
		}
		if schema != "" {
			e.Raw(`,"parametersJsonSchema":`, schema)
		}
		e.Raw("}")
	}
	mode := map[string]string{"auto": "AUTO", "required": "ANY"}[choice]
	e.Raw(`]}],"toolConfig":{"functionCallingConfig":{"mode":"`, mode, `"}}`)
	return nil
}

// message writes a content. The API refuses one without parts, so that it is left out;
// system messages are elsewhere.
func (e *encoder) message(m provider.Message) error {
	role, mark := "user", len(e.Out)
	if m.Role == "assistant" {
		role = "model"
	}
	e.Comma()
	e.Raw(`{"role":"`, role, `","parts":[`)
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
			e.result(i, r)
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

func (e *encoder) text(text string) {
	if text == "" {
		return
	}
	e.Comma()
	e.Raw(`{"text":`)
	e.Quote(text)
	e.Raw("}")
}

func (e *encoder) reply(parts []provider.Part) error {
	e.ids = e.ids[:0]
	for i, p := range parts {
		switch {
		case p.Call != nil:
			if err := e.call(p.Call); err != nil {
				return err
			}
		case p.Opaque != nil:
			if p.Opaque.API == Name && jsontext.Value(p.Opaque.Data).IsValid() {
				e.Comma()
				e.Raw(p.Opaque.Data)
			}
		default:
			e.text(before(parts, i))
		}
	}
	return nil
}

// before is a text without the end that goes back in a signed part behind it: the log
// joins texts, and a signature counts only on its own one.
func before(parts []provider.Part, i int) string {
	text := parts[i].Text
	if i+1 < len(parts) && parts[i+1].Opaque != nil && parts[i+1].Opaque.API == Name {
		text = strings.TrimSuffix(text, signedText(parts[i+1].Opaque.Data))
	}
	return text
}

func (e *encoder) call(c *provider.Call) error {
	k := readKept(c.Opaque)
	e.Comma()
	e.Raw(`{"functionCall":{`)
	if k.id != "" {
		e.Raw(`"id":`, k.id)
	}
	e.Comma()
	e.Raw(`"name":`)
	e.Quote(c.Name)
	e.Raw(`,"args":`)
	if err := e.Arguments(c); err != nil {
		return err
	}
	e.Raw("}")
	switch {
	case k.signature != "":
		e.Raw(`,"thoughtSignature":`, k.signature)
	case !k.own && e.strict && len(e.ids) == 0:
		// Another API's call, after a failover. This word, from the API's own
		// documentation, stands for the signature that it cannot have.
		e.Raw(`,"thoughtSignature":"skip_thought_signature_validator"`)
	}
	e.Raw("}")
	e.ids = append(e.ids, k.id)
	return nil
}

// result answers the i-th call, by name, and by id only if the API gave one.
func (e *encoder) result(i int, r provider.Result) {
	e.Comma()
	e.Raw(`{"functionResponse":{`)
	if i < len(e.ids) && e.ids[i] != "" {
		e.Raw(`"id":`, e.ids[i])
	}
	e.Comma()
	e.Raw(`"name":`)
	e.Quote(r.Name)
	e.Raw(`,"response":`)
	switch {
	case r.Error:
		e.Raw(`{"error":`)
		e.Quote(r.Text)
		e.Raw("}")
	case exact(r.Text):
		e.Raw(r.Text)
	default:
		e.Raw(`{"output":`)
		e.Quote(r.Text)
		e.Raw("}")
	}
	e.Raw("}}")
}

// exact reports whether a result may go as the object it is: the API wants an object,
// but reads its numbers as doubles, so that a long one would reach the model rounded.
// Fifteen digits always survive.
func exact(text string) bool {
	if provider.CheckArguments(text) != nil || strings.TrimSpace(text) == "" {
		return false
	}
	s := provider.NewScan()
	s.Reset([]byte(text))
	return exactValue(s) && s.Err() == nil
}

func exactValue(s *provider.Scan) bool {
	ok := true
	switch s.Kind() {
	case '0':
		ok = len(s.Value()) <= 15
	case '{':
		for in := s.Open('{'); in && s.Member(); {
			ok = exactValue(s) && ok
		}
	case '[':
		for in := s.Open('['); in && s.Element(); {
			ok = exactValue(s) && ok
		}
	default:
		s.Skip()
	}
	return ok
}
