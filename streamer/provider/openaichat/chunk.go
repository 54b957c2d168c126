package openaichat

import (
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// chunk is what one chunk says. Its slices are parts of the event's data. It is read as
// a whole before anything of it counts: a finish may stand before its delta, and an
// error beside its choice.
type chunk struct {
	pieces   []piece
	finish   []byte // quoted, the first one that is not empty
	usage    event.Usage
	hasUsage bool
	fault    []byte // the error's JSON, if any
}

// piece is a fragment in the order it came.
type piece struct {
	kind  pieceKind
	text  []byte // quoted
	entry entry  // of a call
}

type pieceKind int

const (
	textPiece pieceKind = iota
	refusalPiece
	reasoningPiece
	callPiece
)

// entry is one element of tool_calls.
type entry struct {
	index    int64
	hasIndex bool
	id, name []byte // quoted
	args     []byte // quoted, or raw JSON if they came as a value
	extra    []byte // raw JSON that goes back with the call
}

func (c *chunk) reset() {
	*c = chunk{pieces: c.pieces[:0]}
}

func (c *chunk) read(s *provider.Scan) {
	isError, whole := false, s.Rest()
	if !s.Open('{') {
		return
	}
	for s.Member() {
		switch string(s.Name()) {
		case "choices":
			for ok := s.Open('['); ok && s.Element(); {
				c.choice(s)
			}
		case "usage":
			c.count(s)
		case "error":
			c.fail(s)
		case "object", "type": // vLLM; other gateways
			isError = string(s.Text()) == `"error"` || isError
		case "x_groq":
			for ok := s.Open('{'); ok && s.Member(); {
				c.common(s)
			}
		default:
			s.Skip()
		}
	}
	if isError && c.fault == nil { // {"object":"error","message":…}
		c.fault = whole
	}
}

// common reads what gateways put at other places than the chunk itself.
func (c *chunk) common(s *provider.Scan) {
	switch string(s.Name()) {
	case "usage":
		c.count(s)
	case "error":
		c.fail(s)
	default:
		s.Skip()
	}
}

// fail notes an error. Null is none: some servers send the member always.
func (c *chunk) fail(s *provider.Scan) {
	switch v := s.Value(); string(v) {
	case "", "null", "false", `""`:
	default:
		c.fault = v
	}
}

// choice reads one choice. Only one is asked for, but gateways split one answer into
// several of the same index.
func (c *chunk) choice(s *provider.Scan) {
	mark, other := len(c.pieces), false
	var finish []byte
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "index":
			n, ok := s.Int()
			other = ok && n != 0
		case "delta":
			c.delta(s)
		case "finish_reason":
			finish = s.Text()
		default:
			c.common(s)
		}
	}
	if other {
		c.pieces = c.pieces[:mark]
		return
	}
	if len(finish) > 2 && c.finish == nil { // "" means not yet (Ollama, SGLang)
		c.finish = finish
	}
}

func (c *chunk) delta(s *provider.Scan) {
	var reasoning []byte
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "content":
			if s.Kind() == '[' {
				c.parts(s, textPiece)
				continue
			}
			c.add(textPiece, s.Text())
		case "refusal":
			c.add(refusalPiece, s.Text())
		case "reasoning_content", "reasoning": // gateways send both with the same text
			if v := s.Text(); len(v) > 2 && reasoning == nil {
				reasoning = v
				c.add(reasoningPiece, v)
			}
		case "tool_calls":
			for ok := s.Open('['); ok && s.Element(); {
				c.call(s)
			}
		case "function_call": // the form before parallel calls: one, without id
			e := entry{hasIndex: true}
			e.function(s)
			c.addCall(e)
		default:
			s.Skip()
		}
	}
}

// parts reads content that is a list of typed parts (Mistral).
func (c *chunk) parts(s *provider.Scan, kind pieceKind) {
	for ok := s.Open('['); ok && s.Element(); {
		for ok := s.Open('{'); ok && s.Member(); {
			switch string(s.Name()) {
			case "text":
				c.add(kind, s.Text())
			case "thinking":
				if s.Kind() == '[' {
					c.parts(s, reasoningPiece)
					continue
				}
				c.add(reasoningPiece, s.Text())
			default:
				s.Skip()
			}
		}
	}
}

func (c *chunk) call(s *provider.Scan) {
	var e entry
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "index":
			e.index, e.hasIndex = s.Int()
		case "id":
			e.id = s.Text()
		case "function":
			e.function(s)
		case "extra_content":
			if s.Kind() == '{' {
				e.extra = s.Value()
				continue
			}
			s.Skip()
		default:
			s.Skip()
		}
	}
	c.addCall(e)
}

func (e *entry) function(s *provider.Scan) {
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "name":
			e.name = s.Text()
		case "arguments":
			if e.args = s.Value(); string(e.args) == "null" {
				e.args = nil
			}
		default:
			s.Skip()
		}
	}
}

func (c *chunk) add(kind pieceKind, quoted []byte) {
	if len(quoted) > 2 {
		c.pieces = append(c.pieces, piece{kind: kind, text: quoted})
	}
}

func (c *chunk) addCall(e entry) {
	if len(e.id) <= 2 {
		e.id = nil
	}
	if len(e.name) <= 2 {
		e.name = nil
	}
	if len(e.args) == 2 && e.args[0] == '"' {
		e.args = nil
	}
	c.pieces = append(c.pieces, piece{kind: callPiece, entry: e})
}

// count reads a usage snapshot; each replaces the one before.
func (c *chunk) count(s *provider.Scan) {
	var u event.Usage
	seen := false
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "prompt_tokens":
			u.Input, seen = tokens(s), true
		case "completion_tokens":
			u.Output, seen = tokens(s), true
		case "prompt_cache_hit_tokens": // DeepSeek
			u.CacheRead = max(u.CacheRead, tokens(s))
		case "prompt_tokens_details", "completion_tokens_details":
			for ok := s.Open('{'); ok && s.Member(); {
				switch string(s.Name()) {
				case "cached_tokens":
					u.CacheRead = max(u.CacheRead, tokens(s))
				case "reasoning_tokens":
					u.Reasoning = tokens(s)
				default:
					s.Skip()
				}
			}
		default:
			s.Skip()
		}
	}
	if seen {
		c.usage, c.hasUsage = u, true
	}
}

func tokens(s *provider.Scan) int64 {
	n, _ := s.Int()
	return max(n, 0)
}
