package openaichat

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// fault is an error payload, inside a stream or not.
type fault struct{ message, kind, code string }

// said reads an error payload: an object with message, type and code, at some depth, or
// just text.
func said(payload []byte) fault {
	var f fault
	if len(payload) == 0 || bytes.IndexByte([]byte(`{["`), payload[0]) < 0 {
		f.message = string(payload)
		return f
	}
	s := provider.NewScan()
	s.Reset(payload)
	f.read(s, 0)
	return f
}

func (f *fault) read(s *provider.Scan, depth int) {
	switch {
	case s.Kind() == '"':
		set(&f.message, s.Value())
		return
	case s.Kind() == '[' && depth < 4: // Gemini's compatible endpoint
		for ok := s.Open('['); ok && s.Element(); {
			f.read(s, depth+1)
		}
		return
	case depth >= 4:
		s.Skip()
		return
	}
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "message", "detail", "msg":
			set(&f.message, s.Value())
		case "type", "status":
			set(&f.kind, s.Value())
		case "code":
			set(&f.code, s.Value())
		case "error", "innererror":
			f.read(s, depth+1)
		default:
			s.Skip()
		}
	}
}

// set keeps the first word that says something. Codes come as numbers too.
func set(to *string, v []byte) {
	if *to != "" || len(v) == 0 || string(v) == "null" || v[0] == '{' || v[0] == '[' {
		return
	}
	if v[0] != '"' {
		*to = string(v)
		return
	}
	var j provider.Joiner
	*to = j.Next(provider.Unquote(nil, v)) + j.Flush()
}

// failed gives the verdict. Status is 0 inside a stream.
func (f fault) failed(status int) *event.AttemptFailed {
	class, retryable := provider.Classify(status, f.code, f.kind)
	if class == event.InvalidRequest && tooLong(f.message) {
		class = event.ContextLength
	}
	detail := f.message
	if detail == "" {
		detail = strings.TrimSpace(f.kind + " " + f.code)
	}
	if detail == "" {
		detail = "no message"
	}
	return &event.AttemptFailed{Class: class, Retryable: retryable, Detail: provider.Said(detail)}
}

// tooLong knows the messages of servers that have no code for it (vLLM, llama.cpp).
func tooLong(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "maximum context length") || strings.Contains(m, "context size") && strings.Contains(m, "exceed")
}

// Status judges an answer that is no stream: an HTTP error, a redirect, which is never
// followed, or a 200 with something else in it.
func (d *decoder) Status(status int, header http.Header, body []byte) *event.AttemptFailed {
	if status >= 300 && status < 400 {
		class, retryable := provider.Classify(status)
		to := "nowhere"
		if u, err := url.Parse(header.Get("Location")); err == nil && u.Host != "" {
			to = u.Host // not the address, which may hold a key
		}
		return &event.AttemptFailed{Class: class, Retryable: retryable, Status: status, RetryAfterMS: provider.RetryAfter(header),
			Detail: provider.OneLine(fmt.Sprintf("status %d redirects to %s, which is not followed", status, to), 300)}
	}
	var f fault
	switch body = bytes.TrimSpace(body); {
	case len(body) == 0, body[0] == '<': // a page says nothing in one line
	case status >= 300, body[0] == '{', body[0] == '[':
		f = said(body)
	}
	var out *event.AttemptFailed
	switch {
	case status >= 300:
		out = f.failed(status)
	case f.message+f.code == "":
		out = &event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "the answer is no event stream"}
	default: // an error with the status of a success
		out = f.failed(0)
	}
	switch header.Get("X-Should-Retry") {
	case "true":
		out.Retryable = true
	case "false":
		out.Retryable = false
	}
	out.Status, out.RetryAfterMS = status, provider.RetryAfter(header)
	out.Detail = provider.OneLine(fmt.Sprintf("status %d: %s", status, out.Detail), 300)
	return out
}
