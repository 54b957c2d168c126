// Package gateway is turnfold's HTTP API: it opens turns, hands out their feeds, and
// shows what is known of them.
//
// Invariants: a turn is opened once, whoever posts it how often; a reader gets every
// item of a feed after its position, in order, each once; no reader, however slow,
// holds up another or makes this process grow.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Config is what a gateway needs.
type Config struct {
	Conn       *jet.Conn
	Turns      *turns.Reader
	Partitions int
	Tools      []event.Tool             // all declared tools, as they are pinned
	Routes     map[string][]event.Entry // a request that names none gets "default"
	Policy     event.Policy             // DeadlineMS caps what a request asks for
	// Tokens maps bearer tokens to tenants. Empty: no token is asked for, and every
	// request is of the tenant "local". Only for loopback.
	Tokens map[string]string
	// BodyBytesMax bounds a request's body. Zero means 1 MiB.
	BodyBytesMax int64
	// Origins lists the web origins whose pages may call the API, as in
	// https://app.example; "*" is every origin, and needs tokens. Empty: only pages of
	// the server itself.
	Origins []string
	// PingEvery is how long a feed may be silent. Zero means 10s; proxies give up on
	// silence, most of them after 60s, some after 15s.
	PingEvery time.Duration
	// Ready tells of each thing that must work. Nil means that nothing can be wrong.
	Ready func(context.Context) []Check
	// Audit gives a turn's verdict, as JSON. Nil: the API has no audit.
	Audit func(context.Context, subjects.Turn) (any, error)
	// TurnsPerTenant is how many turns of one tenant may be open at a time, in the whole
	// deployment. Zero: no limit.
	TurnsPerTenant int
	// AcceptWithin is how long a stored turn may wait for its owner before its partition
	// takes no more turns. Zero means 15s.
	AcceptWithin time.Duration
	// Version is shown in the Server header.
	Version  string
	Log      zerolog.Logger
	Registry *prometheus.Registry // nil: a registry of its own
}

// Check is one thing that must work for this process to be of use.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	// Info: shown, but not a reason to be out of service.
	Info bool `json:"info,omitempty"`
}

const (
	bodyBytesMaxDefault = 1 << 20
	pingEveryDefault    = 10 * time.Second

	// routeDefault serves a request that names no route.
	routeDefault = "default"
)

func (c Config) withDefaults() Config {
	if c.BodyBytesMax == 0 {
		c.BodyBytesMax = bodyBytesMaxDefault
	}
	if c.PingEvery == 0 {
		c.PingEvery = pingEveryDefault
	}
	if c.AcceptWithin == 0 {
		c.AcceptWithin = AcceptWithinMin
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) []Check { return nil }
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Conn == nil || c.Turns == nil {
		errs = append(errs, errors.New("needs Conn and Turns"))
	}
	if c.Partitions < 1 {
		errs = append(errs, fmt.Errorf("needs at least 1 in Partitions, not %d", c.Partitions))
	}
	if c.BodyBytesMax < 1 || c.PingEvery < 0 {
		errs = append(errs, errors.New("needs a positive BodyBytesMax and PingEvery"))
	}
	if c.TurnsPerTenant < 0 || c.AcceptWithin < 0 {
		errs = append(errs, errors.New("TurnsPerTenant and AcceptWithin must not be negative"))
	}
	if c.PingEvery > 15*time.Second {
		errs = append(errs, fmt.Errorf("PingEvery is %s; a feed is silent for 15s at most", c.PingEvery))
	}
	errs = append(errs, checkOrigins(c.Origins, len(c.Tokens) > 0))
	for token, tenant := range c.Tokens {
		if token == "" {
			errs = append(errs, errors.New("a token is empty"))
		}
		errs = append(errs, subjects.CheckID("tenant of a token", tenant))
	}
	return errors.Join(errs...)
}

// Gateway serves the API.
type Gateway struct {
	cfg     Config
	hub     *hub
	door    *admission
	tenants *tenants
	recent  *recent
	metrics *metrics
	reads   chan struct{} // one for each feed that is being read from the log
	handler http.Handler

	directory *directory
	summaries *summaries

	stopping atomic.Bool
	stopOnce sync.Once
	stopped  chan struct{} // closed when feeds must end
}

