package openaichat

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

type decoder struct {
	scan    *provider.Scan
	chunk   chunk
	scratch []byte

	slots           []slot
	text, reasoning provider.Joiner
	hasText         bool
	refused         bool
	finish          string // the provider's word; empty before it
	usage           event.Usage
	hasUsage        bool
	failed          *event.AttemptFailed // by the stream's own word
}

func newDecoder() *decoder { return &decoder{scan: provider.NewScan()} }

// Trailing reports whether only usage is awaited.
func (d *decoder) Trailing() bool { return d.finish != "" && d.failed == nil }

// Event takes one chunk. Usually an event is one JSON object. Servers that forget the
// blank line between events send several, some wrap errors in an array, and some send
// keep-alives as data, which begin with no brace.
func (d *decoder) Event(name string, data []byte, emit func(event.Body) error) (bool, error) {
	data = bytes.TrimSpace(data)
	if name == "error" && d.finish == "" { // gateways name it so, with or without JSON
		d.fault(data)
		return true, nil
	}
	// [DONE] ends the stream but proves nothing: it also follows an error.
	rest, last := bytes.CutSuffix(data, []byte("[DONE]"))
	if last = last && (len(rest) == 0 || rest[len(rest)-1] == '\n'); last {
		data = rest
	}
	if len(data) == 0 || data[0] != '{' && data[0] != '[' {
		return last, nil
	}
	d.scan.Reset(data)
	for d.scan.Kind() != 0 {
		d.chunk.reset()
		if d.scan.Kind() == '[' {
			for ok := d.scan.Open('['); ok && d.scan.Element(); {
				d.chunk.read(d.scan)
			}
		} else {
			d.chunk.read(d.scan)
		}
		if d.scan.Err() != nil {
			break // nothing of a broken chunk counts
		}
		if err := d.apply(emit); err != nil || d.failed != nil {
			return true, err
		}
	}
	if d.scan.Err() != nil && d.finish == "" {
		// A piece of the reply is lost, so that it cannot be whole.
		d.failed = &event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "an event of the stream is not valid JSON"}
		return true, nil
	}
	return last, nil
}

// apply takes what the chunk says. After the finish only usage counts: servers send a
// second finish, empty calls, even an error about their own accounting, and the reply
// is whole already.
func (d *decoder) apply(emit func(event.Body) error) error {
	c := &d.chunk
	if c.hasUsage {
		d.usage, d.hasUsage = c.usage, true
	}
	if d.finish != "" {
		return nil
	}
	if c.fault != nil {
		d.fault(c.fault)
		return nil
	}
	for i := range c.pieces {
		if err := d.piece(&c.pieces[i], emit); err != nil {
			return err
		}
	}
	if c.finish == nil {
		return nil
	}
	var word provider.Joiner
	d.finish = word.Next(d.unquote(c.finish)) + word.Flush()
	if t := d.reasoning.Flush(); t != "" {
		if err := emit(&event.ReasoningDelta{Text: t}); err != nil {
			return err
		}
	}
	if t := d.text.Flush(); t != "" {
		return emit(&event.TextDelta{Text: t})
	}
	return nil
}

// fault ends the attempt by the provider's own word.
func (d *decoder) fault(payload []byte) {
	d.failed = said(payload).failed(0)
	d.failed.Detail = provider.OneLine("the stream reports an error: "+d.failed.Detail, 300)
}

func (d *decoder) piece(p *piece, emit func(event.Body) error) error {
	switch p.kind {
	case callPiece:
		return d.call(&p.entry, emit)
	case reasoningPiece:
		if t := d.reasoning.Next(d.unquote(p.text)); t != "" {
			return emit(&event.ReasoningDelta{Text: t})
		}
		return nil
	case refusalPiece:
		d.refused = true
	}
	d.hasText = true
	if t := d.text.Next(d.unquote(p.text)); t != "" {
		return emit(&event.TextDelta{Text: t})
	}
	return nil
}

