package oracle

import "github.com/turnfold/turnfold/streamer/provider/replay"

const (
	cut   = "../../../cmd/internal/cut/testdata/"
	cases = "../openaichat/testdata/cases/"

	noFinish = "an iterator that comes to a clean end reports no error, whatever is missing"
)

var (
	reset = replay.Fault{Cut: replay.AfterEvent(4)}
	eof   = replay.Fault{Cut: replay.AfterEvent(4), End: replay.EndEOF}
)

// samples are answers, how the adapter ends on them, and in what the SDK differs.
var samples = []struct {
	dialect, name, body string
	fault               replay.Fault
	end                 end
	differ              []string
	why                 string
}{
	{dialect: "openai-chat", name: "two calls", body: cut + "openai-chat-1.sse", end: finished},
	{dialect: "openai-chat", name: "text", body: cut + "openai-chat-3.sse", end: finished},
	{dialect: "openai-chat", name: "byte by byte", body: cut + "openai-chat-1.sse", fault: replay.Fault{Split: replay.SplitByte}, end: finished},
	{dialect: "openai-chat", name: "reset", body: cut + "openai-chat-1.sse", fault: reset, end: failed},
	{dialect: "openai-chat", name: "clean end", body: cut + "openai-chat-1.sse", fault: eof, end: failed, differ: []string{"end"}, why: noFinish},
	{dialect: "openai-chat", name: "error", body: `data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n" + `data: {"error":{"message":"m","type":"server_error"}}` + "\n\n", end: failed},
	{dialect: "openai-chat", name: "length", body: cases + "08-length-but-args-parse.sse", end: length},
	{dialect: "openai-chat", name: "status", body: `{"error":{"message":"m"}}`, fault: replay.Fault{Status: 429}, end: failed},
	{dialect: "openai-chat", name: "null error", body: `data: {"id":"c","error":null,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n", end: finished,
		differ: []string{"text", "end"}, why: "the SDK takes a member error that is null for an error"},
	{dialect: "openai-chat", name: "BOM", body: "\ufeffdata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n", end: finished,
		differ: []string{"text"}, why: "the SDK loses the first event behind a byte order mark"},
	{dialect: "openai-chat", name: "CR", body: "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\r\r", end: finished,
		differ: []string{"text", "end"}, why: "the SDK knows no line end of CR alone"},
	{dialect: "openai-chat", name: "empty data", body: "data:\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n", end: finished,
		differ: []string{"text", "end"}, why: "the SDK reads an empty event as JSON"},
	{dialect: "openai-chat", name: "no index", body: cases + "14-index-same-or-missing.sse", end: finished,
		differ: []string{"calls"}, why: "the SDK merges calls that share an index or have none"},
	{dialect: "openai-chat", name: "names repeated", body: cases + "16-id-and-name-repeated-or-empty.sse", end: finished,
		differ: []string{"calls"}, why: "the SDK appends repeated names"},
	{dialect: "openai-chat", name: "cut arguments", body: cases + "07-finish-lies-about-cut-args.sse", end: failed,
		differ: []string{"end"}, why: "the SDK believes the finish reason, although the arguments are no JSON (I4)"},

	{dialect: "openai-responses", name: "two calls", body: cut + "openai-responses-1.sse", end: finished},
	{dialect: "openai-responses", name: "text", body: cut + "openai-responses-3.sse", end: finished},
	{dialect: "openai-responses", name: "reset", body: cut + "openai-responses-1.sse", fault: reset, end: failed},
	{dialect: "openai-responses", name: "clean end", body: cut + "openai-responses-1.sse", fault: eof, end: failed, differ: []string{"end"}, why: noFinish},
	{dialect: "openai-responses", name: "incomplete", body: sse("response.incomplete", `"response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":5,"output_tokens":6}}`), end: length},
	{dialect: "openai-responses", name: "failed", body: sse("response.failed", `"response":{"id":"r","status":"failed","error":{"code":"server_error","message":"m"}}`), end: failed,
		differ: []string{"end"}, why: "response.failed is an event like any other to the SDK"},
	{dialect: "openai-responses", name: "flat error", body: sse("error", `"code":"server_error","message":"m"`), end: failed,
		differ: []string{"end"}, why: "a flat error is an event like any other to the SDK"},

	{dialect: "anthropic-messages", name: "two calls", body: cut + "anthropic-messages-1.sse", end: finished},
	{dialect: "anthropic-messages", name: "text", body: cut + "anthropic-messages-3.sse", end: finished},
	{dialect: "anthropic-messages", name: "reset", body: cut + "anthropic-messages-1.sse", fault: reset, end: failed},
	{dialect: "anthropic-messages", name: "clean end", body: cut + "anthropic-messages-1.sse", fault: eof, end: failed, differ: []string{"end"}, why: noFinish},
	{dialect: "anthropic-messages", name: "usage", body: "../anthropic/testdata/cases/27-usage-snapshots-anthropic.sse", end: finished},
	{dialect: "anthropic-messages", name: "error", body: sse("error", `"error":{"type":"overloaded_error","message":"m"}`), end: failed},
	{dialect: "anthropic-messages", name: "no event names", body: `data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}` + "\n\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n", end: finished,
		differ: []string{"text", "usage", "end"}, why: "the SDK drops events without a name, and says nothing"},
	{dialect: "anthropic-messages", name: "cut input", body: sse("message_start", `"message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1}}`) +
		sse("content_block_start", `"index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}`) +
		sse("content_block_delta", `"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}`) + sse("content_block_stop", `"index":0`) +
		sse("message_delta", `"delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":2}`) + sse("message_stop", `"x":0`), end: length,
		differ: []string{"calls"}, why: "the SDK makes {} of an input that was cut"},

	{dialect: "gemini", name: "two calls", body: cut + "gemini-1.sse", end: finished},
	{dialect: "gemini", name: "text", body: cut + "gemini-3.sse", end: finished},
	{dialect: "gemini", name: "reset", body: cut + "gemini-1.sse", fault: reset, end: failed},
	{dialect: "gemini", name: "clean end", body: cut + "gemini-1.sse", fault: eof, end: failed, differ: []string{"end"}, why: noFinish},
	{dialect: "gemini", name: "length", body: `data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}]}` + "\r\n\r\n", end: length},
	{dialect: "gemini", name: "filtered", body: `data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"SAFETY"}]}` + "\r\n\r\n", end: filtered},
	{dialect: "gemini", name: "error", body: `data: {"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}` + "\r\n\r\n", end: failed},
	{dialect: "gemini", name: "large integers", body: "../gemini/testdata/cases/21-integers-above-2-53.sse", end: finished,
		differ: []string{"calls"}, why: "the SDK makes floating point numbers of arguments"},
	{dialect: "gemini", name: "comment", body: ": ping\r\n\r\n" + `data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}` + "\r\n\r\n", end: finished,
		differ: []string{"text", "end"}, why: "the SDK takes a comment for an error"},
}

// sse is an event in the form of OpenAI's Responses and Anthropic's Messages.
func sse(kind, members string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + members + "}\n\n"
}
