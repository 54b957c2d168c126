package cut

import (
	"encoding/json"
	"fmt"
	"strings"
)

// reading is what the whole events of a body say.
type reading struct {
	text     string
	args     []string // of the calls, as they came
	finished bool     // the dialect's finish came
	// finalUsage: the count that the provider calls its last came.
	finalUsage    bool
	input, output int
	events        int
	data          string // of the latest event
}

// read reads a prefix of a body by the grammar of server-sent events and the makers'
// own description of their dialect. It is for whole recordings of two calls and knows
// nothing of servers' bad habits.
func read(dialect string, body []byte) (reading, error) {
	var r reading
	take := map[string]func(*reading, map[string]any){
		"openai-chat": (*reading).chat, "openai-responses": (*reading).responses,
		"anthropic-messages": (*reading).messages, "gemini": (*reading).gemini,
	}[dialect]
	for _, data := range events(string(body)) {
		r.events++
		r.data = data
		if data == "[DONE]" {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return r, fmt.Errorf("%s event %d: %w", dialect, r.events, err)
		}
		if !r.finished || dialect == "openai-chat" { // only there something may follow
			take(&r, e)
		}
	}
	return r, nil
}

// events gives the data of each event that its blank line has ended.
func events(s string) []string {
	var out []string
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n") // a lone CR ends a line, also as the last byte
	for {
		block, rest, whole := strings.Cut(s, "\n\n")
		if !whole {
			return out
		}
		for line := range strings.SplitSeq(block, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				out = append(out, data)
			}
		}
		s = rest
	}
}

// at walks into a JSON value; nil if there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func word(v any, path ...any) string {
	s, _ := at(v, path...).(string)
	return s
}

func number(v any, path ...any) (int, bool) {
	n, ok := at(v, path...).(float64)
	return int(n), ok
}

func (r *reading) count(v any, input, output string) (any bool) {
	if n, ok := number(v, input); ok {
		r.input, any = n, true
	}
	if n, ok := number(v, output); ok {
		r.output, any = n, true
	}
	return any
}

func (r *reading) arguments(place int, text string) {
	for len(r.args) <= place {
		r.args = append(r.args, "")
	}
	r.args[place] += text
}

func (r *reading) chat(e map[string]any) {
	if r.count(e["usage"], "prompt_tokens", "completion_tokens") {
		r.finalUsage = true
	}
	r.text += word(e, "choices", 0, "delta", "content")
	calls, _ := at(e, "choices", 0, "delta", "tool_calls").([]any)
	for _, c := range calls {
		n, _ := number(c, "index")
		r.arguments(n, word(c, "function", "arguments"))
	}
	r.finished = r.finished || word(e, "choices", 0, "finish_reason") != ""
}

func (r *reading) responses(e map[string]any) {
	n, _ := number(e, "output_index")
	switch word(e, "type") {
	case "response.output_text.delta":
		r.text += word(e, "delta")
	case "response.function_call_arguments.delta":
		r.arguments(n-1, word(e, "delta"))
	case "response.output_item.done":
		if n > 0 { // the snapshot replaces what came in pieces
			r.arguments(n-1, "")
			r.args[n-1] = word(e, "item", "arguments")
		}
	case "response.completed":
		r.finished = true
		r.finalUsage = r.count(at(e, "response", "usage"), "input_tokens", "output_tokens")
	}
}

func (r *reading) messages(e map[string]any) {
	n, _ := number(e, "index")
	switch word(e, "type") {
	case "message_start":
		r.count(at(e, "message", "usage"), "input_tokens", "output_tokens")
	case "content_block_delta":
		r.text += word(e, "delta", "text")
		if part := word(e, "delta", "partial_json"); part != "" {
			r.arguments(n-1, part)
		}
	case "message_delta":
		r.finalUsage = r.count(e["usage"], "input_tokens", "output_tokens")
	case "message_stop":
		r.finished = true
	}
}

func (r *reading) gemini(e map[string]any) {
	r.count(e["usageMetadata"], "promptTokenCount", "candidatesTokenCount")
	r.text += word(e, "candidates", 0, "content", "parts", 0, "text")
	if at(e, "candidates", 0, "content", "parts", 0, "functionCall") != nil {
		// The recordings have one call per event, whose members stand in this order: the
		// text itself is wanted, not its value.
		_, args, _ := strings.Cut(r.data, `"name":"refund","args":`)
		args, _, _ = strings.Cut(args, "}")
		r.arguments(len(r.args), args+"}")
	}
	if word(e, "candidates", 0, "finishReason") != "" {
		r.finished, r.finalUsage = true, true
	}
}
