package fold_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// The script language of testdata: one option or event a line.
//
//	policy step=3 turn=8 base=500 max=20000 after=reset calls=64
//	policy tokens=100
//	rules 1                                of the fold; 0, the oldest, if nothing is said
//	route main/m-small/4096 big/m-big/8192
//	price main anthropic-messages 2500000/1250000/10000000  API and picos per token
//	tool issue_refund keyed identity=order_id repeat=never cap=2 approval=always
//	tool pay once identity=* wait=60000 scope=tenant window=86400000
//	conversation c-9 opened=1767323045000  what the turn belongs to, when it was opened
//	at 5000                                the log's clock from the next event on
//	client                                 the tools are the client's
//	asked call c0 find {"q":1}, asked result c0 ["1"]  of the conversation that is answered
//	open                                   implied before the first event
//	1.1 started t1                         step 1, attempt 1
//	1.1 text 0 "Hel"                       ord, then what was said; 1.1@t9 is of another token
//	1.1 think 1 "hm"
//	1.1 call 2 #0 c1 issue_refund {"a":1}  ord, place, id and name (- is none), argument text
//	1.1 block 3 anthropic {"sig":"x"}
//	1.1 finished 4 usage=30/16 id=req_a
//	1.1 failed 4 connection final length unsent after=2000 usage=30/16/20 partial
//	1.1 alive, 1.1 lost seen=4
//	settled 1.0 failed class=http_500 replayed key=other {"the":"result"}
//	progress 1.0 50 "half", approve 1.0 digest=x, deny 1.0 too much
//	expire 1.0 seen=4                      nobody has decided
//	overdue attempt 1.1 seen=3, overdue call 1.0 seen=9
//	cancel, expired, saved m1, unknown some.kind
//	again                                  the last event once more, at its place
//	repeat                                 the last event once more, at a new place
//	? conversation                         prints something of the state
type script struct {
	opened *event.TurnOpened
	tokens map[string]string // of the attempts that the script has started
	lines  []line
	seq    uint64
	now    int64 // the log's clock
	isOpen bool
}

// line is an event, or a question about the state.
type line struct {
	event event.Event
	ask   string
}

// address is the turn of every script.
var address = subjects.Turn{Tenant: "acme", ID: "t-1"}

// defaults opens a turn as the product's default configuration would.
func defaults() *event.TurnOpened {
	return &event.TurnOpened{
		At: "2026-01-02T03:04:05Z", Digest: "d", System: "Be brief.", Route: "default",
		Messages: []event.Message{{Role: "user", Content: "Help."}},
		Entries:  []event.Entry{{Provider: "main", API: "openai-chat", Model: "m-small", MaxOutputTokens: 4096}},
		Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, BackoffBaseMS: 500, BackoffMaxMS: 20_000,
			RetryAfterMaxMS: 60_000, AfterText: "reset", CallsPerTurn: 64, DeadlineMS: 600_000, AliveMS: 5_000, PatienceMS: 30_000},
	}
}

