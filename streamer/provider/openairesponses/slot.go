package openairesponses

import (
	"bytes"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// slot is one call of the reply. Its place in the order of opening identifies it.
type slot struct {
	output    int64 // output_index
	hasOutput bool
	id, name  string
	args      []byte // as emitted
	join      provider.Joiner
	done      bool // the whole text came
	cut       bool // the provider says that it is not whole
}

// span is one text of the reply.
type span struct {
	output, content int64
	refusal         bool
}

// slot finds the call of an event, or opens one. Ids do not tell calls apart: behind
// some gateways they change with each event.
func (d *decoder) slot(output int64, hasOutput bool) (at int, opened bool) {
	for at = len(d.slots) - 1; at >= 0; at-- {
		if !hasOutput || d.slots[at].output == output {
			return at, false
		}
	}
	d.slots = append(d.slots, slot{output: output, hasOutput: hasOutput})
	return len(d.slots) - 1, true
}

// slotOf finds the call of an item. Without a number the call's id must do; then each
// beginning is another call.
func (d *decoder) slotOf(it *item, output int64, hasOutput, done bool) (at int, opened bool) {
	if hasOutput {
		return d.slot(output, true)
	}
	id := provider.Word(it.callID)
	for at = range d.slots {
		if id != "" && d.slots[at].id == id {
			return at, false
		}
	}
	if n := len(d.slots); n > 0 && done && !d.slots[n-1].done && (id == "" || d.slots[n-1].id == "") {
		return n - 1, false
	}
	d.slots = append(d.slots, slot{})
	return len(d.slots) - 1, true
}

// label opens a call, or gives it what it did not have so far.
func (d *decoder) label(at int, opened bool, id, name []byte, emit func(event.Body) error) error {
	s := &d.slots[at]
	out := event.CallDelta{Index: at}
	if s.id == "" {
		s.id = provider.Word(id)
		out.ID = s.id
	}
	if s.name == "" {
		s.name = provider.Word(name)
		out.Name = s.name
	}
	if !opened && out == (event.CallDelta{Index: at}) {
		return nil
	}
	return emit(&out)
}

// args takes a fragment of argument text.
func (d *decoder) args(p *packet, emit func(event.Body) error) error {
	at, opened := d.slot(p.output, p.hasOutput)
	if opened {
		if err := d.label(at, opened, nil, nil, emit); err != nil {
			return err
		}
	}
	s := &d.slots[at]
	if s.done || len(p.delta) <= 2 {
		return nil // a fragment after the whole text repeats it
	}
	if t := s.join.Next(d.unquote(p.delta)); t != "" {
		s.args = append(s.args, t...)
		return emit(&event.CallDelta{Index: at, Args: t})
	}
	return nil
}

// whole takes the whole argument text. Fragments that are out cannot be taken back, so
// that it may only go on from them, or say the same with other spaces.
func (d *decoder) whole(at int, snapshot []byte, emit func(event.Body) error) error {
	s := &d.slots[at]
	text, damaged := s.args, s.join.Damaged
	if len(snapshot) > 2 { // an empty one is not the text but its absence
		raw := snapshot
		if raw[0] == '"' {
			raw = d.unquote(raw)
		}
		var j provider.Joiner
		text = []byte(j.Next(raw) + j.Flush())
		damaged = damaged || j.Damaged
	} else {
		s.join.Flush()
		damaged = s.join.Damaged
	}
	s.done = true
	s.join = provider.Joiner{Damaged: damaged}
	rest, goesOn := bytes.CutPrefix(text, s.args)
	if !goesOn {
		if !provider.SameJSON(text, s.args) {
			d.failed = provider.Malformed("the arguments of call %d contradict what was said of them before", at)
		}
		return nil
	}
	if len(rest) == 0 {
		return nil
	}
	s.args = text
	return emit(&event.CallDelta{Index: at, Args: string(rest)})
}

// said notes that a text has begun, and reports whether it had before.
func (d *decoder) said(t span) bool {
	for i := len(d.spans) - 1; i >= 0; i-- {
		if d.spans[i] == t {
			return true
		}
	}
	d.spans = append(d.spans, t)
	return false
}

// text takes a fragment of text, and text that is said whole if no fragment was.
func (d *decoder) text(t span, quoted []byte, whole bool, emit func(event.Body) error) error {
	if len(quoted) <= 2 {
		return nil
	}
	if d.said(t) && whole {
		return nil
	}
	d.hasText = true
	d.refused = d.refused || t.refusal
	if t := d.join.Next(d.unquote(quoted)); t != "" {
		return emit(&event.TextDelta{Text: t})
	}
	return nil
}

// flush ends a text before something else begins.
func (d *decoder) flush(emit func(event.Body) error) error {
	if t := d.join.Flush(); t != "" {
		return emit(&event.TextDelta{Text: t})
	}
	return nil
}
