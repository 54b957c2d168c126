package anthropic

import (
	"bytes"
	"net/http"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

type decoder struct {
	scan    *provider.Scan
	packet  packet
	scratch []byte

	blocks  []block
	calls   int
	open    int          // blocks of thinking that are not stopped
	held    []event.Body // behind them
	hasText bool

	id       string
	word     string // the stop reason; empty before it
	ended    bool   // message_stop
	usage    event.Usage
	hasUsage bool                 // the final count came
	failed   *event.AttemptFailed // by the stream's own word, or for breaking its rules
}

func newDecoder() *decoder { return &decoder{scan: provider.NewScan()} }

// ResponseID is the message's id.
func (d *decoder) ResponseID() string { return d.id }

// Event takes one event. Usually its data is one JSON object; servers that forget the
// blank line between events send several.
func (d *decoder) Event(name string, data []byte, emit func(event.Body) error) (bool, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		if name == "error" { // a gateway's own, without JSON
			d.failed = provider.ReadComplaint(data).InStream()
		}
		return d.failed != nil, nil // otherwise keep-alives and end marks of gateways
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

// apply takes what the event says. Its name may be missing: some gateways drop it, and
// the data says the type as well. Unknown types are skipped, as the API's documentation
// demands.
func (d *decoder) apply(name string, whole []byte, emit func(event.Body) error) error {
	p := &d.packet
	kind := []byte(name)
	if len(p.kind) > 2 && name != "error" { // an error's data may be the bare error, with a type of its own
		kind = p.kind[1 : len(p.kind)-1]
	}
	switch string(kind) {
	case "content_block_delta":
		return d.change(p, emit)
	case "content_block_start":
		return d.start(p, emit)
	case "content_block_stop":
		return d.stop(p, emit)
	case "message_start":
		d.id = provider.Word(p.id)
		p.usage.overwrite(&d.usage)
	case "message_delta":
		p.usage.overwrite(&d.usage)
		if len(p.delta.stop) > 2 {
			d.word = provider.Word(p.delta.stop)
		}
		d.hasUsage = d.word != "" && (d.hasUsage || p.usage.output >= 0)
	case "message_stop":
		d.ended = true
	case "error":
		d.failed = provider.ReadComplaint(whole).InStream()
	default:
		if p.fault { // a gateway's, in another API's form
			d.failed = provider.ReadComplaint(whole).InStream()
		}
	}
	return nil
}

// unquote gives a string's content, valid until the next call.
func (d *decoder) unquote(quoted []byte) []byte {
	d.scratch = provider.Unquote(d.scratch[:0], quoted)
	return d.scratch
}

// End gives the verdict.
func (d *decoder) End(broken error) event.Body {
	usage := d.usage
	usage.Partial = !d.hasUsage
	f := d.failed
	if f == nil {
		f = d.judge(broken)
	}
	if f == nil {
		return &event.AttemptFinished{Finish: d.word, Usage: usage}
	}
	f.Usage = usage
	return f
}

// judge decides about a reply by its content. Nil means finished. A stop reason that
// rules a whole reply out counts even if the end of the stream is missing: a refusal is
// not asked for again because its connection broke.
func (d *decoder) judge(broken error) *event.AttemptFailed {
	switch d.word {
	case "max_tokens", "model_context_window_exceeded":
		return provider.CutByLength()
	case "refusal":
		return &event.AttemptFailed{Class: event.Filtered, Detail: "the model refused"}
	}
	if !d.ended || d.word == "" {
		return provider.Failed(broken)
	}
	switch d.word {
	case "end_turn", "stop_sequence", "tool_use":
	case "pause_turn":
		// The provider wants its own tools' work to be asked for once more. This request
		// offered none of them, so there is nothing to go on with, and the text so far is
		// no answer.
		return &event.AttemptFailed{Class: event.Truncated, Retryable: true, Detail: "the provider paused the reply for tools of its own"}
	default:
		return provider.UnknownFinish(d.word)
	}
	for i := range d.blocks {
		b := &d.blocks[i]
		if !b.stopped {
			return &event.AttemptFailed{Class: event.Truncated, Retryable: true, Detail: "a block of the reply was not closed"}
		}
		if b.kind != callBlock {
			continue
		}
		if f := provider.CheckCall(b.place, b.name, b.args, b.join.Damaged); f != nil {
			return f
		}
	}
	switch {
	case d.calls == 0 && d.word == "tool_use":
		return provider.Malformed("the stop reason tool_use came without a call")
	case d.calls == 0 && !d.hasText:
		return provider.Empty()
	}
	return nil
}

// Status judges an answer that is no stream.
func (d *decoder) Status(status int, header http.Header, body []byte) *event.AttemptFailed {
	return provider.Refused(status, header, body)
}
