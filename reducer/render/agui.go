package render

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/feed"
)

// AGUI is the event stream of AG-UI 1.0. Its client holds events to an order: what was
// opened is closed before anything replaces it, and nothing follows RUN_FINISHED, which
// is therefore the last thing sent, after the message is saved.
//
// The protocol has no reset: what is open is ended, and a snapshot of all messages
// without the abandoned one replaces what the client has. An encoder serves one
// connection from the feed's start.
type AGUI struct {
	Thread, Run string
	// History is the messages of the request, as they came: a snapshot replaces them too.
	History []jsontext.Value

	started   bool
	messages  []object // of this turn: what a snapshot holds beside the history
	step      int      // that the latest of messages belong to
	from      int      // where they begin
	open      string   // id of the open message, "" if none
	reasoning bool     // it is one of reasoning
	text      []byte   // of the open message
	parent    string   // assistant message that calls of the step belong to
	opened    int      // messages so far, so that ids never repeat
	done      *feed.Completion
	ended     bool
}

// ContentType is text/event-stream.
func (*AGUI) ContentType() string { return "text/event-stream" }

// Begin adds nothing: the run starts with the turn.
func (*AGUI) Begin(dst []byte) []byte { return dst }

// Ping adds a comment.
func (*AGUI) Ping(dst []byte, _ string) []byte { return append(dst, ": ping\n\n"...) }

// End finishes the run. A stream that only breaks off counts as success there.
func (e *AGUI) End(dst []byte, why string) []byte {
	if e.ended {
		return dst
	}
	e.ended = true
	if e.done == nil {
		return data(e.close(e.start(dst)), object{"type": "RUN_ERROR", "message": why, "code": "interrupted"})
	}
	u := e.done.Usage
	return data(dst, object{"type": "RUN_FINISHED", "threadId": e.Thread, "runId": e.Run, "outcome": object{"type": "success"},
		"result": object{"finish": e.done.Finish, "salvaged": e.done.Salvaged, "attempts": e.done.Attempts, "message": e.done.Message},
		"usage": []object{{"inputTokens": u.Input, "outputTokens": u.Output, "totalTokens": u.Input + u.Output,
			"reasoningTokens": u.Reasoning, "cachedInputTokens": u.CacheRead}}})
}

func (e *AGUI) start(dst []byte) []byte {
	if e.started {
		return dst
	}
	e.started = true
	return data(dst, object{"type": "RUN_STARTED", "threadId": e.Thread, "runId": e.Run})
}

// Append adds the item's events.
func (e *AGUI) Append(dst []byte, it Item) ([]byte, error) {
	if e.ended {
		return dst, nil
	}
	dst = e.start(dst)
	if it.Step > e.step {
		dst = e.close(dst)
		e.step, e.from, e.parent = it.Step, len(e.messages), ""
	}
	switch b := it.Body.(type) {
	case *feed.TextDelta:
		return e.piece(dst, it, false, b.Text), nil
	case *feed.ReasoningDelta:
		return e.piece(dst, it, true, b.Text), nil
	case *feed.Reset:
		return e.reset(dst, it, b), nil
	case *feed.ToolStart:
		return e.call(dst, it, b.Call, b.Tool, b.Args), nil
	case *feed.ToolProgress:
		return custom(dst, "progress", object{"call": b.Call, "tool": b.Tool, "message": b.Message, "percent": b.Percent}), nil
	case *feed.ToolResult:
		return e.result(dst, it, b), nil
	case *feed.ApprovalRequest:
		return custom(dst, "approval", object{"turn": it.Turn, "call": b.Call, "tool": b.Tool, "args": b.Args, "digest": b.Digest}), nil
	case *feed.Image:
		return custom(dst, "image", object{"call": b.Call, "mime": b.Mime, "url": imageURL(b)}), nil
	case *feed.Card:
		return custom(dst, "card", object{"call": b.Call, "kind": b.Card, "data": jsonOr(b.Data)}), nil
	case *feed.Completion:
		e.done = b
		return e.close(dst), nil
	case *feed.MessageSaved:
		return custom(dst, "saved", object{"message_id": b.MessageID}), nil
	case *feed.Error:
		e.ended = true
		return data(e.close(dst), object{"type": "RUN_ERROR", "message": b.Message, "code": b.Class}), nil
	}
	return dst, nil
}