// parseScript reads a script. It panics on a fault: the script is part of the test.
func parseScript(text string) *script {
	s := &script{opened: defaults(), tokens: map[string]string{}}
	explicit := strings.Contains("\n"+text, "\nopen")
	for _, l := range strings.Split(text, "\n") {
		if strings.TrimSpace(l) == "" || l[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(l, " ")
		switch word {
		case "policy":
			s.policy(fields(rest))
		case "route":
			s.route(rest)
		case "rules":
			s.opened.Rules = number(rest)
		case "client":
			s.opened.ClientTools = true
		case "asked":
			s.asked(rest)
		case "price":
			s.price(strings.Fields(rest))
		case "tool":
			s.tool(rest)
		case "conversation":
			name, rest, _ := strings.Cut(rest, " ")
			s.opened.Conversation, s.opened.AtMS = name, int64(number(fields(rest)["opened"]))
		default:
			if !explicit && !s.isOpen {
				s.add(s.opened)
				s.isOpen = true
			}
			s.happens(word, rest)
		}
	}
	if !explicit && !s.isOpen {
		s.add(s.opened)
	}
	return s
}

func (s *script) asked(rest string) {
	kind, rest, _ := strings.Cut(rest, " ")
	id, rest, _ := strings.Cut(rest, " ")
	m := event.Message{Role: "tool", CallID: id, Content: rest}
	if kind == "call" {
		name, args, _ := strings.Cut(rest, " ")
		m = event.Message{Role: "assistant", Calls: []event.MessageCall{{ID: id, Name: name, Args: args}}}
	}
	s.opened.Messages = append(s.opened.Messages, m)
}

func (s *script) add(b event.Body) {
	s.seq++
	s.lines = append(s.lines, line{event: event.Event{Turn: address, Seq: s.seq, AtMS: s.now, Body: throughCodec(b)}})
}

// throughCodec gives the body as a reader of the log gets it.
func throughCodec(b event.Body) event.Body {
	data, err := event.Encode(b)
	if err != nil {
		panic(err)
	}
	out, err := event.Decode(data)
	if err != nil {
		panic(err)
	}
	return out
}

func (s *script) happens(word, rest string) {
	switch word {
	case "open":
		s.add(s.opened)
	case "?":
		s.lines = append(s.lines, line{ask: rest})
	case "again":
		s.lines = append(s.lines, s.last())
	case "repeat":
		s.add(s.last().event.Body)
	case "settled":
		s.settled(rest)
	case "progress":
		call, rest, _ := strings.Cut(rest, " ")
		percent, message, _ := strings.Cut(rest, " ")
		s.add(&event.CallProgress{Call: call, Percent: number(percent), Message: unquote(message)})
	case "approve":
		call, rest, _ := strings.Cut(rest, " ")
		s.add(&event.CallApproved{Call: call, Digest: fields(rest)["digest"]})
	case "deny":
		call, reason, _ := strings.Cut(rest, " ")
		s.add(&event.CallDenied{Call: call, Reason: reason})
	case "at":
		s.now = int64(number(rest))
	case "expire":
		call, rest, _ := strings.Cut(rest, " ")
		b := &event.ApprovalExpired{Call: call, Seen: s.seq}
		if seen, ok := fields(rest)["seen"]; ok {
			b.Seen = uint64(number(seen))
		}
		s.add(b)
	case "overdue":
		s.overdue(rest)
	case "cancel":
		s.add(&event.TurnCancelled{By: "user"})
	case "expired":
		s.add(&event.TurnExpired{})
	case "saved":
		s.add(&event.MessageSaved{MessageID: rest})
	case "unknown":
		s.add(&event.Unknown{Name: rest, Raw: []byte(`{"v":1,"kind":"` + rest + `","x":[1]}`)})
	default:
		s.attempt(word, rest)
	}
}

func (s *script) last() line {
	for i := len(s.lines) - 1; i >= 0; i-- {
		if s.lines[i].ask == "" {
			return s.lines[i]
		}
	}
	panic("no event yet")
}

// attempt reads an event of a model stream.
func (s *script) attempt(place, rest string) {
	place, token, other := strings.Cut(place, "@")
	if !other {
		token = s.tokens[place]
	}
	step, attempt := split2(place)
	what, rest, _ := strings.Cut(rest, " ")
	switch what {
	case "started":
		s.tokens[place] = rest
		s.add(&event.AttemptStarted{Step: step, Attempt: attempt, Token: rest, Provider: "main", API: "openai-chat", Model: "m-small"})
		return
	case "alive":
		s.add(&event.AttemptAlive{Step: step, Attempt: attempt, Token: token})
		return
	case "lost":
		s.add(&event.AttemptLost{Step: step, Attempt: attempt, Token: token, Seen: uint64(number(fields(rest)["seen"])), Reason: "no sign of life"})
		return
	}
	ord, rest, _ := strings.Cut(rest, " ")
	at := event.At{Step: step, Attempt: attempt, Token: token, Ord: number(ord)}
	switch what {
	case "text":
		s.add(&event.TextDelta{At: at, Text: unquote(rest)})
	case "think":
		s.add(&event.ReasoningDelta{At: at, Text: unquote(rest)})
	case "call":
		s.add(callDelta(at, rest))
	case "block":
		api, data, _ := strings.Cut(rest, " ")
		s.add(&event.OpaqueBlock{At: at, API: api, Data: data})
	case "finished":
		f := fields(rest)
		s.add(&event.AttemptFinished{At: at, Finish: "stop", Usage: usage(f), RequestID: f["id"]})
	case "failed":
		class, rest, _ := strings.Cut(rest, " ")
		f := fields(rest)
		_, final := f["final"]
		_, length := f["length"]
		_, unsent := f["unsent"]
		s.add(&event.AttemptFailed{At: at, Class: event.Class(class), Retryable: !final, Length: length,
			RetryAfterMS: int64(number(f["after"])), Usage: usage(f), RequestID: f["id"], Unsent: unsent})
	default:
		panic("no such event: " + what)
	}
}

func callDelta(at event.At, rest string) event.Body {
	part := strings.SplitN(rest, " ", 4)
	for len(part) < 4 {
		part = append(part, "")
	}
	none := func(s string) string { return strings.TrimPrefix(s, "-") }
	return &event.CallDelta{At: at, Index: number(part[0][1:]), ID: none(part[1]), Name: none(part[2]), Args: part[3]}
}

func (s *script) settled(rest string) {
	call, rest, _ := strings.Cut(rest, " ")
	outcome, rest, _ := strings.Cut(rest, " ")
	b := &event.CallSettled{Call: call, Outcome: event.Outcome(outcome)}
	for rest != "" {
		word, more, _ := strings.Cut(rest, " ")
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "class":
			b.ErrorClass = value
		case "by":
			b.By = value
		case "key":
			b.Key = value
		case "replayed":
			b.Replayed = true
		default:
			b.Result, more = rest, ""
		}
		rest = more
	}
	s.add(b)
}

