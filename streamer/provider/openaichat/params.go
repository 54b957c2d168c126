package openaichat

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
)

// own are the members that the encoder alone may write: a client that set them would
// change what an attempt is.
var own = map[string]bool{"model": true, "messages": true, "stream": true, "stream_options": true, "tools": true, "n": true}

// params writes the client's own members, as they came, and says which those are.
func (e *encoder) params(req provider.Request) (named map[string]bool, err error) {
	if req.Params == "" {
		return nil, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader([]byte(req.Params)))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errors.New("the parameters of the request are no JSON object")
	}
	named = map[string]bool{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("the parameters of the request: %w", err)
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("the parameters of the request: %w", err)
		}
		if own[key] || key == "max_tokens" && req.MaxOutputTokens > 0 || key == "tool_choice" && (len(req.Tools) == 0 || req.ToolChoice == "none") {
			continue
		}
		named[key] = true
		e.raw(",")
		e.quote(key)
		e.raw(":" + string(value))
	}
	return named, nil
}
