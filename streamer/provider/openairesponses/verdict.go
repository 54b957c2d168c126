package openairesponses

import (
	"net/http"
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// judged gives the verdict about an error in the stream. Its codes for bad images and
// broken policies are many; none of them ends otherwise when asked again.
func judged(c provider.Complaint) *event.AttemptFailed {
	f := c.InStream()
	code := strings.ToLower(c.Code)
	switch {
	case strings.Contains(code, "policy"):
		f.Class, f.Retryable = event.Filtered, false
	case strings.Contains(code, "image"):
		f.Class, f.Retryable = event.InvalidRequest, false
	}
	return f
}

// incomplete gives the verdict about a reply that the provider itself calls cut.
func incomplete(reason string) *event.AttemptFailed {
	switch reason {
	case "max_output_tokens":
		return provider.CutByLength()
	case "content_filter":
		return &event.AttemptFailed{Class: event.Filtered, Detail: "the provider's content filter ended the reply"}
	}
	return &event.AttemptFailed{Class: event.Truncated, Retryable: true,
		Detail: strings.TrimSpace("the provider left the reply incomplete: " + provider.OneLine(reason, 80))}
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
		return &event.AttemptFinished{Finish: "completed", Usage: usage}
	}
	f.Usage = usage
	return f
}

// judge decides about a reply by its content. Nil means finished.
func (d *decoder) judge(broken error) *event.AttemptFailed {
	if !d.ended {
		return provider.Failed(broken)
	}
	for i := range d.slots {
		s := &d.slots[i]
		if !s.done || s.cut {
			return provider.Malformed("call %d was not closed", i)
		}
		if f := provider.CheckCall(i, s.name, s.args, s.join.Damaged); f != nil {
			return f
		}
	}
	switch {
	case d.refused:
		return &event.AttemptFailed{Class: event.Filtered, Detail: "the model refused"}
	case len(d.slots) == 0 && !d.hasText:
		return provider.Empty()
	}
	return nil
}

// Status judges an answer that is no stream.
func (d *decoder) Status(status int, header http.Header, body []byte) *event.AttemptFailed {
	return provider.Refused(status, header, body)
}