func (d *decoder) call(e *entry, emit func(event.Body) error) error {
	id, name := d.label(e.id), d.label(e.name)
	before := len(d.slots)
	at := d.place(e, id, name)
	if at < 0 {
		return nil
	}
	opened := at == before // said in any case, so that places have no gaps
	s := &d.slots[at]
	out := event.CallDelta{Index: at}
	if s.id == "" && id != "" {
		s.id, out.ID = id, id
	}
	if s.name == "" && name != "" {
		s.name, out.Name = name, name
	}
	if e.extra != nil && !s.extra {
		var j provider.Joiner
		out.Opaque, s.extra = j.Next(e.extra)+j.Flush(), true
	}
	if len(e.args) > 0 {
		raw := e.args
		if raw[0] == '"' {
			raw = d.unquote(raw)
		}
		out.Args = s.text.Next(raw)
		s.args = append(s.args, out.Args...)
	}
	if !opened && out == (event.CallDelta{Index: at}) {
		return nil // labels repeated
	}
	return emit(&out)
}

// label reads an id or a name. They are short, and mostly missing.
func (d *decoder) label(quoted []byte) string {
	if quoted == nil {
		return ""
	}
	var j provider.Joiner
	s := j.Next(d.unquote(quoted)) + j.Flush()
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return s
}

// unquote gives a string's content, valid until the next call.
func (d *decoder) unquote(quoted []byte) []byte {
	d.scratch = provider.Unquote(d.scratch[:0], quoted)
	return d.scratch
}

// End gives the verdict.
func (d *decoder) End(broken error) event.Body {
	usage := d.usage
	usage.Partial = d.finish == "" || !d.hasUsage
	f := d.failed
	if f == nil && d.finish == "" {
		f = provider.Failed(broken)
	}
	if f == nil {
		f = d.judge()
	}
	if f == nil {
		return &event.AttemptFinished{Finish: d.finish, Usage: usage}
	}
	f.Usage = usage
	return f
}

// judge decides about a reply with a finish: by its content, since the word lies in
// both directions (cases 07, 08, 11). Nil means finished.
func (d *decoder) judge() *event.AttemptFailed {
	switch d.finish {
	case "stop", "tool_calls", "function_call":
	case "length", "max_tokens", "model_length": // the latter two: Mistral and others
		// Not retryable as it is; Length tells that a larger budget may do.
		return &event.AttemptFailed{Class: event.Truncated, Length: true, Detail: "cut by the output limit"}
	case "content_filter":
		return &event.AttemptFailed{Class: event.Filtered, Detail: "the provider's content filter ended the reply"}
	case "insufficient_system_resource": // DeepSeek
		return &event.AttemptFailed{Class: event.Overloaded, Retryable: true, Detail: "the provider ran out of resources"}
	case "error":
		return &event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "the provider ended the reply with an error"}
	default:
		if strings.HasPrefix(d.finish, "function_call_filter") { // Gemini's compatible endpoint
			return malformed("the provider dropped a call: " + provider.OneLine(d.finish, 80))
		}
		// An unknown word proves neither a whole reply nor a useless request, so
		// another attempt, which the turn's budget bounds, may end otherwise.
		return &event.AttemptFailed{Class: event.UnknownFinish, Retryable: true,
			Detail: "unknown finish reason " + provider.OneLine(d.finish, 80)}
	}
	for i := range d.slots {
		s := &d.slots[i]
		if s.name == "" {
			return malformed(fmt.Sprintf("call %d has no name", i))
		}
		s.text.Flush() // half a character at the end is damage
		if s.text.Damaged || provider.CheckArguments(string(s.args)) != nil {
			return malformed(fmt.Sprintf("the arguments of call %d (%s) are not exactly one JSON object", i, provider.OneLine(s.name, 80)))
		}
	}
	switch {
	case d.refused:
		return &event.AttemptFailed{Class: event.Filtered, Detail: "the model refused"}
	case len(d.slots) == 0 && d.finish != "stop":
		return malformed("the finish reason " + d.finish + " came without a call")
	case len(d.slots) == 0 && !d.hasText:
		return &event.AttemptFailed{Class: event.Truncated, Retryable: true, Detail: "the reply is empty"}
	}
	return nil
}

func malformed(detail string) *event.AttemptFailed {
	return &event.AttemptFailed{Class: event.MalformedCall, Retryable: true, Detail: detail}
}
