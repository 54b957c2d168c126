package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// fault is why a request is refused. Field names the member that is wrong.
type fault struct {
	status int
	field  string
	detail string
}

func (f fault) Error() string {
	if f.field == "" {
		return f.detail
	}
	return f.field + ": " + f.detail
}

// problem is the body of every refusal (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitzero"`
	Field  string `json:"field,omitzero"`
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, f fault) {
	title := http.StatusText(f.status)
	body, err := json.Marshal(problem{
		Type:  "urn:turnfold:problem:" + strings.ReplaceAll(strings.ToLower(title), " ", "-"),
		Title: title, Status: f.status, Detail: strings.ToValidUTF8(f.detail, "\uFFFD"), Field: strings.ToValidUTF8(f.field, "\uFFFD"),
	})
	if err != nil {
		body = []byte(`{"title":"Internal Server Error"}`)
	}
	if f.status == http.StatusServiceUnavailable || f.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(f.status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}

// refuseFor answers for an error of the log, or of a check that made a fault of it.
func (g *Gateway) refuseFor(w http.ResponseWriter, r *http.Request, err error) {
	refuse(w, g.faultOf(r, err))
}

// faultOf says what an error means to a client.
func (g *Gateway) faultOf(r *http.Request, err error) fault {
	var f fault
	switch {
	case errors.As(err, &f):
		return f
	case r.Context().Err() != nil: // the client has gone; the status is for the metrics
		return fault{http.StatusServiceUnavailable, "", "The request was given up."}
	case errors.Is(err, subjects.ErrNewer):
		g.cfg.Log.Error().Err(err).Msg("the log is of a newer version")
		return fault{http.StatusServiceUnavailable, "", "The turn was written by a newer version; upgrade this server."}
	case errors.Is(err, jet.ErrFull):
		g.cfg.Log.Error().Err(err).Msg("the log is full")
		return fault{http.StatusServiceUnavailable, "", "The log is full and takes no new turns; those that are open are kept. Try again later."}
	case errors.Is(err, jet.ErrRejected):
		g.cfg.Log.Warn().Err(err).Msg("the log refused a write")
		return fault{http.StatusRequestEntityTooLarge, "", "The log refused the request, most likely for its size."}
	}
	g.cfg.Log.Warn().Err(err).Str("path", r.URL.Path).Msg("the log does not answer")
	return fault{http.StatusServiceUnavailable, "", "The log does not answer at the moment; try again."}
}

// answer writes v as JSON.
func (g *Gateway) answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		g.cfg.Log.Error().Err(err).Msg("answer cannot be encoded")
		refuse(w, fault{http.StatusInternalServerError, "", "The answer cannot be encoded."})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}
