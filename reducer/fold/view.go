package fold

import (
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// View is the state of a turn as people and programs read it (GET /v1/turns/{turn}).
type View struct {
	Turn   string `json:"turn"`
	Tenant string `json:"tenant"`
	// Conversation is what the turn belongs to, if its caller said so.
	Conversation string      `json:"conversation,omitzero"`
	Status       Status      `json:"status"`
	Text         string      `json:"text"`
	Finish       string      `json:"finish,omitzero"`
	Message      string      `json:"message,omitzero"` // why there is no finished answer
	Salvaged     bool        `json:"salvaged,omitzero"`
	MessageID    string      `json:"message_id,omitzero"`
	ToolsOff     bool        `json:"tools_off,omitzero"`
	Steps        []StepView  `json:"steps"`
	Usage        feed.Totals `json:"usage"` // of all requests, those of abandoned attempts included
	Skipped      int         `json:"skipped,omitzero"`
	Seq          uint64      `json:"seq"` // last event folded in
}

// StepView is one step of a View.
type StepView struct {
	Step     int           `json:"step"`
	Text     string        `json:"text"`
	Attempts []AttemptView `json:"attempts"`
	Calls    []CallView    `json:"calls"`
}

// AttemptView is one attempt of a View. Outcome is open while it runs.
type AttemptView struct {
	Attempt   int         `json:"attempt"`
	Route     string      `json:"route"` // provider by its name in the configuration
	Model     string      `json:"model"`
	Outcome   string      `json:"outcome"`
	Class     event.Class `json:"class,omitzero"`
	Detail    string      `json:"detail,omitzero"`
	RequestID string      `json:"request_id,omitzero"`
	Unsent    bool        `json:"unsent,omitzero"` // no request was made
	Usage     UsageView   `json:"usage"`
}

// UsageView is what an attempt used. Source is empty as long as it runs, and if it made
// no request.
type UsageView struct {
	feed.Tokens `json:",inline"`
	Source      event.Source `json:"source,omitzero"`
}

// CallView is one call of a View. Outcome is empty until it has one.
type CallView struct {
	Call       string        `json:"call"`
	Tool       string        `json:"tool"`
	Args       string        `json:"args"`
	Key        string        `json:"key"`
	ProviderID string        `json:"provider_id,omitzero"`
	Outcome    event.Outcome `json:"outcome"`
	ErrorClass string        `json:"error_class,omitzero"`
	Replayed   bool          `json:"replayed"`
	Result     string        `json:"result,omitzero"`
	Waiting    string        `json:"waiting,omitzero"` // approval, if it waits for a person
	Digest     string        `json:"digest,omitzero"`  // of the arguments that an approval would be for
	// Scope is what the effect is unique within, if that is not the turn.
	Scope      string `json:"scope,omitzero"`
	ApprovedBy string `json:"approved_by,omitzero"`
	ResolvedBy string `json:"resolved_by,omitzero"` // who said how it ended, if not its run
	Why        string `json:"why,omitzero"`
}

// View renders the state. Attempts that were commanded but never opened made no
// request and are left out.
func (s *State) View() View {
	v := View{Turn: s.Turn.ID, Tenant: s.Turn.Tenant, Status: s.Status, Text: s.Text(), Finish: s.Finish,
		Message: s.Message, Salvaged: s.Salvaged, MessageID: s.MessageID, ToolsOff: s.ToolsOff, Steps: []StepView{},
		Usage: s.used(), Skipped: s.Skipped, Seq: s.Seq}
	if s.Opened != nil {
		v.Conversation = s.Opened.Conversation
	}
	for _, st := range s.Steps {
		sv := StepView{Step: st.N, Text: st.Text, Attempts: []AttemptView{}, Calls: []CallView{}}
		for _, a := range st.Attempts {
			if a.Started == nil {
				continue
			}
			sv.Attempts = append(sv.Attempts, a.view())
		}
		for _, c := range st.Calls {
			cv := CallView{Call: c.ID, Tool: c.Tool, Args: s.redacted(c), Key: c.Key, ProviderID: c.ProviderID,
				Outcome: c.Outcome, ErrorClass: c.ErrorClass, Replayed: c.Replayed, Result: c.Result,
				ApprovedBy: c.ApprovedBy, ResolvedBy: c.ResolvedBy, Why: c.Why}
			if c.Scope != s.Turn.ID {
				cv.Scope = c.Scope
			}
			if c.parked {
				cv.Waiting, cv.Digest = "approval", ArgsDigest(c.Args)
			}
			sv.Calls = append(sv.Calls, cv)
		}
		v.Steps = append(v.Steps, sv)
	}
	return v
}

func (a *Attempt) view() AttemptView {
	v := AttemptView{Attempt: a.N, Route: a.Entry.Provider, Model: a.Entry.Model, Outcome: string(a.Outcome),
		Class: a.Class, Detail: a.Detail, RequestID: a.RequestID, Unsent: a.Unsent, Usage: UsageView{Tokens: a.tokens()}}
	switch {
	case a.Outcome == "":
		v.Outcome = "open"
	case !a.Unsent:
		v.Usage.Source = a.Usage.Source()
	}
	return v
}

func (s *State) redacted(c *Call) string {
	t, ok := s.tool(c.Tool)
	if !ok || len(t.Redact) == 0 {
		return c.Args
	}
	return effect.Redact(c.Args, t.Redact)
}
