package fold

import (
	"strconv"

	"github.com/turnfold/turnfold/subjects/event"
)

// Conversation is what a model request says, free of any API's shape.
type Conversation struct {
	System   string
	Messages []Message
	Tools    []event.Tool // declared for the turn
	ToolsOff bool         // the loop breaker has spoken: none of them may be called
	// ToolChoice and Params are as in event.TurnOpened.
	ToolChoice, Params string
}

// Message is one message. Text is set for user and system messages, Parts for the
// assistant's, Results for the one message that answers all calls of a step.
type Message struct {
	Role    string
	Text    string
	Parts   []Part
	Results []Result
}

// Part is text, an opaque block or a call, in the order of the reply.
type Part struct {
	Text   string
	Opaque *event.OpaqueBlock
	Call   *PastCall
}

// PastCall is a call as it goes back to the provider. IDs are unique in the
// conversation even where the provider's were not.
type PastCall struct {
	ID, Name, Args, Opaque string
}

// Result answers a call, in call order.
type Result struct {
	ID, Name, Text string
	Error          bool
}

// Conversation builds the request for the turn's current step from its committed
// steps: nothing of any other attempt is in it (I2), each call has exactly one result,
// in call order, and a result never claims more than is known (I11).
func (s *State) Conversation() Conversation {
	out := Conversation{System: s.Opened.System}
	out.ToolChoice, out.Params = s.Opened.ToolChoice, s.Opened.Params
	out.Messages = asked(s.Opened.Messages)
	ids := s.callIDs()
	for _, st := range s.Steps {
		if st.Committed == 0 {
			break
		}
		out.Messages = append(out.Messages, Message{Role: "assistant", Parts: st.parts(ids)})
		if len(st.Calls) == 0 {
			continue
		}
		answer := Message{Role: "tool"}
		for _, c := range st.Calls {
			answer.Results = append(answer.Results, Result{ID: ids[c], Name: c.Tool, Text: c.Told,
				Error: c.Outcome == event.OutcomeFailed || c.Outcome == event.OutcomeRefused})
		}
		out.Messages = append(out.Messages, answer)
	}
	out.Tools = s.Opened.Tools
	if st := s.step(); st != nil {
		out.ToolsOff = st.ToolsOff
	}
	return out
}

// asked is the conversation that the turn answers. Results of one reply's calls are one
// message, as everywhere here.
func asked(list []event.Message) []Message {
	var out []Message
	names := map[string]string{}
	for _, m := range list {
		switch {
		case len(m.Calls) > 0:
			a := Message{Role: m.Role}
			if m.Content != "" {
				a.Parts = append(a.Parts, Part{Text: m.Content})
			}
			for _, c := range m.Calls {
				names[c.ID] = c.Name
				a.Parts = append(a.Parts, Part{Call: &PastCall{ID: c.ID, Name: c.Name, Args: c.Args}})
			}
			out = append(out, a)
		case m.Role == "tool":
			if n := len(out); n == 0 || out[n-1].Role != "tool" {
				out = append(out, Message{Role: "tool"})
			}
			last := &out[len(out)-1]
			last.Results = append(last.Results, Result{ID: m.CallID, Name: names[m.CallID], Text: m.Content})
		default:
			out = append(out, Message{Role: m.Role, Text: m.Content})
		}
	}
	return out
}

func (st *Step) parts(ids map[*Call]string) []Part {
	var out []Part
	for _, p := range st.Attempts[st.Committed-1].pieces {
		switch {
		case p.text != nil:
			out = append(out, Part{Text: string(p.text)})
		case p.opaque != nil:
			out = append(out, Part{Opaque: p.opaque})
		default:
			c := st.Calls[p.call]
			out = append(out, Part{Call: &PastCall{ID: ids[c], Name: c.Tool, Args: c.Args, Opaque: c.Opaque}})
		}
	}
	return out
}

// callIDs keeps a provider's id where it is the first of its kind in the conversation;
// strict APIs refuse a history in which an id occurs twice (case 18).
func (s *State) callIDs() map[*Call]string {
	ids, used := map[*Call]string{}, map[string]bool{}
	for _, m := range s.Opened.Messages {
		for _, c := range m.Calls {
			used[c.ID] = true
		}
	}
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			id := c.ProviderID
			for n := 0; id == "" || used[id]; n++ {
				id = "call_" + strconv.Itoa(st.N) + "_" + strconv.Itoa(c.Index)
				if n > 0 {
					id += "_" + strconv.Itoa(n)
				}
			}
			used[id] = true
			ids[c] = id
		}
	}
	return ids
}
