package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/event"
)

// savedWait bounds the wait for the saved message where a client takes the answer's end
// for the turn's. The text is out by then; only the end waits (I13).
const savedWait = time.Second

// decode reads a body of another protocol: unlike turnfold's own, those grow members all
// the time, so that unknown ones are no fault.
func (g *Gateway) decode(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := g.readBody(w, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		var semantic *json.SemanticError
		if errors.As(err, &semantic) {
			return fault{http.StatusUnprocessableEntity, strings.Trim(string(semantic.JSONPointer), "/"), "is of another type than this protocol has there"}
		}
		return fault{http.StatusBadRequest, "", "The body is not the JSON object that this protocol sends."}
	}
	return nil
}

// ownMembers are what a request of another protocol may ask of turnfold.
type ownMembers struct {
	Route    string   `json:"route"`
	Tools    []string `json:"tools"`
	System   string   `json:"system"`
	Deadline string   `json:"deadline"`
}

// request makes a turn's request of messages in another protocol's body.
func (o ownMembers) request(turn string, messages []event.Message) (turnRequest, error) {
	r := turnRequest{Turn: turn, named: true, Messages: messages, Route: o.Route, Tools: o.Tools, System: o.System}
	if r.Route == "" {
		r.Route = routeDefault
	}
	if o.Deadline != "" {
		d, err := time.ParseDuration(o.Deadline)
		if err != nil || d < time.Millisecond {
			return r, fault{http.StatusUnprocessableEntity, "turnfold.deadline", "is no positive duration, such as 90s or 5m"}
		}
		r.Deadline = d.Milliseconds()
	}
	if len(messages) == 0 {
		return r, fault{http.StatusUnprocessableEntity, "messages", "holds no text to answer"}
	}
	return r, nil
}

// holdAsked reads how a client wants resets, from a header or a parameter: transports of
// some clients take only one of them.
func holdAsked(r *http.Request, usual string) (string, error) {
	reset := r.Header.Get("Turnfold-Reset")
	if q := r.URL.Query().Get("reset"); q != "" {
		reset = q
	}
	switch reset {
	case "":
		return usual, nil
	case "hold", "step", "snapshot":
		return reset, nil
	}
	return "", fault{http.StatusUnprocessableEntity, "reset", "must be hold or " + usual}
}

// digestOf names things that a client has named itself, in the letters of a turn's id.
func digestOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		_, _ = io.WriteString(h, p) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}

// plainText reads content that is a text or a list of parts with texts. Parts of other
// kinds are refused, not left out: an answer that ignores a picture looks like one that
// has seen it.
func plainText(field string, raw jsontext.Value) (string, error) {
	switch raw.Kind() {
	case 0, 'n':
		return "", nil
	case '"':
		var s string
		return s, json.Unmarshal(raw, &s)
	case '[':
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(raw, &parts); err != nil {
			return "", fault{http.StatusUnprocessableEntity, field, "is no list of parts"}
		}
		var out strings.Builder
		for i, p := range parts {
			if p.Type != "text" && p.Type != "input_text" && p.Type != "output_text" {
				return "", fault{http.StatusUnprocessableEntity, fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("is of type %q; only text can be sent", p.Type)}
			}
			out.WriteString(p.Text)
		}
		return out.String(), nil
	}
	return "", fault{http.StatusUnprocessableEntity, field, "must be a text or a list of parts"}
}
