package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	listDefault = 100
	listMax     = 10_000
)

// load folds a turn; one that was never opened is a fault.
func (g *Gateway) load(ctx context.Context, t subjects.Turn) (fold.State, error) {
	s, err := g.cfg.Turns.Load(ctx, t, 0)
	if err != nil {
		return s, err
	}
	if s.Status == fold.Absent {
		return s, fault{http.StatusNotFound, "turn", "No such turn."}
	}
	return s, readable(&s)
}

func (g *Gateway) getTurn(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	s, err := g.load(r.Context(), t)
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusOK, s.View())
}

func (g *Gateway) getAudit(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	if g.cfg.Audit == nil {
		refuse(w, fault{http.StatusNotImplemented, "", "This server has no audit."})
		return
	}
	// An erased turn has a verdict: that it was erased.
	if s, err := g.load(r.Context(), t); err != nil && s.Status != fold.Erased {
		g.refuseFor(w, r, err)
		return
	}
	verdict, err := g.cfg.Audit(r.Context(), t)
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.answer(w, http.StatusOK, verdict)
}

// turnList is the answer of GET /v1/turns.
type turnList struct {
	Turns []turnEntry `json:"turns"`
	// More: there are turns beyond the limit.
	More bool `json:"more"`
}

type turnEntry struct {
	Turn string `json:"turn"`
}

// listTurns lists the tenant's open turns from the index, or all of them, for which
// the whole log is read: for audits, not for pages, which ask for summaries.
func (g *Gateway) listTurns(w http.ResponseWriter, r *http.Request, tenant string) {
	q := r.URL.Query()
	if q.Has("view") {
		g.listSummaries(w, r, tenant)
		return
	}
	limit := listDefault
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > listMax {
			refuse(w, fault{http.StatusUnprocessableEntity, "limit", fmt.Sprintf("must be 1 to %d", listMax)})
			return
		}
		limit = n
	}
	var ids []string
	var err error
	switch status := q.Get("status"); status {
	case "", "open":
		ids, err = g.openTurns(r.Context(), tenant)
	case "all":
		ids, err = g.allTurns(r.Context(), tenant, limit)
	default:
		refuse(w, fault{http.StatusUnprocessableEntity, "status", "must be open or all"})
		return
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	slices.Sort(ids)
	out := turnList{Turns: []turnEntry{}, More: len(ids) > limit}
	for _, id := range ids[:min(limit, len(ids))] {
		out.Turns = append(out.Turns, turnEntry{id})
	}
	g.answer(w, http.StatusOK, out)
}

func (g *Gateway) openTurns(ctx context.Context, tenant string) ([]string, error) {
	open, err := g.cfg.Turns.Open(ctx, -1)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range open {
		if t.Tenant == tenant {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// erasedKind finds the tombstones among many events without decoding each.
var erasedKind = []byte(`"turn.erased"`)

// allTurns reads the subjects of the event logs, and stops once there are more turns
// than are wanted.
func (g *Gateway) allTurns(ctx context.Context, tenant string, limit int) ([]string, error) {
	seen, erased := map[string]bool{}, map[string]bool{}
	for p := range g.cfg.Partitions {
		filter := strings.TrimSuffix(subjects.Events(p, subjects.Turn{Tenant: tenant}), ".") + ".*"
		_, err := g.cfg.Conn.ReadSubject(ctx, subjects.EventsStream(p), filter, 1, 0, func(m jet.Msg) error {
			_, t, err := subjects.ParseEvents(m.Subject)
			if err == nil && bytes.Contains(m.Data, erasedKind) {
				if b, err := event.Decode(m.Data); err == nil && b.Kind() == new(event.TurnErased).Kind() {
					erased[t.ID] = true
					delete(seen, t.ID)
				}
			}
			if err == nil && !erased[t.ID] {
				seen[t.ID] = true
			}
			if len(seen) > limit {
				return errStop
			}
			return nil
		})
		if errors.Is(err, errStop) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	ids := make([]string, 0, len(seen))
	for id := range seen {
		ids = append(ids, id)
	}
	return ids, nil
}