func (s *script) overdue(rest string) {
	what, rest, _ := strings.Cut(rest, " ")
	place, rest, _ := strings.Cut(rest, " ")
	step, n := split2(place)
	b := &event.CommandOverdue{Step: step, Seen: s.seq}
	if seen, ok := fields(rest)["seen"]; ok {
		b.Seen = uint64(number(seen))
	}
	if what == "call" {
		b.Call = place
	} else {
		b.Attempt = n
	}
	s.add(b)
}

func (s *script) policy(f map[string]string) {
	p := &s.opened.Policy
	for k, v := range f {
		switch k {
		case "step":
			p.AttemptsPerStep = number(v)
		case "turn":
			p.AttemptsPerTurn = number(v)
		case "base":
			p.BackoffBaseMS = int64(number(v))
		case "max":
			p.BackoffMaxMS = int64(number(v))
		case "calls":
			p.CallsPerTurn = number(v)
		case "after":
			p.AfterText = v
		case "tokens":
			p.TokensPerTurn = int64(number(v))
		default:
			panic("no such policy: " + k)
		}
	}
}

func (s *script) route(rest string) {
	s.opened.Entries = nil
	for _, e := range strings.Fields(rest) {
		part := strings.Split(e, "/")
		s.opened.Entries = append(s.opened.Entries, event.Entry{
			Provider: part[0], API: "openai-chat", Model: part[1], MaxOutputTokens: number(part[2])})
	}
}

// price gives every entry of a provider an API and a price.
func (s *script) price(part []string) {
	picos := strings.Split(part[2], "/")
	for i := range s.opened.Entries {
		if e := &s.opened.Entries[i]; e.Provider == part[0] {
			e.API = part[1]
			e.Price = event.Price{Currency: "USD", Input: int64(number(picos[0])), CacheRead: int64(number(picos[1])), Output: int64(number(picos[2]))}
		}
	}
}

func (s *script) tool(rest string) {
	name, rest, _ := strings.Cut(rest, " ")
	kind, rest, _ := strings.Cut(rest, " ")
	f := fields(rest)
	t := event.Tool{Name: name, Effect: kind, Repeat: f["repeat"], TimeoutMS: 10_000, Cap: 2, Rows: f["rows"],
		Approval: f["approval"], ApprovalTimeoutMS: int64(number(f["wait"])), Card: f["card"], Scope: f["scope"], WindowMS: int64(number(f["window"])), IdentityAll: f["identity"] == "*"}
	if f["cap"] != "" {
		t.Cap = number(f["cap"])
	}
	if id := f["identity"]; id != "" && id != "*" {
		t.Identity = strings.Split(id, ",")
	}
	if r := f["redact"]; r != "" {
		t.Redact = strings.Split(r, ",")
	}
	s.opened.Tools = append(s.opened.Tools, t)
}

// fields reads name=value words; a word alone has an empty value.
func fields(text string) map[string]string {
	out := map[string]string{}
	for _, w := range strings.Fields(text) {
		name, value, _ := strings.Cut(w, "=")
		out[name] = value
	}
	return out
}

// usage is of the form input/output or input/output/cached.
func usage(f map[string]string) event.Usage {
	_, partial := f["partial"]
	out := event.Usage{Partial: partial}
	for i, n := range strings.Split(f["usage"], "/") {
		*[]*int64{&out.Input, &out.Output, &out.CacheRead}[i] = int64(number(n))
	}
	return out
}

func split2(place string) (int, int) {
	a, b, ok := strings.Cut(place, ".")
	if !ok {
		panic("no such event: " + place)
	}
	return number(a), number(b)
}

func number(s string) int {
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func unquote(s string) string {
	out, err := strconv.Unquote(s)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", s, err))
	}
	return out
}

// events are the script's events in order, deliveries repeated with `again` included.
func (s *script) events() []event.Event {
	var out []event.Event
	for _, l := range s.lines {
		if l.ask == "" {
			out = append(out, l.event)
		}
	}
	return out
}

// absent is the turn of every script before its first event.
func absent() fold.State { return fold.State{Turn: address} }
