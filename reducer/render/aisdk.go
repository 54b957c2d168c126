package render

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/feed"
)

// AISDK is the UI message stream of the AI SDK (its ui-message-chunks.ts). The SDK
// refuses types and orders that it does not know, so that this form is strict: parts are
// opened and closed, each inside a step, and the stream has an explicit end.
//
// Resets are sent as reset-step, which the SDK knows since version 7; for earlier ones
// the feed passes through Hold first. An encoder serves one connection from the feed's
// start.
type AISDK struct {
	started  bool
	step     int    // that start-step opened; 0: none
	open     string // id of the open part, "" if none
	kind     string // text or reasoning
	parts    int    // opened so far, so that ids never repeat
	calls    map[string]bool
	finished bool
}

// ContentType is text/event-stream.
func (*AISDK) ContentType() string { return "text/event-stream" }

// Begin adds nothing.
func (*AISDK) Begin(dst []byte) []byte { return dst }

// Ping adds a comment.
func (*AISDK) Ping(dst []byte, _ string) []byte { return append(dst, ": ping\n\n"...) }

// object is one JSON object of a protocol.
type object map[string]any

// End closes what is open. Without a finish the SDK would take what came for the answer.
func (e *AISDK) End(dst []byte, why string) []byte {
	if why != "" && !e.finished {
		dst = data(e.closeStep(dst), object{"type": "error", "errorText": why})
	}
	e.finished = true
	return append(dst, "data: [DONE]\n\n"...)
}

// Append adds the item's chunks.
func (e *AISDK) Append(dst []byte, it Item) ([]byte, error) {
	if !e.started {
		e.started = true
		dst = data(dst, object{"type": "start", "messageId": it.Turn, "messageMetadata": object{"turnfold": object{"turn": it.Turn}}})
	}
	if it.Step > 0 {
		dst = e.openStep(dst, it)
	}
	switch b := it.Body.(type) {
	case *feed.TextDelta:
		return e.piece(dst, it, "text", b.Text), nil
	case *feed.ReasoningDelta:
		return e.piece(dst, it, "reasoning", b.Text), nil
	case *feed.Reset:
		return e.reset(dst, it, b), nil
	case *feed.ToolStart:
		return e.call(dst, b.Call, b.Tool, b.Args), nil
	case *feed.ToolProgress:
		return data(dst, object{"type": "data-turnfold-progress", "transient": true,
			"data": object{"call": b.Call, "tool": b.Tool, "message": b.Message, "percent": b.Percent}}), nil
	case *feed.ToolResult:
		return e.result(dst, b), nil
	case *feed.ApprovalRequest:
		return data(e.call(dst, b.Call, b.Tool, b.Args), object{"type": "data-turnfold-approval", "id": b.Call, "data": object{"turn": it.Turn,
			"call": b.Call, "tool": b.Tool, "args": b.Args, "digest": b.Digest}}), nil
	case *feed.Image:
		return data(e.closePart(dst), object{"type": "file", "mediaType": b.Mime, "url": imageURL(b)}), nil
	case *feed.Card:
		return data(dst, object{"type": "data-turnfold-card", "id": b.Call, "data": object{"kind": b.Card, "data": jsonOr(b.Data)}}), nil
	case *feed.Completion:
		return e.completion(dst, b), nil
	case *feed.Error:
		e.finished = true
		return data(e.closeStep(dst), object{"type": "error", "errorText": b.Message}), nil
	case *feed.MessageSaved:
		return data(dst, object{"type": "message-metadata", "messageMetadata": object{"turnfold": object{"message_id": b.MessageID}}}), nil
	}
	return dst, nil
}

// openStep opens the item's step, if it shows anything.
func (e *AISDK) openStep(dst []byte, it Item) []byte {
	switch it.Body.(type) {
	case *feed.Reset, *feed.Usage, *feed.Unknown, *feed.ToolProgress:
		return dst
	}
	if e.step == it.Step {
		return dst
	}
	dst = e.closeStep(dst)
	e.step, e.calls = it.Step, map[string]bool{}
	return data(dst, object{"type": "start-step"})
}