func custom(dst []byte, name string, value any) []byte {
	return data(dst, object{"type": "CUSTOM", "name": "turnfold." + name, "value": value})
}

func (e *AGUI) piece(dst []byte, it Item, reasoning bool, text string) []byte {
	if e.open != "" && e.reasoning != reasoning {
		dst = e.close(dst)
	}
	if e.open == "" {
		e.opened++
		e.open, e.reasoning = fmt.Sprintf("%s-%d.%d.%d", it.Turn, it.Step, it.Attempt, e.opened), reasoning
		if reasoning {
			dst = data(dst, object{"type": "REASONING_START", "messageId": e.open})
			dst = data(dst, object{"type": "REASONING_MESSAGE_START", "messageId": e.open, "role": "reasoning"})
		} else {
			dst = data(dst, object{"type": "TEXT_MESSAGE_START", "messageId": e.open, "role": "assistant"})
		}
	}
	e.text = append(e.text, text...)
	kind := "TEXT_MESSAGE_CONTENT"
	if reasoning {
		kind = "REASONING_MESSAGE_CONTENT"
	}
	return data(dst, object{"type": kind, "messageId": e.open, "delta": text})
}

// close ends the open message and keeps it for snapshots.
func (e *AGUI) close(dst []byte) []byte {
	if e.open == "" {
		return dst
	}
	id, text := e.open, string(e.text)
	e.open, e.text = "", nil
	if e.reasoning {
		e.messages = append(e.messages, object{"id": id, "role": "reasoning", "content": text})
		dst = data(dst, object{"type": "REASONING_MESSAGE_END", "messageId": id})
		return data(dst, object{"type": "REASONING_END", "messageId": id})
	}
	e.parent = id
	e.messages = append(e.messages, object{"id": id, "role": "assistant", "content": text})
	return data(dst, object{"type": "TEXT_MESSAGE_END", "messageId": id})
}

func (e *AGUI) reset(dst []byte, it Item, b *feed.Reset) []byte {
	dst = e.close(dst)
	if it.Step == 0 {
		e.messages, e.step, e.from = nil, 0, 0
		e.done = nil
	}
	e.messages, e.parent = e.messages[:e.from], ""
	dst = custom(dst, "reset", object{"step": it.Step, "abandoned": b.Abandoned, "reason": b.Reason})
	all := make([]any, 0, len(e.History)+len(e.messages))
	for _, m := range e.History {
		all = append(all, m)
	}
	for _, m := range e.messages {
		all = append(all, m)
	}
	return data(dst, object{"type": "MESSAGES_SNAPSHOT", "messages": all})
}

// call shows a call of a committed step, below the step's text.
func (e *AGUI) call(dst []byte, it Item, call, tool, args string) []byte {
	dst = e.close(dst)
	if e.parent == "" {
		e.opened++
		e.parent = fmt.Sprintf("%s-%d.%d.%d", it.Turn, it.Step, it.Attempt, e.opened)
		e.messages = append(e.messages, object{"id": e.parent, "role": "assistant"})
	}
	id := it.Turn + "-" + call
	for _, m := range e.messages {
		if m["id"] == e.parent {
			calls, _ := m["toolCalls"].([]object)
			m["toolCalls"] = append(calls, object{"id": id, "type": "function", "function": object{"name": tool, "arguments": args}})
		}
	}
	dst = data(dst, object{"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool, "parentMessageId": e.parent})
	dst = data(dst, object{"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": args})
	return data(dst, object{"type": "TOOL_CALL_END", "toolCallId": id})
}

func (e *AGUI) result(dst []byte, it Item, b *feed.ToolResult) []byte {
	id := it.Turn + "-" + b.Call
	if !e.called(id) { // refused before it began
		dst = e.call(dst, it, b.Call, b.Tool, "{}")
	}
	text := b.Result
	if b.Outcome != "succeeded" {
		text = outcomeText(b)
	}
	m := object{"id": id + "-result", "role": "tool", "toolCallId": id, "content": text}
	e.messages = append(e.messages, m)
	return data(dst, object{"type": "TOOL_CALL_RESULT", "messageId": m["id"], "toolCallId": id, "content": text, "role": "tool"})
}

func (e *AGUI) called(id string) bool {
	for _, m := range e.messages {
		calls, _ := m["toolCalls"].([]object)
		for _, c := range calls {
			if c["id"] == id {
				return true
			}
		}
	}
	return false
}
