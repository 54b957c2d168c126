package gateway

import (
	"io"
	"net/http"
	"strings"

	"github.com/turnfold/turnfold/cmd/turnfold/gateway/page"
)

// getLivez says that the process runs. It asks nothing else: a liveness probe that
// fails with the log turns a recovery into a loop of restarts.
func (g *Gateway) getLivez(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n") // the client may have gone
}

// readiness is the answer of /readyz?verbose.
type readiness struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

func (g *Gateway) getReadyz(w http.ResponseWriter, r *http.Request) {
	checks := append([]Check{}, g.cfg.Ready(r.Context())...)
	if n := g.hub.behind(); n > 0 {
		checks = append(checks, Check{Name: "feeds", Detail: "not every partition's feed is followed yet"})
	} else {
		checks = append(checks, Check{Name: "feeds", OK: true})
	}
	if g.stopping.Load() {
		checks = append(checks, Check{Name: "stopping", Detail: "the process has been asked to stop"})
	}
	out := readiness{OK: true, Checks: checks}
	var reasons []string
	for _, c := range checks {
		if !c.OK && !c.Info {
			out.OK = false
			reasons = append(reasons, c.Name+": "+c.Detail)
		}
	}
	status := http.StatusOK
	if !out.OK {
		status = http.StatusServiceUnavailable
	}
	switch {
	case r.URL.Query().Has("verbose"):
		g.answer(w, status, out)
	case !out.OK:
		refuse(w, fault{status, "", strings.Join(reasons, "; ")})
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n") // the client may have gone
	}
}

const index = `turnfold

POST /v1/turns                             open a turn and follow it
GET  /v1/turns                             open turns (?status=all: every turn on the log)
GET  /v1/turns?view=summary                all turns, a page at a time (?state= ?q= ?offset= ?limit=)
GET  /v1/turns/{turn}                      state
GET  /v1/turns/{turn}/feed                 feed, strictly after Last-Event-ID or ?after=
GET  /v1/turns/{turn}/audit                verdict
GET  /v1/turns/{turn}/events               its facts as they are on the log (?after= ?limit=)
GET  /v1/turns/{turn}/effects              what was asked for, and what is known of each effect
POST /v1/turns/{turn}/cancel               {"by", "reason"}
DELETE /v1/turns/{turn}                    {"by", "reason"}: erase its content; then it answers 410
GET  /v1/turns/{turn}/calls/{call}/approval what would run, for whoever approves it
POST /v1/turns/{turn}/calls/{call}/approve {"by", "reason", "digest"}
POST /v1/turns/{turn}/calls/{call}/deny    {"by", "reason"}
GET  /v1/effects?outcome=unknown           calls that nobody knows the end of
GET  /v1/effects/{key}                     what is known of an effect
POST /v1/effects/{key}/resolve             {"as", "by", "why", "result"}: a person's word for an unknown
POST /v1/ai-sdk/chat                       a chat of the AI SDK, as a UI message stream
GET  /v1/ai-sdk/chat/{chat}/stream         its running answer, from the start
POST /v1/ag-ui                             a run of AG-UI
POST /v1/chat/completions                  an answer as of OpenAI; turnfold runs its own tools
POST /v1/passthrough/chat/completions      the same, and the client runs the tools
GET  /v1/models                            the routes, as models
GET  /livez  /readyz?verbose  /metrics

Feeds come as NDJSON, or as Server-Sent Events for Accept: text/event-stream.
Browsers get a page at this address.
`

// getIndex gives people with a browser the page, and everybody else the list of calls.
func getIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		page.Serve(w, r, page.Name)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, index) // the client may have gone
}

func getPageFile(w http.ResponseWriter, r *http.Request) {
	if !page.Serve(w, r, r.PathValue("file")) {
		refuse(w, fault{http.StatusNotFound, "", "The page has no such file."})
	}
}