// New checks the configuration and starts nothing.
func New(cfg Config) (*Gateway, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	cfg.Log = cfg.Log.With().Str("component", "gateway").Logger()
	m := newMetrics(cfg.Registry)
	door := newAdmission(cfg.Partitions, cfg.TurnsPerTenant, cfg.AcceptWithin)
	dir := newDirectory(cfg.Conn, cfg.Partitions)
	g := &Gateway{cfg: cfg, door: door, hub: newHub(cfg.Conn, cfg.Partitions, cfg.Log, m, door, dir), tenants: newTenants(cfg.Tokens), recent: newRecent(),
		metrics: m, reads: make(chan struct{}, readsMax), directory: dir, summaries: newSummaries(), stopped: make(chan struct{})}
	g.handler = g.routes()
	return g, nil
}

// Handler is the API. Feeds need Run to be running.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Run follows the feeds of every partition until ctx ends, and then ends every open
// feed, for its reader to go on elsewhere.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.stopOnce.Do(func() { close(g.stopped) })
	deaf, err := g.door.overhear(g.cfg.Conn)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	defer deaf()
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return g.hub.run(ctx) })
	work.Go(func() error { return g.door.follow(ctx, g.cfg.Turns) })
	work.Go(func() error { g.followErasures(ctx); return nil })
	return work.Wait()
}

// Drain turns readiness off and refuses new turns. Feeds go on until Run ends.
func (g *Gateway) Drain() { g.stopping.Store(true) }

func (g *Gateway) routes() http.Handler {
	mux := http.NewServeMux()
	api := func(pattern string, h func(http.ResponseWriter, *http.Request, string)) {
		mux.Handle(pattern, g.tenants.require(h))
	}
	api("POST /v1/turns", g.postTurn)
	api("GET /v1/turns", g.listTurns)
	api("GET /v1/turns/{turn}", g.turnRoute(g.getTurn))
	api("DELETE /v1/turns/{turn}", g.turnRoute(g.deleteTurn))
	api("GET /v1/turns/{turn}/feed", g.turnRoute(g.getFeed))
	api("GET /v1/turns/{turn}/audit", g.turnRoute(g.getAudit))
	api("GET /v1/turns/{turn}/events", g.turnRoute(g.getEvents))
	api("GET /v1/turns/{turn}/effects", g.turnRoute(g.getTurnEffects))
	api("POST /v1/turns/{turn}/cancel", g.turnRoute(g.postCancel))
	api("GET /v1/turns/{turn}/calls/{call}/approval", g.turnRoute(g.getApproval))
	api("POST /v1/turns/{turn}/calls/{call}/approve", g.turnRoute(g.postApprove))
	api("POST /v1/turns/{turn}/calls/{call}/deny", g.turnRoute(g.postDeny))
	api("GET /v1/effects", g.listEffects)
	api("GET /v1/effects/{key}", g.getEffect)
	api("POST /v1/effects/{key}/resolve", g.postResolve)
	api("POST /v1/ai-sdk/chat", g.postChat)
	api("GET /v1/ai-sdk/chat/{chat}/stream", g.getChatStream)
	api("POST /v1/ag-ui", g.postRun)
	openAI := func(pattern string, h func(http.ResponseWriter, *http.Request, string)) {
		mux.Handle(pattern, g.tenants.requireOr(refuseOpenAI, h))
	}
	openAI("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request, tenant string) { g.postCompletion(w, r, tenant, false) })
	openAI("POST /v1/passthrough/chat/completions", func(w http.ResponseWriter, r *http.Request, tenant string) { g.postCompletion(w, r, tenant, true) })
	openAI("GET /v1/models", g.getModels)
	openAI("GET /v1/passthrough/models", g.getModels)
	api("GET /metrics", g.getMetrics())
	mux.HandleFunc("GET /livez", g.getLivez)
	mux.HandleFunc("GET /readyz", g.getReadyz)
	mux.HandleFunc("GET /{$}", getIndex)
	mux.HandleFunc("GET /page/{file}", getPageFile)
	return g.outer(mux)
}

// turnRoute checks the turn's id before anything touches the log.
func (g *Gateway) turnRoute(h func(http.ResponseWriter, *http.Request, subjects.Turn)) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, tenant string) {
		t := subjects.Turn{Tenant: tenant, ID: r.PathValue("turn")}
		if err := subjects.CheckID("turn", t.ID); err != nil {
			refuse(w, fault{http.StatusBadRequest, "turn", err.Error()})
			return
		}
		h(w, r, t)
	}
}
