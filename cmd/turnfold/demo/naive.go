package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/subjects/event"
)

// client is an agent loop as many have written it: it runs a call as soon as the call
// is complete, keys it by the provider's id, and asks again when the stream breaks.
// With resets it takes back the text of the broken stream; the refund has run by then.
type client struct {
	api, pay string
	resets   bool
}

func (c client) run(ctx context.Context) (string, error) {
	shown := ""
	msgs := []provider.Message{{Role: "user", Text: question}}
	for range 4 { // steps
		text, calls, results, err := c.step(ctx, &shown, msgs)
		if err != nil {
			return shown, err
		}
		if len(calls) == 0 {
			return shown, nil
		}
		reply := provider.Message{Role: "assistant", Parts: []provider.Part{{Text: text}}}
		for _, call := range calls {
			reply.Parts = append(reply.Parts, provider.Part{Call: call})
		}
		msgs = append(msgs, reply, provider.Message{Role: "tool", Results: results})
	}
	return shown, errors.New("the model does not come to an end")
}

// step asks until a stream finishes. What broken streams showed and ran is not undone,
// except that resets clears their text.
func (c client) step(ctx context.Context, shown *string, msgs []provider.Message) (string, []*provider.Call, []provider.Result, error) {
	before := *shown
	for range 3 { // attempts
		text, open := "", &provider.Call{}
		var calls []*provider.Call
		var results []provider.Result
		end := ask(ctx, c.api, msgs, "issue_refund", func(b event.Body) error {
			switch b := b.(type) {
			case *event.TextDelta:
				text += b.Text
				*shown += b.Text
			case *event.CallDelta:
				open.ID, open.Name = open.ID+b.ID, open.Name+b.Name
				if open.Args += b.Args; json.Valid([]byte(open.Args)) {
					result, err := send(ctx, c.pay, open.ID, open.Args, 5*time.Second)
					if err != nil {
						return err
					}
					calls = append(calls, open)
					results = append(results, provider.Result{ID: open.ID, Name: open.Name, Text: result})
					open = &provider.Call{}
				}
			}
			return nil
		})
		if _, ok := end.(*event.AttemptFinished); ok {
			return text, calls, results, nil
		}
		if c.resets {
			*shown = before
		}
	}
	return "", nil, nil, errors.New("the model did not answer in three attempts")
}

// naiveTickets is the loop of the fourteen tickets: each timeout goes back to the model
// as an error, and every wording is a call of its own, keyed by its whole arguments.
func naiveTickets(ctx context.Context, api, desk string) error {
	msgs := []provider.Message{{Role: "user", Text: "My helmet never came. Please open a ticket."}}
	for range rewordings + 1 {
		call := &provider.Call{}
		end := ask(ctx, api, msgs, "create_ticket", func(b event.Body) error {
			if d, ok := b.(*event.CallDelta); ok {
				call.ID, call.Name, call.Args = call.ID+d.ID, call.Name+d.Name, call.Args+d.Args
			}
			return nil
		})
		if failed, ok := end.(*event.AttemptFailed); ok {
			return fmt.Errorf("the model failed: %s %s", failed.Class, failed.Detail)
		}
		if call.Name == "" {
			return nil
		}
		sum := sha256.Sum256([]byte(call.Args))
		result, err := send(ctx, desk, hex.EncodeToString(sum[:8]), call.Args, ticketTimeout)
		if err != nil {
			result = "error: timeout, please try again"
		}
		msgs = append(msgs, provider.Message{Role: "assistant", Parts: []provider.Part{{Call: call}}},
			provider.Message{Role: "tool", Results: []provider.Result{{ID: call.ID, Name: call.Name, Text: result}}})
	}
	return nil
}

// ask makes one model request and hands over its pieces as they come.
func ask(ctx context.Context, api string, msgs []provider.Message, tool string, emit func(event.Body) error) event.Body {
	r := provider.Request{Model: "demo", Messages: msgs, Tools: []provider.Tool{{Name: tool}}}
	return provider.NewRequester(provider.Config{}).Attempt(ctx, openaichat.API{}, provider.Endpoint{BaseURL: api}, r, nil, emit)
}

// send calls a tool.
func send(ctx context.Context, url, key, args string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(args))
	if err != nil {
		return "", err
	}
	req.GetBody = nil // net/http would send a keyed request again by itself
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var out strings.Builder
	if _, err := fmt.Fprint(&out, res.Status); err != nil {
		return "", err
	}
	return out.String(), nil
}
