// Package adaptertest is what every adapter must hold: the field cases of its dialect,
// cuts at every byte, and whatever bytes a fuzzer thinks of. An adapter's own tests call
// it and add what is its dialect's alone.
package adaptertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// Call is a tool call as it was put together from its pieces: id, name, argument text.
type Call [3]string

// ID is the provider's name for the call.
func (c Call) ID() string { return c[0] }

// Name is the tool's.
func (c Call) Name() string { return c[1] }

// Args is the argument text.
func (c Call) Args() string { return c[2] }

// Reply is what an attempt came to.
type Reply struct {
	Text, Reasoning string
	Calls           []Call
	Opaque          []string // of calls, by place
	Blocks          []string // opaque blocks
	Order           string   // what came: t, r, o, or a call's place; neighbours of one kind once
	End             event.Body
}

// Take adds a piece. It panics at pieces that no adapter may emit.
func (r *Reply) Take(b event.Body) error {
	switch b := b.(type) {
	case *event.TextDelta:
		r.Text += b.Text
		r.note("t")
	case *event.ReasoningDelta:
		r.Reasoning += b.Text
		r.note("r")
	case *event.OpaqueBlock:
		r.Blocks = append(r.Blocks, b.Data)
		r.note("o")
	case *event.CallDelta:
		if b.Index > len(r.Calls) {
			panic("a call's opening is missing")
		}
		if b.Index == len(r.Calls) {
			r.Calls, r.Opaque = append(r.Calls, Call{}), append(r.Opaque, "")
		}
		r.Opaque[b.Index] += b.Opaque
		r.note(fmt.Sprint(b.Index))
		c := &r.Calls[b.Index]
		if b.ID != "" && c.ID() != "" || b.Name != "" && c.Name() != "" {
			panic("id or name set twice")
		}
		c[0] += b.ID
		c[1] += b.Name
		c[2] += b.Args
	}
	return nil
}

func (r *Reply) note(kind string) {
	if !strings.HasSuffix(r.Order, kind) {
		r.Order += kind
	}
}

// Failed is the reply's failure; anything else ends the test.
func (r *Reply) Failed(t testing.TB) *event.AttemptFailed {
	t.Helper()
	f, ok := r.End.(*event.AttemptFailed)
	if !ok {
		t.Fatalf("ended with %#v, want a failure", r.End)
	}
	return f
}

// Finished is the reply's finish; anything else ends the test.
func (r *Reply) Finished(t testing.TB) *event.AttemptFinished {
	t.Helper()
	f, ok := r.End.(*event.AttemptFinished)
	if !ok {
		t.Fatalf("ended with %#v, want a finish", r.End)
	}
	return f
}

var requester = provider.NewRequester(provider.Config{Trailing: 100 * time.Millisecond})

// Ask makes one attempt at s.
func Ask(t testing.TB, api provider.API, s *providertest.Server, ep provider.Endpoint, req provider.Request) *Reply {
	t.Helper()
	ep.BaseURL, req.Model = s.URL+"/v1", "m-small"
	r := new(Reply)
	r.End = requester.Attempt(context.Background(), api, ep, req, nil, func(b event.Body) error {
		if o, ok := b.(*event.OpaqueBlock); ok && o.API != api.Name() {
			t.Errorf("a block of another API: %s", o.API)
		}
		return r.Take(b)
	})
	return r
}

// Decode runs the decoder alone over the data of events.
func Decode(t testing.TB, api provider.API, data ...string) *Reply {
	t.Helper()
	d, r := api.NewDecoder(), new(Reply)
	for _, one := range data {
		done, err := d.Event("", []byte(one), r.Take)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
	}
	r.End = d.End(nil)
	return r
}
