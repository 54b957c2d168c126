package fold_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/feed"
)

// printer writes outputs for people. Keys become K1, K2, … by first appearance.
type printer struct {
	strings.Builder
	keys map[string]string
}

func (p *printer) key(k string) string {
	if k == "" {
		return "-"
	}
	if p.keys[k] == "" {
		p.keys[k] = "K" + strconv.Itoa(len(p.keys)+1)
	}
	return p.keys[k]
}

func (p *printer) linef(format string, args ...any) {
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " "))
	p.WriteByte('\n')
}

// opt is " name=value" unless the value is nothing.
func opt(name string, v any) string {
	if s := fmt.Sprint(v); s != "" && s != "0" && s != "false" {
		if s == "true" {
			return " " + name
		}
		return " " + name + "=" + s
	}
	return ""
}

func (p *printer) output(o feed.Output) {
	place := strconv.Itoa(o.Step) + "." + strconv.Itoa(o.Attempt)
	switch b := o.Body.(type) {
	case *feed.TurnAccepted:
		p.linef("accept")
	case *feed.StepCommand:
		p.linef("step %s %s/%s/%d in=%d%s%s", place, b.Provider, b.Model, b.MaxOutputTokens, b.In,
			opt("delay", b.DelayMS), opt("no-tools", !b.Tools))
	case *feed.StepWithdraw:
		p.linef("stop %s", place)
	case *feed.TextDelta:
		p.linef("text %s %q", place, b.Text)
	case *feed.ReasoningDelta:
		p.linef("think %s %q", place, b.Text)
	case *feed.Reset:
		p.linef("reset %d a%d %s", o.Step, b.Abandoned, b.Reason)
	case *feed.Usage:
		p.linef("usage %s %s%s%s%s", place, b.Outcome, opt("class", b.Class), tokens(b.Tokens)+opt("source", b.Source), opt("id", b.RequestID))
	case *feed.ApprovalRequest:
		p.linef("approval %s %s %s %s digest=%.6s%s", b.Call, b.Tool, p.key(b.Key), b.Args, b.Digest, opt("timeout", b.TimeoutMS))
	case *feed.ToolStart:
		p.linef("start %s %s %s %s", b.Call, b.Tool, p.key(b.Key), b.Args)
	case *feed.ClientCall:
		p.linef("client %s %s %s id=%s", b.Call, b.Tool, b.Args, b.ProviderID)
	case *feed.CallCommand:
		p.linef("call %s %s %s %s %s", b.Call, b.Tool, p.key(b.Key), b.Effect, b.Args)
	case *feed.CallWithdraw:
		p.linef("withdraw %s %s", b.Call, p.key(b.Key))
	case *feed.ToolProgress:
		p.linef("progress %s %d %q", b.Call, b.Percent, b.Message)
	case *feed.ToolResult:
		p.linef("result %s %s%s%s %s", b.Call, b.Outcome, opt("class", b.ErrorClass), opt("replayed", b.Replayed), b.Result)
	case *feed.Image:
		p.linef("image %s %s %s%s", b.Call, b.Mime, b.URL, b.Data)
	case *feed.Card:
		p.linef("card %s %s %s", b.Call, b.Card, b.Data)
	case *feed.Completion:
		p.linef("completion %s %q%s attempts=%d%s%s", b.Finish, b.Text, opt("salvaged", b.Salvaged), b.Attempts, totals(b.Usage), quoted("message", b.Message))
	case *feed.Error:
		p.linef("error %s %q attempts=%d%s", b.Class, b.Message, b.Attempts, totals(b.Usage))
	case *feed.MessageSaved:
		p.linef("saved %s", b.MessageID)
	default:
		panic(fmt.Sprintf("no words for %T", b))
	}
}

func tokens(t feed.Tokens) string {
	return opt("in", t.Input) + opt("out", t.Output) + opt("cached", t.CacheRead) + opt("partial", t.Partial) +
		opt("cost", t.Cost) + opt("currency", t.Currency)
}

func totals(t feed.Totals) string {
	return tokens(t.Tokens) + opt("wasted-in", t.WastedInput) + opt("wasted-out", t.WastedOutput) +
		opt("wasted-cost", t.WastedCost) + opt("unpriced", t.Unpriced)
}

