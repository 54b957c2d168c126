package gemini

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// slot is one call of the reply.
type slot struct {
	name             string
	args             []byte
	damaged, partial bool
}

type decoder struct {
	scan    *provider.Scan
	chunk   chunk
	scratch []byte

	slots           []slot
	text, reasoning provider.Joiner
	hasText         bool
	finish, message string // the provider's word; empty before it
	blocked         string
	id              string
	usage           event.Usage
	hasUsage        bool
	failed          *event.AttemptFailed // by the stream's own word
}

func newDecoder() *decoder { return &decoder{scan: provider.NewScan()} }

// ResponseID is the response's id; the API gives none in a header.
func (d *decoder) ResponseID() string { return d.id }

// Trailing reports whether only usage is awaited. There is no end mark but the end.
func (d *decoder) Trailing() bool {
	return (d.finish != "" || d.blocked != "") && d.failed == nil
}

// Event takes one chunk, or several if a server forgot the blank line between them or
// wrapped them in an array.
func (d *decoder) Event(name string, data []byte, emit func(event.Body) error) (bool, error) {
	data = bytes.TrimSpace(data)
	if name == "error" && d.finish == "" { // a gateway's own, with or without JSON
		d.failed = provider.ReadComplaint(data).InStream()
		return true, nil
	}
	if len(data) == 0 || data[0] != '{' && data[0] != '[' || bytes.Equal(data, []byte("[DONE]")) {
		return false, nil // keep-alives and end marks of gateways
	}
	d.scan.Reset(data)
	for d.scan.Kind() != 0 {
		var err error
		if d.scan.Kind() == '[' {
			for ok := d.scan.Open('['); err == nil && ok && d.scan.Element(); {
				err = d.one(emit)
			}
		} else {
			err = d.one(emit)
		}
		if err != nil || d.failed != nil {
			return true, err
		}
		if d.scan.Err() != nil {
			break
		}
	}
	if d.scan.Err() != nil && d.finish == "" {
		// A piece of the reply is lost, so that it cannot be whole.
		d.failed = provider.Broken("an event of the stream is not valid JSON")
		return true, nil
	}
	return false, nil
}

func (d *decoder) one(emit func(event.Body) error) error {
	whole := d.scan.Rest()
	d.chunk.read(d.scan)
	if d.scan.Err() != nil || d.failed != nil {
		return nil // nothing of a broken chunk counts
	}
	return d.apply(whole, emit)
}

// apply takes what the chunk says. Content may come after a finish: some versions of
// the API said STOP with every chunk. Then the reply goes on, and needs another finish,
// or else a cut would pass for its end.
func (d *decoder) apply(whole []byte, emit func(event.Body) error) error {
	c := &d.chunk
	if d.id == "" {
		d.id = provider.Word(c.id)
	}
	if c.hasUsage {
		d.usage, d.hasUsage = c.usage, true
	}
	if c.fault {
		if d.finish == "" { // afterwards it is about something else: the reply is whole
			d.failed = provider.ReadComplaint(whole).InStream()
		}
		return nil
	}
	if len(c.blocked) > 2 && string(c.blocked) != `"BLOCK_REASON_UNSPECIFIED"` {
		d.blocked = provider.Word(c.blocked)
	}
	for i := range c.parts {
		if err := d.part(&c.parts[i], emit); err != nil {
			return err
		}
	}
	if c.finish == nil {
		return nil
	}
	d.finish, d.message = provider.Word(c.finish), provider.Word(c.message)
	if t := d.reasoning.Flush(); t != "" {
		if err := emit(&event.ReasoningDelta{Text: t}); err != nil {
			return err
		}
	}
	return d.flush(emit)
}

func (d *decoder) flush(emit func(event.Body) error) error {
	if t := d.text.Flush(); t != "" {
		return emit(&event.TextDelta{Text: t})
	}
	return nil
}

