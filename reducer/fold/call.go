package fold

import (
	"slices"
	"strconv"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// commit makes a finished attempt the winner of its step. From here on the step never
// changes (I2), and only from here do its calls run (I5).
func (f *folder) commit(a *Attempt) {
	st := f.step()
	st.Committed, st.Text = a.N, a.text()
	f.bulk += a.bulk
	for i, s := range a.slots {
		st.Calls = append(st.Calls, &Call{
			ID: strconv.Itoa(st.N) + "." + strconv.Itoa(i), Index: i, Tool: s.name,
			Args: string(s.args), ProviderID: s.id, Opaque: s.opaque, last: f.seq,
		})
	}
	switch {
	case len(st.Calls) == 0:
		f.complete("stop", false)
	case f.Opened.ClientTools && f.Opened.Rules >= 2:
		f.handOver(st)
	case st.ToolsOff:
		for _, c := range st.Calls {
			f.settle(c, settlement{outcome: event.OutcomeRefused, class: "tools_off",
				result: "No tools were offered with this request."})
		}
		f.finish("loop", "The turn was stopped because its tool calls kept ending the same way.")
	default:
		for _, c := range st.Calls {
			f.dispatch(c)
		}
		f.advance()
	}
}

// handOver ends the turn with the calls that the client is to run. Nothing is known of
// them here and nothing ever will be: the client tells their results in another turn.
func (f *folder) handOver(st *Step) {
	ids := f.callIDs()
	for _, c := range st.Calls {
		c.Outcome, c.ErrorClass = event.OutcomeNotRun, "client"
		f.emit(st.N, st.Committed, &feed.ClientCall{Call: c.ID, Tool: c.Tool, Args: c.Args, ProviderID: ids[c]})
	}
	f.complete("tool_calls", false)
}

// dispatch decides what becomes of a committed call: a command, a wait for approval,
// a share in an equal call, a replay, or a refusal.
func (f *folder) dispatch(c *Call) {
	t, known := f.tool(c.Tool)
	f.calls++
	switch {
	case !known:
		f.settle(c, settlement{outcome: event.OutcomeRefused, class: "unknown_tool",
			result: "There is no tool named " + c.Tool + "."})
		return
	case f.calls > f.Opened.Policy.CallsPerTurn:
		f.ToolsOff = true
		f.settle(c, settlement{outcome: event.OutcomeRefused, class: "calls_per_turn",
			result: "The budget of tool calls for this turn is used up."})
		return
	}
	f.identify(c, t)
	if c.leader = f.equalInStep(c, t); c.leader != nil {
		if c.leader.parked {
			return // they start together
		}
		f.emitStart(c, t)
		if c.leader.Settled() {
			f.share(c)
		}
		return
	}
	if earlier := f.succeededBefore(c); earlier != nil {
		f.emitStart(c, t)
		f.settle(c, settlement{outcome: earlier.Outcome, class: earlier.ErrorClass, result: earlier.Result,
			replayed: true, reworded: earlier.canonical != c.canonical})
		return
	}
	if t.Approval == "always" {
		f.park(c, t)
		return
	}
	f.run(c, t)
}

func (f *folder) run(c *Call, t event.Tool) {
	c.parked = false
	f.emitStart(c, t)
	for _, e := range f.step().Calls {
		if e.leader == c {
			f.emitStart(e, t)
		}
	}
	f.emitCall(c, t)
}

func (f *folder) emitStart(c *Call, t event.Tool) {
	f.emit(f.step().N, f.step().Committed, &feed.ToolStart{
		Call: c.ID, Tool: c.Tool, Args: effect.Redact(c.Args, t.Redact), Key: c.Key})
}

func (f *folder) emitCall(c *Call, t event.Tool) {
	c.last = f.seq
	b := &feed.CallCommand{V: 1, In: f.seq, Call: c.ID, Tool: c.Tool, Args: c.Args, Key: c.Key,
		Effect: t.Effect, TimeoutMS: t.TimeoutMS, ID: c.ProviderID}
	if f.Opened.Rules >= 2 {
		b.Identity = effect.IdentityDigest(c.identity)
	}
	f.emit(f.step().N, f.step().Committed, b)
}

// identify gives the call its effect key: from meaning alone, with an ordinal that
// tells equal calls apart where the declaration says that they are several (I6).
func (f *folder) identify(c *Call, t event.Tool) {
	c.canonical, _ = effect.Canonical(c.Args) // checked before the commit
	c.identity, _ = effect.IdentityOf(c.Args, effect.Identity{
		All: t.IdentityAll || len(t.Identity) == 0, Fields: t.Identity})
	c.ordinal = f.ordinal(c, t)
	c.Scope = f.scope(t)
	c.Key = effect.Meaning{Tenant: f.Turn.Tenant, Scope: c.Scope, Tool: c.Tool,
		Identity: c.identity, Ordinal: c.ordinal}.Key()
}

// scope is what the call's effect is unique within. All that it depends on is pinned.
func (f *folder) scope(t event.Tool) string {
	return effect.Scope{Kind: t.Scope, Turn: f.Turn.ID, Conversation: f.Opened.Conversation,
		WindowMS: t.WindowMS, AtMS: f.Opened.AtMS}.String()
}

// ordinal tells equal calls of one turn apart. A call takes the ordinal of the latest
// equal call of an earlier step that is not known to have succeeded, so a repeat after
// an unknown keeps its key; equal calls of one step never share one that way.
func (f *folder) ordinal(c *Call, t event.Tool) int {
	top := -1                 // highest ordinal so far
	var here, earlier []*Call // equal calls of this step, and of those before
	used := map[int]bool{}    // ordinals that c cannot take: they succeeded, or are taken in this step
	for _, e := range f.equals(c) {
		top = max(top, e.ordinal)
		if f.inStep(e) {
			here = append(here, e)
			used[e.ordinal] = true
		} else {
			earlier = append(earlier, e)
			used[e.ordinal] = used[e.ordinal] || e.Outcome == event.OutcomeSucceeded
		}
	}
	switch {
	case t.Effect == "read":
		return top + 1 // reads share nothing
	case t.Repeat == "per_step" && len(here) > 0:
		return here[0].ordinal
	case t.Repeat == "per_step" || t.Repeat == "per_call":
		for _, e := range slices.Backward(earlier) {
			if !used[e.ordinal] {
				return e.ordinal
			}
		}
		return top + 1
	}
	return 0 // never: an equal call is the same effect
}

// equals lists the dispatched calls before c that mean the same, in call order.
func (f *folder) equals(c *Call) []*Call {
	var out []*Call
	for _, st := range f.Steps {
		for _, e := range st.Calls {
			if e == c {
				return out
			}
			if e.Tool == c.Tool && e.identity == c.identity && e.Key != "" {
				out = append(out, e)
			}
		}
	}
	return out
}

func (f *folder) inStep(c *Call) bool {
	for _, e := range f.step().Calls {
		if e == c {
			return true
		}
	}
	return false
}

// equalInStep is the call of this step that c shares a command and an outcome with.
func (f *folder) equalInStep(c *Call, t event.Tool) *Call {
	if t.Effect == "read" {
		return nil
	}
	for _, e := range f.step().Calls {
		if e == c {
			break
		}
		if e.Key == c.Key && e.leader == nil {
			return e
		}
	}
	return nil
}

// succeededBefore is the call of an earlier step whose success c repeats.
func (f *folder) succeededBefore(c *Call) *Call {
	for _, e := range f.equals(c) {
		if e.Key == c.Key && e.Outcome == event.OutcomeSucceeded {
			return e
		}
	}
	return nil
}

// advance goes on once every call of the step has an outcome.
func (f *folder) advance() {
	if f.Over() {
		return
	}
	for _, c := range f.step().Calls {
		if !c.Settled() {
			return
		}
	}
	if f.Status == Ending {
		f.finish(f.ending, endings[f.ending])
		return
	}
	f.nextStep()
}

func (f *folder) progress(b *event.CallProgress) {
	c := f.State.Call(b.Call)
	if c == nil || c.Settled() || f.Over() {
		return
	}
	c.last = f.seq
	f.emit(f.step().N, f.step().Committed, &feed.ToolProgress{
		Call: c.ID, Tool: c.Tool, Message: b.Message, Percent: b.Percent})
}
