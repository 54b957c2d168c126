package openairesponses

import (
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// packet is what one event says. Its slices are parts of the event's data; strings are
// quoted. Members are read wherever they stand, and only the event's type tells which
// of them count.
type packet struct {
	kind                   []byte
	seq                    int64
	hasSeq                 bool
	output, content        int64
	hasOutput              bool
	delta, arguments, name []byte
	text, refusal          []byte // of the .done events
	item, response         []byte // raw
	fault                  bool   // it has an error
}

func (p *packet) read(s *provider.Scan) {
	*p = packet{}
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "type":
			p.kind = s.Text()
		case "sequence_number":
			p.seq, p.hasSeq = s.Int()
		case "output_index":
			p.output, p.hasOutput = s.Int()
		case "content_index":
			p.content, _ = s.Int()
		case "delta":
			p.delta = s.Text()
		case "arguments":
			p.arguments = argumentText(s)
		case "name":
			p.name = s.Text()
		case "text":
			p.text = s.Text()
		case "refusal":
			p.refusal = s.Text()
		case "item":
			p.item = s.Value()
		case "response":
			p.response = s.Value()
		case "error":
			p.fault = s.Kind() == '{' || s.Kind() == '"'
			s.Skip()
		default:
			s.Skip()
		}
	}
}

// argumentText takes arguments: a string, or with some servers the object itself.
func argumentText(s *provider.Scan) []byte {
	if s.Kind() == '{' {
		return s.Value()
	}
	return s.Text()
}

// item is an output item.
type item struct {
	kind, callID, name, arguments, status []byte
	encrypted                             bool   // reasoning that can go back
	texts                                 []byte // content, raw
}

func readItem(raw []byte) (it item) {
	s := provider.NewScan()
	s.Reset(raw)
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "type":
			it.kind = s.Text()
		case "call_id":
			it.callID = s.Text()
		case "name":
			it.name = s.Text()
		case "arguments":
			it.arguments = argumentText(s)
		case "status":
			it.status = s.Text()
		case "encrypted_content":
			it.encrypted = len(s.Text()) > 2
		case "content":
			it.texts = s.Value()
		default:
			s.Skip()
		}
	}
	return it
}

// content calls take for each text of a message's content.
func (it item) content(take func(at int64, quoted []byte, refusal bool) error) error {
	if len(it.texts) == 0 {
		return nil
	}
	s := provider.NewScan()
	s.Reset(it.texts)
	if !s.Open('[') {
		return nil
	}
	for at := int64(0); s.Element(); at++ {
		var text, refusal []byte
		for ok := s.Open('{'); ok && s.Member(); {
			switch string(s.Name()) {
			case "text":
				text = s.Text()
			case "refusal":
				refusal = s.Text()
			default:
				s.Skip()
			}
		}
		if err := take(at, text, false); err != nil {
			return err
		}
		if err := take(at, refusal, true); err != nil {
			return err
		}
	}
	return nil
}

// response is the envelope that begins and ends the stream.
type response struct {
	id, status, reason []byte
	output             []byte // raw
	fault              []byte // raw
	usage              event.Usage
	hasUsage           bool
}

func readResponse(raw []byte) (r response) {
	if len(raw) == 0 {
		return r
	}
	s := provider.NewScan()
	s.Reset(raw)
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "id":
			r.id = s.Text()
		case "status":
			r.status = s.Text()
		case "output":
			r.output = s.Value()
		case "error":
			if s.Kind() == '{' || s.Kind() == '"' {
				r.fault = s.Value()
				continue
			}
			s.Skip()
		case "incomplete_details":
			for ok := s.Open('{'); ok && s.Member(); {
				if string(s.Name()) == "reason" {
					r.reason = s.Text()
					continue
				}
				s.Skip()
			}
		case "usage":
			r.count(s)
		default:
			s.Skip()
		}
	}
	return r
}

func (r *response) count(s *provider.Scan) {
	var u event.Usage
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "input_tokens":
			u.Input, r.hasUsage = tokens(s), true
		case "output_tokens":
			u.Output, r.hasUsage = tokens(s), true
		case "input_tokens_details", "output_tokens_details":
			for ok := s.Open('{'); ok && s.Member(); {
				switch string(s.Name()) {
				case "cached_tokens":
					u.CacheRead = tokens(s)
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
	r.usage = u
}

func tokens(s *provider.Scan) int64 {
	n, _ := s.Int()
	return max(n, 0)
}
