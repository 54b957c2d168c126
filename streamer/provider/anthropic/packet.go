package anthropic

import (
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// packet is what one event says. Its slices are parts of the event's data; strings are
// quoted. Members are read wherever they stand, and only the event's type tells which
// of them count.
type packet struct {
	kind     []byte
	index    int64
	hasIndex bool
	delta    delta
	block    []byte // of content_block_start, raw
	id       []byte // of message_start
	usage    counts
	fault    bool // it has an error
}

// delta is the change of a block, or of the message. Its type is not looked at: only
// one of the members is there.
type delta struct{ text, json, thinking, signature, stop []byte }

// counts is a usage snapshot; -1 is a count that it does not have.
type counts struct{ input, cacheRead, output int64 }

var noCounts = counts{-1, -1, -1}

func (p *packet) read(s *provider.Scan) {
	*p = packet{usage: noCounts}
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "type":
			p.kind = s.Text()
		case "index":
			p.index, p.hasIndex = s.Int()
		case "delta":
			p.delta.read(s)
		case "content_block":
			p.block = s.Value()
		case "usage":
			p.usage.read(s)
		case "error":
			p.fault = s.Kind() == '{' || s.Kind() == '"'
			s.Skip()
		case "message":
			for ok := s.Open('{'); ok && s.Member(); {
				switch string(s.Name()) {
				case "id":
					p.id = s.Text()
				case "usage":
					p.usage.read(s)
				default:
					s.Skip()
				}
			}
		default:
			s.Skip()
		}
	}
}

func (d *delta) read(s *provider.Scan) {
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "text":
			d.text = s.Text()
		case "partial_json":
			d.json = s.Text()
		case "thinking":
			d.thinking = s.Text()
		case "signature":
			d.signature = s.Text()
		case "stop_reason":
			d.stop = s.Text()
		default:
			s.Skip()
		}
	}
}

func (c *counts) read(s *provider.Scan) {
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "input_tokens":
			count(s, &c.input)
		case "cache_read_input_tokens":
			count(s, &c.cacheRead)
		case "output_tokens":
			count(s, &c.output)
		default:
			s.Skip()
		}
	}
}

func count(s *provider.Scan, to *int64) {
	if n, ok := s.Int(); ok && n >= 0 {
		*to = n
	}
}

// overwrite takes the counts that the snapshot has: they are cumulative for the whole
// message (case 27).
func (c counts) overwrite(u *event.Usage) {
	set := func(to *int64, n int64) {
		if n >= 0 {
			*to = n
		}
	}
	set(&u.Input, c.input)
	set(&u.CacheRead, c.cacheRead)
	set(&u.Output, c.output)
}
