package provider

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnfold/turnfold/subjects/event"
)

// Complaint is a provider's error payload, inside a stream or not.
type Complaint struct {
	Message, Type, Code string
	Reason              string // a finer word that some give beside the code
	RequestID           string
	RetryAfterMS        int64
}

// complaintDepthMax bounds how deep an error is looked for in its wrapping.
const complaintDepthMax = 8

// ReadComplaint reads a payload: an object with message, type and code at some depth,
// or just text.
func ReadComplaint(payload []byte) Complaint {
	var c Complaint
	if payload = bytes.TrimSpace(payload); len(payload) == 0 || bytes.IndexByte([]byte(`{["`), payload[0]) < 0 {
		c.Message = string(payload)
		return c
	}
	s := NewScan()
	s.Reset(payload)
	c.read(s, 0)
	return c
}

func (c *Complaint) read(s *Scan, depth int) {
	switch {
	case s.Kind() == '"':
		setWord(&c.Message, s.Value())
		return
	case s.Kind() == '[' && depth < complaintDepthMax:
		for ok := s.Open('['); ok && s.Element(); {
			c.read(s, depth+1)
		}
		return
	case depth >= complaintDepthMax:
		s.Skip()
		return
	}
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "message", "detail", "msg":
			setWord(&c.Message, s.Value())
		case "type", "status":
			// An envelope calls itself an error; what kind of one, its content says.
			if v := s.Value(); string(v) != `"error"` {
				setWord(&c.Type, v)
			}
		case "code":
			setWord(&c.Code, s.Value())
		case "reason":
			setWord(&c.Reason, s.Value())
		case "request_id":
			setWord(&c.RequestID, s.Value())
		case "retryDelay": // google.rpc.RetryInfo: "34.5s"
			var v string
			setWord(&v, s.Value())
			if d, err := time.ParseDuration(v); err == nil && d > 0 {
				c.RetryAfterMS = min(d, 24*time.Hour).Milliseconds()
			}
		case "error", "innererror", "details":
			c.read(s, depth+1)
		default:
			s.Skip()
		}
	}
}

// setWord keeps the first word that says something. Codes come as numbers too.
func setWord(to *string, v []byte) {
	if *to != "" || len(v) == 0 || string(v) == "null" || v[0] == '{' || v[0] == '[' {
		return
	}
	if v[0] != '"' {
		*to = string(v)
		return
	}
	*to = Word(v)
}

// Word is the content of a JSON string in valid UTF-8.
func Word(quoted []byte) string {
	if len(quoted) <= 2 {
		return ""
	}
	var j Joiner
	s := j.Next(Unquote(nil, quoted))
	return s + j.Flush()
}

// Failed gives the verdict. Status is 0 inside a stream.
func (c Complaint) Failed(status int) *event.AttemptFailed {
	class, retryable := Classify(status, c.Code, c.Type)
	switch {
	case c.Reason == "API_KEY_INVALID": // Google says it with status 400
		class, retryable = event.Auth, false
	case class == event.InvalidRequest && tooLong(c.Message):
		class = event.ContextLength
	}
	detail := c.Message
	if detail == "" {
		detail = strings.TrimSpace(c.Type + " " + c.Code)
	}
	if detail == "" {
		detail = "no message"
	}
	return &event.AttemptFailed{Class: class, Retryable: retryable, RetryAfterMS: c.RetryAfterMS,
		RequestID: OneLine(c.RequestID, 200), Detail: Said(detail)}
}

// InStream is the verdict about an error that came after a 200.
func (c Complaint) InStream() *event.AttemptFailed {
	f := c.Failed(0)
	f.Detail = OneLine("the stream reports an error: "+f.Detail, detailBytesMax)
	return f
}

// tooLong knows the messages of those that have no code for it.
func tooLong(message string) bool {
	m := strings.ToLower(message)
	for _, words := range []string{"maximum context length", "prompt is too long", "exceed context limit",
		"exceeds the maximum number of tokens"} {
		if strings.Contains(m, words) {
			return true
		}
	}
	return strings.Contains(m, "context size") && strings.Contains(m, "exceed")
}

// Refused judges an answer that is no stream: an HTTP error, a redirect, which is never
// followed, or a 200 with something else in it.
func Refused(status int, header http.Header, body []byte) *event.AttemptFailed {
	if status >= 300 && status < 400 {
		class, retryable := Classify(status)
		to := "nowhere"
		if u, err := url.Parse(header.Get("Location")); err == nil && u.Host != "" {
			to = u.Host // not the address, which may hold a key
		}
		return &event.AttemptFailed{Class: class, Retryable: retryable, Status: status, RetryAfterMS: RetryAfter(header),
			Detail: OneLine(fmt.Sprintf("status %d redirects to %s, which is not followed", status, to), detailBytesMax)}
	}
	var c Complaint
	switch body = bytes.TrimSpace(body); {
	case len(body) == 0, body[0] == '<': // a page says nothing in one line
	case status >= 300, body[0] == '{', body[0] == '[':
		c = ReadComplaint(body)
	}
	var out *event.AttemptFailed
	switch {
	case status >= 300:
		out = c.Failed(status)
	case c.Message+c.Code == "":
		out = &event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "the answer is no event stream"}
	default: // an error with the status of a success
		out = c.Failed(0)
	}
	switch header.Get("X-Should-Retry") {
	case "true":
		out.Retryable = true
	case "false":
		out.Retryable = false
	}
	out.Status = status
	if ms := RetryAfter(header); ms > 0 {
		out.RetryAfterMS = ms
	}
	if RequestID(header) != "" {
		out.RequestID = "" // the header's name for it is the one that support asks for
	}
	out.Detail = OneLine(fmt.Sprintf("status %d: %s", status, out.Detail), detailBytesMax)
	return out
}
