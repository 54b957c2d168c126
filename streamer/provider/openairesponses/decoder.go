package openairesponses

import (
	"bytes"
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

type decoder struct {
	scan    *provider.Scan
	packet  packet
	scratch []byte

	slots           []slot
	spans           []span
	items           int // that were begun or closed
	join, reasoning provider.Joiner
	hasText         bool
	refused         bool

	seq      int64 // the highest sequence number
	id       string
	ended    bool // response.completed
	usage    event.Usage
	hasUsage bool
	failed   *event.AttemptFailed // by the stream's own word, or for breaking its rules
}

func newDecoder() *decoder { return &decoder{scan: provider.NewScan(), seq: -1} }

// ResponseID is the response's id.
func (d *decoder) ResponseID() string { return d.id }

// Event takes one event, or several if a server forgot the blank line between them.
func (d *decoder) Event(name string, data []byte, emit func(event.Body) error) (bool, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		if name == "error" { // a gateway's own, without JSON
			d.failed = provider.ReadComplaint(data).InStream()
		}
		return d.failed != nil, nil // otherwise keep-alives, and [DONE], which proves nothing
	}
	d.scan.Reset(data)
	for d.scan.Kind() != 0 {
		whole := d.scan.Rest()
		d.packet.read(d.scan)
		if d.scan.Err() != nil {
			break // nothing of a broken event counts
		}
		if err := d.apply(name, whole, emit); err != nil || d.ended || d.failed != nil {
			return true, err
		}
	}
	if d.scan.Err() != nil {
		// A piece of the reply may be lost, so that it cannot be proved whole.
		d.failed = provider.Broken("an event of the stream is not valid JSON")
		return true, nil
	}
	return false, nil
}

// again reports whether the event repeats or precedes one that was taken. Servers that
// number nothing say 0 each time.
func (d *decoder) again(p *packet) bool {
	switch {
	case !p.hasSeq, p.seq == 0 && d.seq <= 0:
		return false
	case p.seq <= d.seq:
		return true
	}
	d.seq = p.seq
	return false
}

// apply takes what the event says. The data says the type as well as the event's name,
// which some gateways drop.
func (d *decoder) apply(name string, whole []byte, emit func(event.Body) error) error {
	p := &d.packet
	kind := []byte(name)
	if len(p.kind) > 2 && name != "error" { // an error's data may be the bare error, with a type of its own
		kind = p.kind[1 : len(p.kind)-1]
	}
	if string(kind) != "error" && d.again(p) { // an error may come from a gateway, which does not count on
		return nil
	}
	switch string(kind) {
	case "response.output_text.delta":
		return d.text(span{p.output, p.content, false}, p.delta, false, emit)
	case "response.output_text.done":
		return d.text(span{p.output, p.content, false}, p.text, true, emit)
	case "response.refusal.delta":
		return d.text(span{p.output, p.content, true}, p.delta, false, emit)
	case "response.refusal.done":
		return d.text(span{p.output, p.content, true}, p.refusal, true, emit)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return d.reason(p, emit)
	case "response.function_call_arguments.delta":
		return d.args(p, emit)
	case "response.function_call_arguments.done":
		at, opened := d.slot(p.output, p.hasOutput)
		if err := d.label(at, opened, nil, p.name, emit); err != nil {
			return err
		}
		return d.whole(at, p.arguments, emit)
	case "response.output_item.added", "response.output_item.done":
		return d.item(p.item, p.output, p.hasOutput, string(kind) == "response.output_item.done", emit)
	case "response.created", "response.in_progress", "response.queued":
		d.envelope(readResponse(p.response))
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return d.terminal(string(kind), readResponse(p.response), emit)
	case "error":
		d.failed = judged(provider.ReadComplaint(whole)) // flat, or nested
	default:
		if p.fault && !strings.HasPrefix(string(kind), "response.") { // a gateway's, in another API's form
			d.failed = judged(provider.ReadComplaint(whole))
		}
	}
	return nil
}

