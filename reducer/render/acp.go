package render

import (
	"fmt"

	"github.com/turnfold/turnfold/subjects/feed"
)

// ACPUpdates gives an item as updates of an Agent Client Protocol session (version 1).
// That version cannot take a chunk back, so that the feed must pass through Hold first;
// calls come once their attempt has won in any case. Each reply is a message of its own.
func ACPUpdates(it Item) []map[string]any {
	switch b := it.Body.(type) {
	case *feed.TextDelta:
		return []map[string]any{acpChunk(it, "agent_message_chunk", object{"type": "text", "text": b.Text})}
	case *feed.ReasoningDelta:
		return []map[string]any{acpChunk(it, "agent_thought_chunk", object{"type": "text", "text": b.Text})}
	case *feed.ToolStart:
		return []map[string]any{acpCall(it, b.Call, b.Tool, b.Args, "in_progress")}
	case *feed.ToolProgress:
		text := b.Message
		if b.Percent > 0 {
			text = fmt.Sprintf("%d%% %s", b.Percent, b.Message)
		}
		return []map[string]any{acpNews(it, b.Call, "in_progress", text, nil)}
	case *feed.ApprovalRequest:
		return []map[string]any{acpCall(it, b.Call, b.Tool, b.Args, "pending")}
	case *feed.ToolResult:
		status, text := "completed", b.Result
		if b.Outcome != "succeeded" {
			status, text = "failed", outcomeText(b)
		}
		var before []map[string]any
		if b.Outcome == "refused" { // it may have been refused before it began
			before = append(before, acpCall(it, b.Call, b.Tool, "{}", "pending"))
		}
		return append(before, acpNews(it, b.Call, status, text, jsonOr(b.Result)))
	case *feed.Image:
		if b.URL != "" {
			return []map[string]any{acpChunk(it, "agent_message_chunk", object{"type": "resource_link", "uri": b.URL, "name": "image", "mimeType": b.Mime})}
		}
		return []map[string]any{acpChunk(it, "agent_message_chunk", object{"type": "image", "data": b.Data, "mimeType": b.Mime})}
	case *feed.Card:
		u := acpNews(it, b.Call, "completed", b.Data, nil)
		u["_meta"] = object{"turnfold": object{"card": b.Card}}
		return []map[string]any{u}
	}
	return nil
}

func acpChunk(it Item, kind string, content object) map[string]any {
	return object{"sessionUpdate": kind, "content": content, "messageId": fmt.Sprintf("%s-%d.%d", it.Turn, it.Step, it.Attempt)}
}

// acpCallID names a call among all of a session.
func acpCallID(it Item, call string) string { return it.Turn + "-" + call }

func acpCall(it Item, call, tool, args, status string) map[string]any {
	return object{"sessionUpdate": "tool_call", "toolCallId": acpCallID(it, call), "title": tool, "kind": "other",
		"status": status, "rawInput": jsonOr(args)}
}

func acpNews(it Item, call, status, text string, output any) map[string]any {
	u := object{"sessionUpdate": "tool_call_update", "toolCallId": acpCallID(it, call), "status": status}
	if text != "" {
		u["content"] = []object{{"type": "content", "content": object{"type": "text", "text": text}}}
	}
	if output != nil {
		u["rawOutput"] = output
	}
	return u
}

// ACPStop is the protocol's word for how a turn ended.
func ACPStop(finish string, salvaged bool) string {
	switch finish {
	case "cancelled":
		return "cancelled"
	case "filtered":
		return "refusal"
	case "truncated":
		return "max_tokens"
	case "loop", "attempts_per_turn", "tokens_per_turn", "deadline":
		return "max_turn_requests"
	}
	if salvaged {
		return "max_tokens" // of its words the nearest for an answer that is not whole
	}
	return "end_turn"
}
