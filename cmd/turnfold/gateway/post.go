package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// openTimeout bounds the storing of a turn's opening. It goes on without the client,
	// whose request may be on the log already.
	openTimeout  = 20 * time.Second
	openRetryMin = 20 * time.Millisecond
	openRetryMax = time.Second
)

// postTurn opens a turn, or attaches to it if it is open already.
func (g *Gateway) postTurn(w http.ResponseWriter, r *http.Request, tenant string) {
	began := time.Now()
	v, err := nativeView(r)
	var body []byte
	if err == nil {
		body, err = g.readBody(w, r)
	}
	var req turnRequest
	if err == nil {
		req, err = parseTurn(body)
	}
	if err == nil {
		err = g.serveTurn(w, r, subjects.Turn{Tenant: tenant, ID: req.Turn}, req, v, began)
	}
	if err != nil {
		g.refuseFor(w, r, err)
	}
}

// serveTurn opens a turn or attaches to it, and follows it unless the client asked for
// no more than that. An error means that nothing was written.
func (g *Gateway) serveTurn(w http.ResponseWriter, r *http.Request, t subjects.Turn, req turnRequest, v view, began time.Time) error {
	async := respondAsync(r)
	if req.named {
		digest, err := req.digest()
		if err != nil {
			return err
		}
		switch exists, err := g.sameTurn(r.Context(), t, digest); {
		case err != nil:
			return err
		case exists && async:
			g.accepted(w, t)
			return nil
		case exists:
			return g.attach(w, r, t, v)
		}
	}
	opened, err := g.pin(req)
	if err == nil && g.stopping.Load() {
		err = fault{http.StatusServiceUnavailable, "", "The server is stopping; try again."}
	}
	if err == nil {
		err = g.door.admit(t)
	}
	if err != nil {
		return err
	}
	if async {
		if _, err := g.open(r.Context(), t, opened); err != nil {
			return err
		}
		g.accepted(w, t)
		return nil
	}
	return g.openAndFollow(w, r, t, opened, v, began)
}

// openAndFollow sends a first byte before any work starts.
func (g *Gateway) openAndFollow(w http.ResponseWriter, r *http.Request, t subjects.Turn, opened *event.TurnOpened, v view, began time.Time) error {
	ctx, cancel := context.WithTimeout(r.Context(), joinTimeout)
	rd, leave, err := g.hub.join(ctx, t)
	cancel()
	if err != nil {
		g.door.refused(t, err)
		return err
	}
	defer leave()
	s, err := begin(w, t, v, false)
	if err != nil {
		g.door.refused(t, err)
		return nil // nothing has been stored, and the client has gone
	}
	attached, err := g.open(r.Context(), t, opened)
	if err != nil {
		class, message := openFailure(err)
		g.cfg.Log.Warn().Err(err).Str("turn", t.ID).Msg("turn not opened")
		_ = errors.Join(s.fail(class, message), s.end("")) // the client may have gone
		return nil
	}
	// Whoever opened the turn first has had items before this reader joined; a turn that
	// is new has all of them still to come.
	f := &follower{g: g, turn: t, reader: rd, stream: s, unread: attached, compact: attached && v.compact, linger: v.linger}
	if !attached {
		f.posted = began
	}
	f.run(r.Context())
	return nil
}

func openFailure(err error) (class, message string) {
	var f fault
	switch {
	case errors.As(err, &f) && f.status == http.StatusConflict:
		return "conflict", f.detail
	case errors.As(err, &f) && f.status == http.StatusGone:
		return "erased", f.detail
	case errors.Is(err, jet.ErrRejected):
		return "too_large", "The log refused the turn, most likely for its size."
	}
	return "unavailable", "The turn could not be stored; post it again."
}

func (g *Gateway) accepted(w http.ResponseWriter, t subjects.Turn) {
	w.Header().Set("Location", "/v1/turns/"+t.ID)
	w.Header().Set("Preference-Applied", "respond-async")
	g.answer(w, http.StatusAccepted, struct {
		Turn string `json:"turn"`
	}{t.ID})
}

func respondAsync(r *http.Request) bool {
	for _, prefer := range r.Header.Values("Prefer") {
		for part := range strings.SplitSeq(prefer, ",") {
			name, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// sameTurn reports whether the turn exists; as another request it is a conflict.
func (g *Gateway) sameTurn(ctx context.Context, t subjects.Turn, digest string) (bool, error) {
	stored, ok, err := g.opening(ctx, t)
	if err != nil || !ok {
		return false, err
	}
	if stored != digest {
		return false, conflict(t)
	}
	return true, nil
}

func conflict(t subjects.Turn) error {
	return fault{http.StatusConflict, "turn", fmt.Sprintf("The turn %s exists with another request.", t.ID)}
}

// opening is the digest of a turn's first fact; empty if that is no opening.
func (g *Gateway) opening(ctx context.Context, t subjects.Turn) (digest string, ok bool, err error) {
	err = g.cfg.Turns.Each(ctx, t, 0, func(e event.Event) error {
		ok = true
		switch b := e.Body.(type) {
		case *event.TurnOpened:
			digest = b.Digest
		case *event.TurnErased:
			return gone()
		}
		return errStop
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return digest, ok, err
}