func (d *decoder) reason(p *packet, emit func(event.Body) error) error {
	if len(p.delta) <= 2 {
		return nil
	}
	if t := d.reasoning.Next(d.unquote(p.delta)); t != "" {
		return emit(&event.ReasoningDelta{Text: t})
	}
	return nil
}

// item takes the beginning or the end of an output item.
func (d *decoder) item(raw []byte, output int64, hasOutput, done bool, emit func(event.Body) error) error {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	d.items++
	if err := d.flush(emit); err != nil {
		return err
	}
	it := readItem(raw)
	switch string(it.kind) {
	case `"function_call"`:
		at, opened := d.slotOf(&it, output, hasOutput, done)
		if err := d.label(at, opened, it.callID, it.name, emit); err != nil || !done {
			return err
		}
		d.slots[at].cut = string(it.status) == `"incomplete"`
		return d.whole(at, it.arguments, emit)
	case `"message"`:
		if !done {
			return nil
		}
		return it.content(func(at int64, quoted []byte, refusal bool) error {
			return d.text(span{output, at, refusal}, quoted, true, emit)
		})
	case `"reasoning"`:
		// Nothing is stored at the provider, so that only what is encrypted can go back.
		if !done || !it.encrypted {
			return nil
		}
		var j provider.Joiner
		if data := j.Next(raw) + j.Flush(); !j.Damaged {
			return emit(&event.OpaqueBlock{API: Name, Data: data})
		}
	}
	return nil
}

func (d *decoder) envelope(r response) {
	if id := provider.Word(r.id); id != "" {
		d.id = id
	}
	if r.hasUsage {
		d.usage, d.hasUsage = r.usage, true
	}
}

// terminal takes the last event. Its status counts for more than its name: behind some
// gateways each reply is completed.
func (d *decoder) terminal(kind string, r response, emit func(event.Body) error) error {
	d.envelope(r)
	status := provider.Word(r.status)
	reason := provider.Word(r.reason)
	switch {
	case r.fault != nil, kind == "response.failed", status == "failed":
		d.failed = judged(provider.ReadComplaint(r.fault))
	case kind == "response.cancelled", status == "cancelled":
		d.failed = provider.Broken("the provider cancelled the reply")
	case kind == "response.incomplete", status == "incomplete", reason != "":
		d.failed = incomplete(reason)
	default:
		d.ended = true
		if err := d.snapshot(r.output, emit); err != nil {
			return err
		}
		if t := d.reasoning.Flush(); t != "" {
			if err := emit(&event.ReasoningDelta{Text: t}); err != nil {
				return err
			}
		}
		return d.flush(emit)
	}
	return nil
}

// snapshot takes what only the last event tells: the whole reply of a server that
// streams none of it, and the argument text of a call that was not closed.
func (d *decoder) snapshot(output []byte, emit func(event.Body) error) error {
	if len(output) == 0 || output[0] != '[' {
		return nil
	}
	fresh := d.items == 0 && len(d.slots) == 0 && !d.hasText
	s := provider.NewScan()
	s.Reset(output)
	if !s.Open('[') {
		return nil
	}
	for at := int64(0); s.Element(); at++ {
		raw := s.Value()
		if fresh {
			if err := d.item(raw, at, true, true, emit); err != nil {
				return err
			}
			continue
		}
		it := readItem(raw)
		if string(it.kind) != `"function_call"` || len(it.callID) <= 2 {
			continue
		}
		// By the id: a gateway may leave items out of the list.
		for k := range d.slots {
			if id := provider.Word(it.callID); !d.slots[k].done && d.slots[k].id == id && len(it.arguments) > 2 {
				if err := d.whole(k, it.arguments, emit); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// unquote gives a string's content, valid until the next call.
func (d *decoder) unquote(quoted []byte) []byte {
	d.scratch = provider.Unquote(d.scratch[:0], quoted)
	return d.scratch
}
