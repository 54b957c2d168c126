package streamer

import (
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/streamer/provider"
)

// request says the conversation in the port's terms. The conversation was folded up to
// the command's input, so that a later resolution never changes what was said (I11).
func request(c command, from fold.Conversation) provider.Request {
	out := provider.Request{Model: c.Model, MaxOutputTokens: c.MaxOutputTokens, System: from.System,
		ToolChoice: from.ToolChoice, Params: from.Params}
	for _, m := range from.Messages {
		out.Messages = append(out.Messages, message(m))
	}
	if !c.Tools {
		// The loop breaker has spoken (I12). The adapter leaves the tools out where its API
		// takes a history with calls and no tools.
		out.ToolChoice = "none"
	}
	for _, t := range from.Tools {
		out.Tools = append(out.Tools, provider.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out
}

func message(m fold.Message) provider.Message {
	out := provider.Message{Role: m.Role}
	switch {
	case m.Role != "assistant":
		out.Text = m.Text
	case m.Text != "": // of the conversation that the turn answers
		out.Parts = append(out.Parts, provider.Part{Text: m.Text})
	}
	for _, p := range m.Parts {
		out.Parts = append(out.Parts, part(p))
	}
	for _, r := range m.Results {
		out.Results = append(out.Results, provider.Result{ID: r.ID, Name: r.Name, Text: r.Text, Error: r.Error})
	}
	return out
}

func part(p fold.Part) provider.Part {
	switch {
	case p.Opaque != nil:
		return provider.Part{Opaque: &provider.Opaque{API: p.Opaque.API, Data: p.Opaque.Data}}
	case p.Call != nil:
		return provider.Part{Call: &provider.Call{ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Args, Opaque: p.Call.Opaque}}
	}
	return provider.Part{Text: p.Text}
}