func (e *AISDK) closeStep(dst []byte) []byte {
	if e.step == 0 {
		return dst
	}
	dst = e.closePart(dst)
	e.step = 0
	return data(dst, object{"type": "finish-step"})
}

func (e *AISDK) closePart(dst []byte) []byte {
	if e.open == "" {
		return dst
	}
	id := e.open
	e.open = ""
	return data(dst, object{"type": e.kind + "-end", "id": id})
}

func (e *AISDK) piece(dst []byte, it Item, kind, text string) []byte {
	if e.open != "" && e.kind != kind {
		dst = e.closePart(dst)
	}
	if e.open == "" {
		e.parts++
		e.open, e.kind = fmt.Sprintf("%d.%d.%d", it.Step, it.Attempt, e.parts), kind
		dst = data(dst, object{"type": kind + "-start", "id": e.open})
	}
	return data(dst, object{"type": kind + "-delta", "id": e.open, "delta": text})
}

// reset takes back the open step. Committed steps cannot be taken back in this protocol:
// then the stream ends with an error, and the client reads the turn anew.
func (e *AISDK) reset(dst []byte, it Item, b *feed.Reset) []byte {
	if it.Step == 0 && e.step > 0 {
		e.finished = true
		return data(e.closeStep(dst), object{"type": "error", "errorText": "What was shown of this turn was taken back (" + b.Reason + "). Connect again."})
	}
	dst = data(dst, object{"type": "data-turnfold-reset", "transient": true,
		"data": object{"step": it.Step, "abandoned": b.Abandoned, "reason": b.Reason}})
	if e.step != it.Step || it.Step == 0 {
		return dst
	}
	e.open, e.calls = "", map[string]bool{} // reset-step removes the parts, open ones too
	return data(dst, object{"type": "reset-step"})
}

// call shows a call. It is executed here, which keeps the browser from doing so.
func (e *AISDK) call(dst []byte, call, tool, args string) []byte {
	e.calls[call] = true
	return data(e.closePart(dst), object{"type": "tool-input-available", "toolCallId": call, "toolName": tool,
		"input": jsonOr(args), "providerExecuted": true, "dynamic": true})
}

func (e *AISDK) result(dst []byte, b *feed.ToolResult) []byte {
	if !e.calls[b.Call] { // refused before it began
		dst = e.call(dst, b.Call, b.Tool, "{}")
	}
	if b.Outcome == "succeeded" {
		return data(dst, object{"type": "tool-output-available", "toolCallId": b.Call, "output": jsonOr(b.Result),
			"providerExecuted": true, "dynamic": true})
	}
	return data(dst, object{"type": "tool-output-error", "toolCallId": b.Call, "errorText": outcomeText(b),
		"providerExecuted": true, "dynamic": true})
}

// aiSDKFinish maps the words of a completion; all others are "other".
var aiSDKFinish = map[string]string{"stop": "stop", "tool_calls": "tool-calls", "filtered": "content-filter", "truncated": "length"}

func (e *AISDK) completion(dst []byte, b *feed.Completion) []byte {
	e.finished = true
	reason := aiSDKFinish[b.Finish]
	if reason == "" {
		reason = "other"
	}
	return data(e.closeStep(dst), object{"type": "finish", "finishReason": reason, "messageMetadata": object{"turnfold": object{
		"finish": b.Finish, "salvaged": b.Salvaged, "attempts": b.Attempts, "usage": b.Usage, "message": b.Message}}})
}

// jsonOr is a text as the JSON value that it is, or else as a string. Clients that must
// not round its numbers read the feed itself.
func jsonOr(text string) any {
	if text == "" {
		return object{}
	}
	if v := jsontext.Value(text); v.IsValid() {
		return v
	}
	return text
}

// outcomeText says to people how a call ended that did not succeed.
func outcomeText(b *feed.ToolResult) string {
	text := b.Outcome
	if b.ErrorClass != "" {
		text += " (" + b.ErrorClass + ")"
	}
	if b.Result != "" {
		text += ": " + b.Result
	}
	return text
}

func imageURL(b *feed.Image) string {
	if b.URL != "" {
		return b.URL
	}
	return "data:" + b.Mime + ";base64," + b.Data
}
