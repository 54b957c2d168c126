package gemini

import (
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// chunk is what one chunk says. Its slices are parts of the event's data; strings are
// quoted. It is read as a whole before anything of it counts: a finish may stand before
// its parts.
type chunk struct {
	parts    []part
	finish   []byte
	message  []byte // about the finish
	blocked  []byte // the prompt was refused: no candidate comes
	id       []byte
	usage    event.Usage
	hasUsage bool
	fault    bool // it has an error
}

// part is one part of the reply.
type part struct {
	raw       []byte
	text      []byte
	thought   bool
	signature []byte
	call      *functionCall
}

type functionCall struct {
	id, name []byte
	args     []byte // raw
	partial  bool   // its arguments come in a form that was not asked for
}

func (c *chunk) read(s *provider.Scan) {
	*c = chunk{parts: c.parts[:0]}
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "candidates":
			for ok := s.Open('['); ok && s.Element(); {
				c.candidate(s)
			}
		case "usageMetadata":
			c.count(s)
		case "responseId":
			c.id = s.Text()
		case "promptFeedback":
			for ok := s.Open('{'); ok && s.Member(); {
				if string(s.Name()) == "blockReason" {
					c.blocked = s.Text()
					continue
				}
				s.Skip()
			}
		case "error":
			c.fault = s.Kind() == '{' || s.Kind() == '"'
			s.Skip()
		default:
			s.Skip()
		}
	}
}

// candidate reads one candidate. Only one is asked for.
func (c *chunk) candidate(s *provider.Scan) {
	mark, other := len(c.parts), false
	var finish, message []byte
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "content":
			for ok := s.Open('{'); ok && s.Member(); {
				if string(s.Name()) != "parts" {
					s.Skip()
					continue
				}
				for ok := s.Open('['); ok && s.Element(); {
					var p part
					p.read(s)
					c.parts = append(c.parts, p)
				}
			}
		case "finishReason":
			finish = s.Text()
		case "finishMessage":
			message = s.Text()
		case "index":
			n, ok := s.Int()
			other = ok && n != 0
		default:
			s.Skip()
		}
	}
	if other {
		c.parts = c.parts[:mark]
		return
	}
	if len(finish) > 2 && string(finish) != `"FINISH_REASON_UNSPECIFIED"` {
		c.finish, c.message = finish, message
	}
}

func (p *part) read(s *provider.Scan) {
	before := s.Rest()
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "text":
			p.text = s.Text()
		case "thought":
			p.thought = string(s.Value()) == "true"
		case "thoughtSignature", "thought_signature":
			if v := s.Text(); len(v) > 2 {
				p.signature = v
			}
		case "functionCall":
			if s.Kind() != '{' {
				s.Skip()
				continue
			}
			p.call = new(functionCall)
			p.call.read(s)
		default:
			s.Skip()
		}
	}
	if s.Err() == nil {
		p.raw = s.Since(before)
	}
}

func (c *functionCall) read(s *provider.Scan) {
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "id":
			c.id = s.Text()
		case "name":
			c.name = s.Text()
		case "args":
			if c.args = s.Value(); string(c.args) == "null" {
				c.args = nil
			}
		case "partialArgs":
			c.partial = true
			s.Skip()
		case "willContinue":
			c.partial = c.partial || string(s.Value()) == "true"
		default:
			s.Skip()
		}
	}
}

// count reads a usage snapshot; each replaces the one before. Thoughts are output, and
// are not in the candidates' count.
func (c *chunk) count(s *provider.Scan) {
	var u event.Usage
	seen := false
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "promptTokenCount":
			u.Input += tokens(s)
			seen = true
		case "toolUsePromptTokenCount":
			u.Input += tokens(s)
		case "candidatesTokenCount":
			u.Output += tokens(s)
		case "thoughtsTokenCount":
			u.Reasoning = tokens(s)
			u.Output += u.Reasoning
		case "cachedContentTokenCount":
			u.CacheRead = tokens(s)
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