func quoted(name, text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" %s=%q", name, text)
}

// answer prints what a script asks of the state.
func (p *printer) answer(question string, s *fold.State) {
	switch question {
	case "view":
		p.view(s.View())
	case "conversation":
		p.conversation(s.Conversation())
	case "timers":
		for _, t := range s.Timers() {
			p.linef("? timer %s%s%s%s seen=%d after=%d%s", t.Kind, opt("attempt", attemptName(t)), opt("call", t.Call),
				opt("token", t.Token), t.Seen, t.AfterMS, opt("since", t.SinceMS))
		}
	case "pending":
		for _, o := range s.Pending() {
			p.WriteString("? pending ")
			p.output(o)
		}
	default:
		panic("no such question: " + question)
	}
}

func attemptName(t fold.Timer) string {
	if t.Attempt == 0 {
		return ""
	}
	return strconv.Itoa(t.Step) + "." + strconv.Itoa(t.Attempt)
}

func (p *printer) view(v fold.View) {
	if v.Usage.Currency != "" {
		p.linef("? costs%s", totals(v.Usage))
	}
	p.linef("? view %s %q%s%s%s%s%s", v.Status, v.Text, opt("finish", v.Finish), opt("salvaged", v.Salvaged),
		opt("message", v.MessageID), opt("tools-off", v.ToolsOff), opt("skipped", v.Skipped))
	for _, st := range v.Steps {
		p.linef("?   step %d %q", st.Step, st.Text)
		for _, a := range st.Attempts {
			p.linef("?     attempt %d %s/%s %s%s%s%s%s", a.Attempt, a.Route, a.Model, a.Outcome, opt("class", string(a.Class)),
				opt("detail", strings.ReplaceAll(a.Detail, " ", "_")), opt("partial", a.Usage.Partial), opt("unsent", a.Unsent))
			if a.Usage.Currency != "" {
				p.linef("?       %s%s", a.Usage.Source, tokens(a.Usage.Tokens))
			}
		}
		for _, c := range st.Calls {
			p.linef("?     call %s %s %s %s%s%s%s%s%s%s %s", c.Call, c.Tool, p.key(c.Key), c.Outcome, opt("class", c.ErrorClass),
				opt("replayed", c.Replayed), opt("waiting", c.Waiting), opt("scope", c.Scope), opt("approved", c.ApprovedBy),
				opt("resolved", c.ResolvedBy), c.Result)
		}
	}
}

func (p *printer) conversation(c fold.Conversation) {
	p.linef("? system %q, %d tools%s", c.System, len(c.Tools), opt("off", c.ToolsOff))
	for _, m := range c.Messages {
		if m.Text != "" {
			p.linef("? %s %q", m.Role, m.Text)
		}
		for _, part := range m.Parts {
			switch {
			case part.Call != nil:
				p.linef("? %s calls %s %s %s%s", m.Role, part.Call.ID, part.Call.Name, part.Call.Args, opt("opaque", part.Call.Opaque))
			case part.Opaque != nil:
				p.linef("? %s block %s %s", m.Role, part.Opaque.API, part.Opaque.Data)
			default:
				p.linef("? %s %q", m.Role, part.Text)
			}
		}
		for _, r := range m.Results {
			p.linef("? %s %s %s%s: %s", m.Role, r.ID, r.Name, opt("error", r.Error), strings.ReplaceAll(r.Text, "\n", " / "))
		}
	}
}

// tell folds a script and prints all that comes of it.
func tell(s *script) (string, fold.State, []string) {
	p := &printer{keys: map[string]string{}}
	w := newWatcher()
	state := absent()
	for _, l := range s.lines {
		if l.ask != "" {
			p.answer(l.ask, &state)
			continue
		}
		var out []feed.Output
		var err error
		state, out, err = fold.Guarded(state, l.event)
		if err != nil {
			w.failf("%v", err)
		}
		for _, o := range out {
			p.output(o)
			w.see(o)
		}
	}
	return p.String(), state, w.end(&state)
}
