package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects/feed"
)

// acpSavedWait bounds the wait for the saved message, after which the prompt is answered.
const acpSavedWait = time.Second

// acpSession is a conversation.
type acpSession struct {
	mu       sync.Mutex
	messages []acpSaid
	turn     string // that runs; empty between prompts
}

type acpSaid struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (a *acpAgent) newSession() any {
	id := uuid.NewString()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[id] = &acpSession{}
	return map[string]any{"sessionId": id}
}

func (a *acpAgent) session(id string) (*acpSession, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		return s, nil
	}
	return nil, &acpError{acpParams, "no such session"}
}

// cancel asks for the end of the session's turn; the prompt's answer says how it ended.
func (a *acpAgent) cancel(params json.RawMessage) {
	var p struct{ SessionID string }
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s, err := a.session(p.SessionID)
	if err != nil {
		return
	}
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	if turn != "" {
		go a.act(turn, "/cancel", map[string]any{"by": "editor"}) // the input goes on being read
	}
}

// act does something to a turn. That it could not be done shows in the turn.
func (a *acpAgent) act(turn, path string, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	for ctx.Err() == nil {
		res, err := a.c.do(ctx, http.MethodPost, "/v1/turns/"+turn+path, data, nil)
		if err == nil {
			_ = res.Body.Close() // only the status counts
			if res.StatusCode < http.StatusInternalServerError && res.StatusCode != http.StatusNotFound {
				return
			}
		}
		wait(ctx, followWait)
	}
}

// promptText is what the user says and shows. What is not text is refused, not left out.
func promptText(blocks []json.RawMessage) (string, error) {
	var out strings.Builder
	for _, raw := range blocks {
		var b struct {
			Type, Text, URI string
			Resource        struct{ URI, Text string }
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return "", &acpError{acpParams, "a content block is malformed"}
		}
		switch {
		case b.Type == "text":
			out.WriteString(b.Text)
		case b.Type == "resource_link":
			fmt.Fprintf(&out, "\n[%s]\n", b.URI)
		case b.Type == "resource" && b.Resource.Text != "":
			fmt.Fprintf(&out, "\n[%s]\n%s\n", b.Resource.URI, b.Resource.Text)
		default:
			return "", &acpError{acpParams, "content of type " + b.Type + " cannot be read by this agent"}
		}
	}
	if out.Len() == 0 {
		return "", &acpError{acpParams, "the prompt is empty"}
	}
	return out.String(), nil
}

// prompt runs one turn of a session, and shows it as it goes.
func (a *acpAgent) prompt(ctx context.Context, params json.RawMessage) (any, error) {
	var p struct {
		SessionID string
		Prompt    []json.RawMessage
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &acpError{acpParams, "the prompt is malformed"}
	}
	s, err := a.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	text, err := promptText(p.Prompt)
	if err != nil {
		return nil, err
	}
	turn := "acp-" + uuid.NewString()
	s.mu.Lock()
	if s.turn != "" {
		s.mu.Unlock()
		return nil, &acpError{acpParams, "the session answers another prompt"}
	}
	s.turn = turn
	s.messages = append(s.messages, acpSaid{"user", text})
	body := map[string]any{"turn": turn, "messages": s.messages}
	if a.route != "" {
		body["route"] = a.route
	}
	data, err := json.Marshal(body)
	s.mu.Unlock()
	t := &acpTurn{a: a, session: p.SessionID, turn: turn}
	if err == nil {
		err = t.run(ctx, data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = ""
	if t.text != "" {
		s.messages = append(s.messages, acpSaid{"assistant", t.text})
	}
	if err != nil {
		return nil, err
	}
	return t.answer()
}

// acpTurn follows one turn for a session.
type acpTurn struct {
	a             *acpAgent
	session, turn string
	text          string
	done          *feed.Completion
	failed        *feed.Error
	saved         string
}

func (t *acpTurn) run(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	follow := *t.a.c
	follow.query = "?reset=hold"
	res, err := follow.do(ctx, http.MethodPost, "/v1/turns"+follow.query, body, map[string]string{"Accept": "application/x-ndjson"})
	if err != nil {
		return err
	}
	err = follow.follow(ctx, url.PathEscape(t.turn), res, func(it render.Item) error {
		t.see(ctx, cancel, it)
		return nil
	})
	if t.done != nil || t.failed != nil {
		return nil
	}
	return err
}

func (t *acpTurn) see(ctx context.Context, cancel func(), it render.Item) {
	for _, u := range render.ACPUpdates(it) {
		t.a.notify("session/update", map[string]any{"sessionId": t.session, "update": u})
	}
	switch b := it.Body.(type) {
	case *feed.ApprovalRequest:
		go t.approve(ctx, b)
	case *feed.Completion:
		t.done, t.text = b, b.Text
		time.AfterFunc(acpSavedWait, cancel)
	case *feed.Error:
		t.failed = b
	case *feed.MessageSaved:
		t.saved = b.MessageID
	}
}

// approve asks the editor about a call. Whoever answers first decides; the turn waits.
func (t *acpTurn) approve(ctx context.Context, b *feed.ApprovalRequest) {
	answer, err := t.a.ask(ctx, "session/request_permission", map[string]any{"sessionId": t.session,
		"toolCall": map[string]any{"toolCallId": t.turn + "-" + b.Call, "title": b.Tool, "status": "pending"},
		"options": []map[string]any{{"optionId": "allow", "name": "Allow", "kind": "allow_once"},
			{"optionId": "reject", "name": "Reject", "kind": "reject_once"}}})
	var o struct {
		Outcome struct{ Outcome, OptionID string }
	}
	if err != nil || json.Unmarshal(answer, &o) != nil || o.Outcome.Outcome != "selected" {
		return // cancelled, or nobody there: the call stays parked for somebody else
	}
	verb := "/deny"
	body := map[string]any{"by": "editor"}
	if o.Outcome.OptionID == "allow" {
		verb, body["digest"] = "/approve", b.Digest
	}
	t.a.act(t.turn, "/calls/"+b.Call+verb, body)
}

func (t *acpTurn) answer() (any, error) {
	meta := map[string]any{"turn": t.turn, "message_id": t.saved}
	switch {
	case t.failed != nil && t.failed.Class == "cancelled":
		return map[string]any{"stopReason": "cancelled", "_meta": map[string]any{"turnfold": meta}}, nil
	case t.failed != nil:
		return nil, &acpError{acpInternal, t.failed.Message + " (" + t.failed.Class + ")"}
	case t.done == nil:
		return nil, &acpError{acpInternal, "the turn's feed broke off"}
	}
	meta["finish"], meta["salvaged"], meta["attempts"], meta["usage"] = t.done.Finish, t.done.Salvaged, t.done.Attempts, t.done.Usage
	return map[string]any{"stopReason": render.ACPStop(t.done.Finish, t.done.Salvaged), "_meta": map[string]any{"turnfold": meta}}, nil
}
