package anthropic

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

type blockKind int

const (
	otherBlock blockKind = iota // of the provider's own tools, or not known here
	textBlock
	callBlock
	thinkingBlock
	redactedBlock
)

var blockKinds = map[string]blockKind{
	`"text"`: textBlock, `"tool_use"`: callBlock, `"thinking"`: thinkingBlock, `"redacted_thinking"`: redactedBlock,
}

// block is one content block of the reply.
type block struct {
	index   int64
	kind    blockKind
	stopped bool
	join    provider.Joiner // of its text, thinking or argument text

	// Of a call.
	place    int // among the calls
	id, name string
	args     []byte // as emitted
	given    []byte // the input that came with the start, raw, unless it is {}

	// Of thinking.
	thinking  []byte
	signature string
	whole     string // redacted thinking: the block as it came
}

// opening is content_block_start's block.
type opening struct{ kind, id, name, text, thinking, signature, input []byte }

func (o *opening) read(s *provider.Scan) {
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "type":
			o.kind = s.Text()
		case "id":
			o.id = s.Text()
		case "name":
			o.name = s.Text()
		case "text":
			o.text = s.Text()
		case "thinking":
			o.thinking = s.Text()
		case "signature":
			o.signature = s.Text()
		case "input":
			o.input = s.Value()
		default:
			s.Skip()
		}
	}
}

// start opens a block. A second start of an index is another block: then the first must
// have been stopped, as all must.
func (d *decoder) start(p *packet, emit func(event.Body) error) error {
	var o opening
	if len(p.block) > 0 {
		s := provider.NewScan() // the decoder's own is in the middle of the event
		s.Reset(p.block)
		o.read(s)
	}
	d.blocks = append(d.blocks, block{index: p.index, kind: blockKinds[string(o.kind)]})
	b := &d.blocks[len(d.blocks)-1]
	switch b.kind {
	case textBlock:
		return d.text(b, o.text, emit)
	case callBlock:
		b.place, b.id, b.name = d.calls, provider.Word(o.id), provider.Word(o.name)
		d.calls++
		if v := jsontext.Value(o.input); len(v) > 0 && v[0] == '{' && !provider.SameJSON(v, []byte("{}")) {
			b.given = append([]byte(nil), v...)
		}
		return d.say(&event.CallDelta{Index: b.place, ID: b.id, Name: b.name}, emit)
	case thinkingBlock:
		d.open++
		b.signature = provider.Word(o.signature)
		return d.think(b, o.thinking, emit)
	case redactedBlock:
		d.open++
		var j provider.Joiner
		if whole := j.Next(p.block) + j.Flush(); !j.Damaged {
			b.whole = whole
		}
	}
	return nil
}

// change takes a delta. One without content changes nothing, so it needs no block.
func (d *decoder) change(p *packet, emit func(event.Body) error) error {
	c := &p.delta
	if len(c.text) <= 2 && len(c.json) <= 2 && len(c.thinking) <= 2 && len(c.signature) <= 2 {
		return nil
	}
	b := d.find(p)
	if b == nil {
		d.failed = provider.Broken("a piece came for block %d, which is not open", p.index)
		return nil
	}
	switch b.kind {
	case textBlock:
		return d.text(b, c.text, emit)
	case callBlock:
		return d.args(b, c.json, emit)
	case thinkingBlock:
		if len(c.signature) > 2 {
			b.signature += provider.Word(c.signature)
		}
		return d.think(b, c.thinking, emit)
	}
	return nil
}

// find gives the open block of an event, or nil.
func (d *decoder) find(p *packet) *block {
	for i := len(d.blocks) - 1; i >= 0; i-- {
		if b := &d.blocks[i]; !b.stopped && (b.index == p.index || !p.hasIndex) {
			return b
		}
	}
	return nil
}

func (d *decoder) text(b *block, quoted []byte, emit func(event.Body) error) error {
	if len(quoted) <= 2 {
		return nil
	}
	d.hasText = true
	if t := b.join.Next(d.unquote(quoted)); t != "" {
		return d.say(&event.TextDelta{Text: t}, emit)
	}
	return nil
}

func (d *decoder) args(b *block, quoted []byte, emit func(event.Body) error) error {
	if len(quoted) <= 2 {
		return nil
	}
	if t := b.join.Next(d.unquote(quoted)); t != "" {
		b.args = append(b.args, t...)
		return d.say(&event.CallDelta{Index: b.place, Args: t}, emit)
	}
	return nil
}

func (d *decoder) think(b *block, quoted []byte, emit func(event.Body) error) error {
	if len(quoted) <= 2 {
		return nil
	}
	if t := b.join.Next(d.unquote(quoted)); t != "" {
		b.thinking = append(b.thinking, t...)
		return emit(&event.ReasoningDelta{Text: t})
	}
	return nil
}

// stop closes a block. A stop of no open block changes nothing.
func (d *decoder) stop(p *packet, emit func(event.Body) error) error {
	b := d.find(p)
	if b == nil {
		return nil
	}
	b.stopped = true
	rest := b.join.Flush()
	switch b.kind {
	case textBlock:
		if rest != "" {
			return d.say(&event.TextDelta{Text: rest}, emit)
		}
	case callBlock:
		return d.stopCall(b, emit)
	case thinkingBlock:
		if rest != "" {
			if err := emit(&event.ReasoningDelta{Text: rest}); err != nil {
				return err
			}
		}
		if b.signature != "" && !b.join.Damaged {
			out := []byte(`{"type":"thinking","thinking":`)
			out, _ = jsontext.AppendQuote(out, b.thinking)
			out, _ = jsontext.AppendQuote(append(out, `,"signature":`...), b.signature)
			b.whole = string(append(out, '}'))
		}
		return d.stopThinking(b, emit)
	case redactedBlock:
		return d.stopThinking(b, emit)
	}
	return nil
}

// stopCall settles where the arguments come from: from the deltas, or, if there were
// none, from the start. Where both say something they must say the same.
func (d *decoder) stopCall(b *block, emit func(event.Body) error) error {
	if b.given == nil {
		return nil
	}
	if len(b.args) > 0 {
		if !provider.SameJSON(b.given, b.args) {
			d.failed = provider.Malformed("the arguments of call %d contradict its input", b.place)
		}
		return nil
	}
	t := b.join.Next(b.given) + b.join.Flush()
	b.args = append(b.args, t...)
	return d.say(&event.CallDelta{Index: b.place, Args: t}, emit)
}

// stopThinking emits a whole block, and then what had to wait for it.
func (d *decoder) stopThinking(b *block, emit func(event.Body) error) error {
	if b.whole != "" {
		if err := emit(&event.OpaqueBlock{API: Name, Data: b.whole}); err != nil {
			return err
		}
	}
	if d.open--; d.open > 0 {
		return nil
	}
	for _, e := range d.held {
		if err := emit(e); err != nil {
			return err
		}
	}
	d.held = nil
	return nil
}

// say emits, but not before thinking that began earlier: pieces take their place in the
// history when they are emitted, and a block of thinking is emitted at its end. Blocks
// that interleave with it are allowed, though rare.
func (d *decoder) say(b event.Body, emit func(event.Body) error) error {
	if d.open > 0 {
		d.held = append(d.held, b)
		return nil
	}
	return emit(b)
}
