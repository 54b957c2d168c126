package provider_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/anthropic"
	"github.com/turnfold/turnfold/streamer/provider/gemini"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/streamer/provider/openairesponses"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// speeds are streams of small deltas in the form of each maker's own recordings: what
// comes first, one delta with its number, and what ends the reply.
var speeds = []struct {
	api               provider.API
	kind              string
	open, delta, last string
}{
	{openaichat.API{}, "text", "",
		`data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"m-small","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" tok%d"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"xyz0123"}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"},
	{openaichat.API{}, "args", `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"k\":[0"}}]}}]}` + "\n\n",
		`data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"m-small","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":",%d"}}]},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"xyz0123"}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"]}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"},
	{openairesponses.API{}, "text", `event: response.output_item.added` + "\n" + `data: {"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","content":[]}}` + "\n\n",
		"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":" tok%d","logprobs":[],"obfuscation":"xyz0123456789"}` + "\n\n",
		`data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2}}}` + "\n\n"},
	{openairesponses.API{}, "args", `data: {"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":""}}` + "\n\n" + `data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"k\":[0"}` + "\n\n",
		"event: response.function_call_arguments.delta\n" + `data: {"type":"response.function_call_arguments.delta","item_id":"fc_0123456789abcdef","output_index":0,"delta":",%d","obfuscation":"xyz0123456789"}` + "\n\n",
		`data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"]}"}` + "\n\n" + `data: {"type":"response.output_item.done","output_index":0,"item":{"id":"fc_1","type":"function_call","call_id":"c1","name":"f"}}` + "\n\n" + `data: {"type":"response.completed","response":{"id":"r","status":"completed","usage":{"input_tokens":1,"output_tokens":2}}}` + "\n\n"},
	{anthropic.API{}, "text", messageStart + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" tok%d"}}` + "\n\n", messageStop},
	{anthropic.API{}, "args", messageStart + `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}` + "\n\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"k\":[0"}}` + "\n\n",
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":",%d"}}` + "\n\n",
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"]}"}}` + "\n\n" + messageStop},
	{gemini.API{}, "text", "",
		`data: {"candidates":[{"content":{"parts":[{"text":" tok%d"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":7,"totalTokenCount":37,"promptTokensDetails":[{"modality":"TEXT","tokenCount":30}]},"modelVersion":"m-small","responseId":"g1"}` + "\r\n\r\n", geminiStop},
	{gemini.API{}, "calls", "",
		`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"k":%d}}}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":7,"totalTokenCount":37},"modelVersion":"m-small","responseId":"g1"}` + "\r\n\r\n", geminiStop},
}

const (
	messageStart = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n"
	messageStop  = `data: {"type":"content_block_stop","index":0}` + "\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
	geminiStop   = `data: {"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}` + "\r\n\r\n"
)

// BenchmarkAdapters is a whole stream of small deltas through the event parser and each
// adapter, on one core; goal: 60 MB/s of body.
func BenchmarkAdapters(b *testing.B) {
	const n = 5000
	for _, s := range speeds {
		body := bytes.NewBufferString(s.open)
		for i := range n {
			fmt.Fprintf(body, s.delta, i)
		}
		body.WriteString(s.last)
		stream := body.String()
		b.Run(s.api.Name()+"/"+s.kind, func(b *testing.B) {
			providertest.Speed(b, len(stream), n, func() {
				d, got := s.api.NewDecoder(), 0
				emit := func(event.Body) error { got++; return nil }
				broken := provider.ReadEvents(strings.NewReader(stream), 1<<20, func(name string, data []byte) (bool, error) { return d.Event(name, data, emit) })
				if end := d.End(broken); got < n || !finished(end) {
					b.Fatalf("%+v after %d pieces", end, got)
				}
			})
		})
	}
}

func finished(end event.Body) bool {
	_, ok := end.(*event.AttemptFinished)
	return ok
}