func (d *decoder) part(p *part, emit func(event.Body) error) error {
	if p.call != nil {
		d.goesOn()
		return d.call(p, emit)
	}
	if len(p.text) > 2 {
		d.goesOn()
		if err := d.said(p, emit); err != nil {
			return err
		}
	}
	if p.signature == nil {
		return nil
	}
	// The part goes back whole, since that is where its signature belongs; the encoder
	// takes its text out of the text before.
	if err := d.flush(emit); err != nil {
		return err
	}
	var j provider.Joiner
	if raw := j.Next(p.raw) + j.Flush(); !j.Damaged {
		return emit(&event.OpaqueBlock{API: Name, Data: raw})
	}
	return nil
}

func (d *decoder) goesOn() { d.finish, d.message = "", "" }

func (d *decoder) said(p *part, emit func(event.Body) error) error {
	d.scratch = provider.Unquote(d.scratch[:0], p.text)
	if p.thought {
		if t := d.reasoning.Next(d.scratch); t != "" {
			return emit(&event.ReasoningDelta{Text: t})
		}
		return nil
	}
	d.hasText = true
	if t := d.text.Next(d.scratch); t != "" {
		return emit(&event.TextDelta{Text: t})
	}
	return nil
}

// call takes a call, which is whole in its part. The arguments are the object's text
// as it came.
func (d *decoder) call(p *part, emit func(event.Body) error) error {
	if err := d.flush(emit); err != nil {
		return err
	}
	var j provider.Joiner
	args := j.Next(p.call.args)
	args += j.Flush()
	s := slot{name: provider.Word(p.call.name), args: []byte(args), damaged: j.Damaged, partial: p.call.partial}
	k := kept{}
	id := provider.Word(p.call.id)
	if id != "" {
		k.id = valid(p.call.id)
	}
	k.signature = valid(p.signature)
	d.slots = append(d.slots, s)
	return emit(&event.CallDelta{Index: len(d.slots) - 1, ID: id, Name: s.name, Args: args, Opaque: k.String()})
}

// valid is a quoted string as it came, in valid UTF-8.
func valid(quoted []byte) string { return strings.ToValidUTF8(string(quoted), "\uFFFD") }

// End gives the verdict.
func (d *decoder) End(broken error) event.Body {
	usage := d.usage
	usage.Partial = d.finish == "" && d.blocked == "" || !d.hasUsage
	f := d.failed
	if f == nil {
		f = d.judge(broken)
	}
	if f == nil {
		return &event.AttemptFinished{Finish: d.finish, Usage: usage}
	}
	f.Usage = usage
	return f
}

// judge decides about a reply by its content. Nil means finished.
func (d *decoder) judge(broken error) *event.AttemptFailed {
	if d.blocked != "" {
		return filtered("the provider refused the prompt: " + d.blocked)
	}
	switch d.finish {
	case "":
		return provider.Failed(broken)
	case "STOP":
	case "MAX_TOKENS":
		return provider.CutByLength()
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return filtered("the provider's content filter ended the reply: " + d.finish)
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return provider.Malformed("the provider dropped a call: %s %s", d.finish, provider.Said(d.message))
	case "OTHER", "MALFORMED_RESPONSE", "NO_IMAGE", "IMAGE_OTHER":
		return provider.Broken("the provider ended the reply: %s %s", d.finish, provider.Said(d.message))
	case "MISSING_THOUGHT_SIGNATURE":
		return &event.AttemptFailed{Class: event.InvalidRequest, Detail: "the provider misses a signature in the history"}
	default:
		return provider.UnknownFinish(d.finish)
	}
	for i := range d.slots {
		s := &d.slots[i]
		if s.partial {
			return provider.Malformed("the arguments of call %d came in pieces, which was not asked for", i)
		}
		if f := provider.CheckCall(i, s.name, s.args, s.damaged); f != nil {
			return f
		}
	}
	if len(d.slots) == 0 && !d.hasText {
		return provider.Empty() // it occurs, with STOP
	}
	return nil
}

func filtered(detail string) *event.AttemptFailed {
	return &event.AttemptFailed{Class: event.Filtered, Detail: provider.OneLine(detail, 300)}
}

// Status judges an answer that is no stream.
func (d *decoder) Status(status int, header http.Header, body []byte) *event.AttemptFailed {
	return provider.Refused(status, header, body)
}
