package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

const (
	eventsDefault = 1000
	eventsMax     = 2000
	// eventsBytesMax ends a page of events early; the next one goes on.
	eventsBytesMax = 4 << 20
)

// withheld stands for content of an event that nobody is shown.
const withheld = "[not shown]"

// eventPage is the answer of GET /v1/turns/{turn}/events: the turn's facts as they are
// on the log, in order. What `show` does not show is withheld: messages of the
// conversation, provider blocks, and arguments where a tool of the turn declares redact.
type eventPage struct {
	Turn      string      `json:"turn"`
	Tenant    string      `json:"tenant"`
	Partition int         `json:"partition"`
	Stream    string      `json:"stream"`
	Subject   string      `json:"subject"`
	Events    []eventView `json:"events"`
	More      bool        `json:"more"`
}

type eventView struct {
	Seq  uint64         `json:"seq"`
	AtMS int64          `json:"at_ms"` // when the log stored it, in milliseconds since 1970
	Kind string         `json:"kind"`
	Body jsontext.Value `json:"body"`
	// Withheld: something of it is not shown.
	Withheld bool `json:"withheld,omitzero"`
}

func (g *Gateway) getEvents(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	after, limit, err := eventRange(r)
	var out eventPage
	if err == nil {
		out, err = g.eventPage(r.Context(), t, after, limit)
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusOK, out)
}

func eventRange(r *http.Request) (after uint64, limit int, err error) {
	q := r.URL.Query()
	limit = eventsDefault
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > eventsMax {
			return 0, 0, fault{http.StatusUnprocessableEntity, "limit", fmt.Sprintf("must be 1 to %d", eventsMax)}
		}
	}
	if text := q.Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, 0, fault{http.StatusUnprocessableEntity, "after", "must be the seq of an event"}
		}
	}
	return after, limit, nil
}

func (g *Gateway) eventPage(ctx context.Context, t subjects.Turn, after uint64, limit int) (eventPage, error) {
	p := t.Partition(g.cfg.Partitions)
	out := eventPage{Turn: t.ID, Tenant: t.Tenant, Partition: p, Stream: subjects.EventsStream(p), Subject: subjects.Events(p, t), Events: []eventView{}}
	redacts, known, err := g.redacts(ctx, t)
	if err != nil {
		return out, err
	}
	if !known {
		return out, fault{http.StatusNotFound, "turn", "No such turn."}
	}
	size := 0
	err = g.cfg.Turns.EachAfter(ctx, t, after, func(e event.Event) error {
		if len(out.Events) == limit || size > eventsBytesMax {
			out.More = true
			return errStop
		}
		body, hidden := shownEvent(e.Body, redacts)
		data, err := event.Encode(body)
		if err != nil {
			return err
		}
		size += len(data)
		out.Events = append(out.Events, eventView{Seq: e.Seq, AtMS: e.AtMS, Kind: e.Body.Kind(), Body: data, Withheld: hidden})
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return out, err
}

// redacts reports whether a tool of the turn declares what nobody is shown, by the turn's
// first fact. One that is no opening tells nothing, so that everything is withheld.
func (g *Gateway) redacts(ctx context.Context, t subjects.Turn) (redacts, known bool, err error) {
	redacts = true
	err = g.cfg.Turns.Each(ctx, t, 0, func(e event.Event) error {
		known = true
		if _, erased := e.Body.(*event.TurnErased); erased {
			return gone()
		}
		if b, ok := e.Body.(*event.TurnOpened); ok {
			redacts = false
			for _, tool := range b.Tools {
				redacts = redacts || len(tool.Redact) > 0
			}
		}
		return errStop
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return redacts, known, err
}

// shownEvent is an event without what is not shown. An argument text comes in pieces, in
// which no pointer can be found: where anything is redacted, all of it is.
func shownEvent(body event.Body, redacts bool) (shown event.Body, hidden bool) {
	hide := func(s *string, when bool) {
		if *s != "" && when {
			*s, hidden = withheld, true
		}
	}
	switch b := body.(type) {
	case *event.TurnOpened:
		c := *b
		c.Messages = make([]event.Message, len(b.Messages))
		for i, m := range b.Messages {
			c.Messages[i] = event.Message{Role: m.Role, Content: m.Content}
			hide(&c.Messages[i].Content, true)
			hidden = hidden || len(m.Calls) > 0
		}
		hide(&c.System, true)
		hide(&c.Params, true)
		return &c, hidden
	case *event.CallDelta:
		c := *b
		hide(&c.Args, redacts)
		hide(&c.Opaque, true)
		return &c, hidden
	case *event.OpaqueBlock:
		c := *b
		hide(&c.Data, true)
		return &c, hidden
	case *event.Unknown: // what it holds is for newer binaries to say
		raw, err := jsontext.AppendQuote(nil, b.Name)
		if err != nil {
			raw = []byte(`"?"`)
		}
		return &event.Unknown{Name: b.Name, Raw: append(append([]byte(`{"kind":`), raw...), '}')}, true
	}
	return body, false
}
