package oracle

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// sdks read one answer as their makers' documentation shows it, without retries.
var sdks = map[string]func(t *testing.T, base string) heard{
	"openai-chat": chat, "openai-responses": response, "anthropic-messages": messages, "gemini": content,
}

// outcomes are the words with which the APIs end a reply, by what they mean. A word
// that is missing here counts as none.
var outcomes = map[string]end{
	"stop": finished, "tool_calls": finished, "completed": finished, "end_turn": finished, "tool_use": finished, "STOP": finished,
	"length": length, "max_output_tokens": length, "max_tokens": length, "MAX_TOKENS": length,
	"content_filter": filtered, "refusal": filtered, "SAFETY": filtered,
}

// ended is how the loop over a stream ended for its user.
func ended(err error, word string) end {
	if err != nil {
		return failed
	}
	if e, ok := outcomes[word]; ok {
		return e
	}
	return silent
}

func newOpenAI(base string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("k"), option.WithMaxRetries(0))
}

func chat(t *testing.T, base string) (h heard) {
	c := newOpenAI(base)
	stream := c.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "m",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("q")}})
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	word := ""
	if len(acc.Choices) > 0 {
		m := acc.Choices[0].Message
		h.text, word = m.Content, acc.Choices[0].FinishReason
		for _, c := range m.ToolCalls {
			h.calls = append(h.calls, call{c.ID, c.Function.Name, c.Function.Arguments})
		}
	}
	h.input, h.output = acc.Usage.PromptTokens, acc.Usage.CompletionTokens
	h.end, h.err = ended(stream.Err(), word), stream.Err()
	return h
}

func response(t *testing.T, base string) (h heard) {
	c := newOpenAI(base)
	stream := c.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "m",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("q")}})
	defer stream.Close()
	word := ""
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			h.text += e.Delta
		case responses.ResponseOutputItemAddedEvent:
			if f := e.Item; f.Type == "function_call" {
				h.calls = append(h.calls, call{f.CallID, f.Name, ""})
			}
		case responses.ResponseFunctionCallArgumentsDeltaEvent:
			h.calls[len(h.calls)-1].args += e.Delta
		case responses.ResponseOutputItemDoneEvent:
			if e.Item.Type == "function_call" {
				h.calls[len(h.calls)-1].args = e.Item.AsFunctionCall().Arguments
			}
		case responses.ResponseCompletedEvent:
			word = "completed"
			h.input, h.output = e.Response.Usage.InputTokens, e.Response.Usage.OutputTokens
		case responses.ResponseIncompleteEvent:
			word = e.Response.IncompleteDetails.Reason
			h.input, h.output = e.Response.Usage.InputTokens, e.Response.Usage.OutputTokens
		}
	}
	h.end, h.err = ended(stream.Err(), word), stream.Err()
	return h
}

func messages(t *testing.T, base string) (h heard) {
	c := anthropic.NewClient(anthropicoption.WithBaseURL(base), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0))
	stream := c.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{MaxTokens: 100, Model: "m",
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("q"))}})
	defer stream.Close()
	var m anthropic.Message
	var err error
	whole := false
	for err == nil && stream.Next() {
		err = m.Accumulate(stream.Current())
		whole = whole || stream.Current().Type == "message_stop"
	}
	if err == nil {
		err = stream.Err()
	}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			h.text += b.Text
		case "tool_use":
			h.calls = append(h.calls, call{b.ID, b.Name, string(b.Input)})
		}
	}
	word := ""
	if whole {
		word = string(m.StopReason)
	}
	h.input, h.output = m.Usage.InputTokens, m.Usage.OutputTokens
	h.end, h.err = ended(err, word), err
	return h
}

func content(t *testing.T, base string) (h heard) {
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: "k", Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: base}})
	if err != nil {
		t.Fatal(err)
	}
	word := ""
	for r, err := range c.Models.GenerateContentStream(t.Context(), "m", genai.Text("q"), nil) {
		if err != nil {
			h.err = err
			break
		}
		if u := r.UsageMetadata; u != nil {
			h.input, h.output = int64(u.PromptTokenCount), int64(u.CandidatesTokenCount+u.ThoughtsTokenCount)
		}
		for _, candidate := range r.Candidates {
			if candidate.FinishReason != "" {
				word = string(candidate.FinishReason)
			}
			if candidate.Content == nil {
				continue
			}
			for _, p := range candidate.Content.Parts {
				if p.FunctionCall != nil {
					args, _ := json.Marshal(p.FunctionCall.Args)
					h.calls = append(h.calls, call{p.FunctionCall.ID, p.FunctionCall.Name, string(args)})
				} else if !p.Thought {
					h.text += p.Text
				}
			}
		}
	}
	h.end = ended(h.err, word)
	return h
}
