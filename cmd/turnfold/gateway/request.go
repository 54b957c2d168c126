package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// turnRequest is the body of POST /v1/turns, checked as far as it can be without the
// configuration.
//
// Its JSON form is what the digest is taken of. Members are only ever added, with
// omitzero, or a turn that is posted again after an upgrade would look like another.
type turnRequest struct {
	Turn     string          `json:"turn"`
	Messages []event.Message `json:"messages"`
	Route    string          `json:"route"`
	Tools    []string        `json:"tools"` // null = all declared tools, [] = none
	System   string          `json:"system,omitzero"`
	Deadline int64           `json:"deadline_ms,omitzero"`
	// Conversation is what the turn belongs to; keys of the scope conversation hold it.
	Conversation string `json:"conversation,omitzero"`

	// ClientTools are the client's own: it runs them itself, and none of the server's are
	// offered. The others are as in event.TurnOpened; OwnLimit: Params bound the output.
	ClientTools []event.Tool `json:"client_tools,omitzero"`
	Client      bool         `json:"client,omitzero"`
	ToolChoice  string       `json:"tool_choice,omitzero"`
	Params      string       `json:"params,omitzero"`
	OwnLimit    bool         `json:"own_limit,omitzero"`

	// named: the client chose the id, so that the turn may exist already.
	named bool
}

// parseTurn reads a request strictly: what is not understood is refused, because a
// misspelt limit that is ignored would cost more than an error.
func parseTurn(body []byte) (turnRequest, error) {
	r := turnRequest{Route: routeDefault}
	var input, deadline string
	var hasInput, hasMessages, hasDeadline, hasConversation bool
	err := members(body, func(d *jsontext.Decoder, name string) error {
		switch name {
		case "turn":
			r.named = true
			return text(d, name, &r.Turn)
		case "input":
			hasInput = true
			return text(d, name, &input)
		case "messages":
			hasMessages = true
			return r.parseMessages(d)
		case "route":
			return text(d, name, &r.Route)
		case "tools":
			return r.parseTools(d)
		case "system":
			return text(d, name, &r.System)
		case "conversation":
			hasConversation = true
			return text(d, name, &r.Conversation)
		case "deadline":
			hasDeadline = true
			return text(d, name, &deadline)
		}
		return unknown("", name)
	})
	if err != nil {
		return r, err
	}
	switch {
	case hasInput && hasMessages:
		return r, fault{http.StatusUnprocessableEntity, "messages", "comes beside input; send one of them"}
	case !hasInput && !hasMessages:
		return r, fault{http.StatusUnprocessableEntity, "input", "is missing; send input or messages"}
	case hasInput && input == "":
		return r, fault{http.StatusUnprocessableEntity, "input", "is empty"}
	case hasInput:
		r.Messages = []event.Message{{Role: "user", Content: input}}
	case len(r.Messages) == 0:
		return r, fault{http.StatusUnprocessableEntity, "messages", "is empty"}
	}
	if hasDeadline {
		d, err := time.ParseDuration(deadline)
		if err != nil || d < time.Millisecond {
			return r, fault{http.StatusUnprocessableEntity, "deadline", "is no positive duration, such as 90s or 5m"}
		}
		r.Deadline = d.Milliseconds()
	}
	if hasConversation {
		if err := subjects.CheckID("conversation", r.Conversation); err != nil {
			return r, fault{http.StatusUnprocessableEntity, "conversation", err.Error()}
		}
	}
	return r, r.nameTurn()
}

func (r *turnRequest) nameTurn() error {
	if r.named {
		if err := subjects.CheckID("turn", r.Turn); err != nil {
			return fault{http.StatusUnprocessableEntity, "turn", err.Error()}
		}
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make a turn id: %w", err)
	}
	r.Turn = id.String()
	return nil
}

func (r *turnRequest) parseMessages(d *jsontext.Decoder) error {
	return list(d, "messages", func(d *jsontext.Decoder, field string) error {
		var m event.Message
		err := object(d, field, func(d *jsontext.Decoder, name string) error {
			switch name {
			case "role":
				return text(d, field+".role", &m.Role)
			case "content":
				return text(d, field+".content", &m.Content)
			}
			return unknown(field, name)
		})
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
			return fault{http.StatusUnprocessableEntity, field + ".role", "must be system, user or assistant"}
		}
		if m.Content == "" {
			return fault{http.StatusUnprocessableEntity, field + ".content", "is missing or empty"}
		}
		r.Messages = append(r.Messages, m)
		return nil
	})
}

func (r *turnRequest) parseTools(d *jsontext.Decoder) error {
	r.Tools = []string{}
	return list(d, "tools", func(d *jsontext.Decoder, field string) error {
		var name string
		if err := text(d, field, &name); err != nil {
			return err
		}
		if slices.Contains(r.Tools, name) {
			return fault{http.StatusUnprocessableEntity, field, fmt.Sprintf("names %q twice", name)}
		}
		r.Tools = append(r.Tools, name)
		return nil
	})
}

// digest tells requests apart by what they ask for, however their bytes were written.
func (r turnRequest) digest() (string, error) {
	data, err := json.Marshal(r, json.Deterministic(true), json.FormatNilSliceAsNull(true))
	if err != nil {
		return "", fmt.Errorf("digest of turn %s: %w", r.Turn, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// pin makes the turn's first fact: the request, and all of the configuration that
// will decide about it.
func (g *Gateway) pin(r turnRequest) (*event.TurnOpened, error) {
	entries, ok := g.cfg.Routes[r.Route]
	if !ok {
		fix := ""
		if len(g.cfg.Routes) == 0 {
			fix = "; it has none: name a model under providers in turnfold.yaml"
		}
		return nil, fault{http.StatusUnprocessableEntity, "route", fmt.Sprintf("%q is no route of this server%s", r.Route, fix)}
	}
	tools := g.cfg.Tools
	if r.Tools != nil {
		tools = nil
		for i, name := range r.Tools {
			at := slices.IndexFunc(g.cfg.Tools, func(t event.Tool) bool { return t.Name == name })
			if at < 0 {
				return nil, fault{http.StatusUnprocessableEntity, fmt.Sprintf("tools[%d]", i), fmt.Sprintf("%q is no declared tool", name)}
			}
			tools = append(tools, g.cfg.Tools[at])
		}
	}
	if r.Client {
		tools = r.ClientTools
	}
	if r.OwnLimit {
		entries = slices.Clone(entries)
		for i := range entries {
			entries[i].MaxOutputTokens = 0
		}
	}
	digest, err := r.digest()
	if err != nil {
		return nil, err
	}
	policy := g.cfg.Policy
	if r.Deadline > 0 && (policy.DeadlineMS == 0 || r.Deadline < policy.DeadlineMS) {
		policy.DeadlineMS = r.Deadline
	}
	now := time.Now().UTC()
	return &event.TurnOpened{
		At: now.Format(time.RFC3339Nano), AtMS: now.UnixMilli(), Conversation: r.Conversation, Digest: digest, System: r.System, Messages: r.Messages,
		Route: r.Route, Entries: entries, Tools: tools, Policy: policy, Rules: event.Rules,
		ClientTools: r.Client, ToolChoice: r.ToolChoice, Params: r.Params,
	}, nil
}
