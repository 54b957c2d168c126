package render

import (
	"github.com/turnfold/turnfold/subjects/feed"
)

// OpenAI is the answer of OpenAI's chat completions, streamed or as one document. The
// protocol cannot take anything back, so that the feed must pass through Hold first, and
// it never shows the calls that turnfold runs: a client would run them again.
type OpenAI struct {
	// Model is what the request named.
	Model string
	// Created is when the request came, in seconds of Unix time.
	Created int64
	// Stream: as chunks. Usage: with a last one that counts tokens.
	Stream, Usage bool

	turn   string
	begun  bool
	text   []byte
	calls  []object
	finish string
	extra  object
	totals feed.Totals
	failed *feed.Error
	broken string
}

// ContentType depends on the form.
func (e *OpenAI) ContentType() string {
	if e.Stream {
		return "text/event-stream"
	}
	return "application/json"
}

// Begin adds nothing.
func (e *OpenAI) Begin(dst []byte) []byte { return dst }

// Ping adds a comment to a stream.
func (e *OpenAI) Ping(dst []byte, _ string) []byte {
	if !e.Stream {
		return dst
	}
	return append(dst, ": ping\n\n"...)
}

// Append adds the item's chunks, or keeps what the document needs of it.
func (e *OpenAI) Append(dst []byte, it Item) ([]byte, error) {
	e.turn = it.Turn
	switch b := it.Body.(type) {
	case *feed.TurnAccepted:
		return e.delta(dst, object{}), nil
	case *feed.TextDelta:
		if e.Stream {
			return e.delta(dst, object{"content": b.Text}), nil
		}
		e.text = append(e.text, b.Text...)
	case *feed.ClientCall:
		call := object{"id": b.ProviderID, "type": "function", "function": object{"name": b.Tool, "arguments": b.Args}}
		e.calls = append(e.calls, call)
		if e.Stream {
			call["index"] = len(e.calls) - 1
			return e.delta(dst, object{"tool_calls": []object{call}}), nil
		}
	case *feed.Completion:
		e.complete(b)
	case *feed.Error:
		e.failed = b
	case *feed.MessageSaved:
		if e.extra != nil {
			e.extra["message_id"] = b.MessageID
		}
	}
	return dst, nil
}

func (e *OpenAI) complete(b *feed.Completion) {
	e.totals = b.Usage
	e.extra = object{"turn": e.turn, "finish": b.Finish, "salvaged": b.Salvaged, "attempts": b.Attempts}
	if b.Message != "" {
		e.extra["message"] = b.Message
	}
	switch {
	case b.Finish == "filtered":
		e.finish = "content_filter"
	case b.Finish == "tool_calls":
		e.finish = "tool_calls"
	case b.Salvaged:
		e.finish = "length" // the protocol's one word for an answer that is not whole
	default:
		e.finish = "stop"
	}
}

// delta adds a chunk; the first one says whose words these are.
func (e *OpenAI) delta(dst []byte, d object) []byte {
	if !e.Stream {
		return dst
	}
	if !e.begun {
		e.begun = true
		first := object{"role": "assistant", "content": ""}
		dst = data(dst, e.chunk([]object{{"index": 0, "delta": first, "finish_reason": nil}}))
	}
	if len(d) == 0 {
		return dst
	}
	return data(dst, e.chunk([]object{{"index": 0, "delta": d, "finish_reason": nil}}))
}

func (e *OpenAI) chunk(choices []object) object {
	return object{"id": "chatcmpl-" + e.turn, "object": "chat.completion.chunk", "created": e.Created, "model": e.Model, "choices": choices}
}

// End adds the end of the stream, or the document.
func (e *OpenAI) End(dst []byte, why string) []byte {
	if e.finish == "" && e.failed == nil {
		e.broken = why
	}
	if !e.Stream {
		return append(appendJSON(dst, e.document()), '\n')
	}
	switch {
	case e.finish != "":
		last := e.chunk([]object{{"index": 0, "delta": object{}, "finish_reason": e.finish}})
		last["turnfold"] = e.extra
		dst = data(e.delta(dst, object{}), last)
		if e.Usage {
			count := e.chunk([]object{})
			count["usage"] = e.usage()
			dst = data(dst, count)
		}
	default:
		dst = data(dst, e.fault())
	}
	return append(dst, "data: [DONE]\n\n"...)
}

func (e *OpenAI) document() object {
	if e.finish == "" {
		return e.fault()
	}
	message := object{"role": "assistant", "content": string(e.text), "refusal": nil}
	if len(e.calls) > 0 {
		message["tool_calls"] = e.calls
		if len(e.text) == 0 {
			message["content"] = nil
		}
	}
	return object{"id": "chatcmpl-" + e.turn, "object": "chat.completion", "created": e.Created, "model": e.Model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": e.finish, "logprobs": nil}}, "usage": e.usage(), "turnfold": e.extra}
}

func (e *OpenAI) usage() object {
	u := e.totals
	return object{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning}}
}

// fault is the protocol's form of an error.
func (e *OpenAI) fault() object {
	message, class := e.broken, "unavailable"
	if e.failed != nil {
		message, class = e.failed.Message, e.failed.Class
	}
	return OpenAIError(e.Status(), message, "", class)
}

// openAIStatus maps classes of errors; all others are 502, the model's fault.
var openAIStatus = map[string]int{"invalid_request": 400, "context_length": 400, "filtered": 400, "rate_limited": 429,
	"conflict": 409, "too_large": 413, "overloaded": 503, "unavailable": 503, "taken_back": 503, "deadline": 504}

// Status is that of the document.
func (e *OpenAI) Status() int {
	class := "unavailable"
	switch {
	case e.finish != "":
		return 200
	case e.failed != nil:
		class = e.failed.Class
	}
	if status, ok := openAIStatus[class]; ok {
		return status
	}
	return 502
}

// openAITypes names kinds of errors by status.
var openAITypes = map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
	404: "invalid_request_error", 409: "invalid_request_error", 413: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error"}

// OpenAIError is the body of an error in the protocol's form.
func OpenAIError(status int, message, param, code string) map[string]any {
	kind := openAITypes[status]
	if kind == "" {
		kind = "server_error"
	}
	e := object{"message": message, "type": kind, "param": nil, "code": nil}
	if param != "" {
		e["param"] = param
	}
	if code != "" {
		e["code"] = code
	}
	return object{"error": e}
}
