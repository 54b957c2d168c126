package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
)

// outer is around every request: what no route knows is a problem too, other web
// pages are kept out, and a panic costs one request.
func (g *Gateway) outer(mux *http.ServeMux) http.Handler {
	cross := newCrossing(g.cfg.Origins)
	server := "turnfold"
	if g.cfg.Version != "" {
		server += "/" + g.cfg.Version
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", server)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		rec := &recorder{ResponseWriter: w}
		_, pattern := mux.Handler(r)
		defer g.finish(rec, r, pattern)
		switch {
		case cross.answer(rec, r):
		case cross.check(r) != nil:
			refuse(rec, fault{http.StatusForbidden, "", "Requests of other web pages are refused."})
		case len(g.cfg.Tokens) == 0 && rebound(r):
			refuse(rec, fault{http.StatusForbidden, "", "Without tokens, browsers must call this server by a loopback name."})
		case pattern == "":
			g.unrouted(rec, r, mux)
		default:
			mux.ServeHTTP(rec, r)
		}
	})
}

// finish counts the request, and answers for a handler that panicked.
func (g *Gateway) finish(rec *recorder, r *http.Request, pattern string) {
	p := recover()
	if p == http.ErrAbortHandler {
		panic(p)
	}
	if p != nil {
		g.cfg.Log.Error().Interface("panic", p).Str("route", pattern).Bytes("stack", debug.Stack()).Msg("request failed")
		if rec.status != 0 {
			panic(http.ErrAbortHandler) // the answer has begun: cut it, so that nobody takes it for whole
		}
		refuse(rec, fault{http.StatusInternalServerError, "", "The request met a fault of the server."})
	}
	if pattern == "" {
		pattern = "none"
	}
	g.metrics.requests.WithLabelValues(pattern, strconv.Itoa(rec.status)).Inc()
}

// unrouted turns the mux's plain refusals into problems.
func (g *Gateway) unrouted(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	probe := &probe{header: http.Header{}}
	mux.ServeHTTP(probe, r)
	if location := probe.header.Get("Location"); location != "" && probe.status/100 == 3 {
		http.Redirect(w, r, location, probe.status) // to the clean form of the path
		return
	}
	if allow := probe.header.Get("Allow"); probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		refuse(w, fault{http.StatusMethodNotAllowed, "", "This address answers " + allow + "."})
		return
	}
	refuse(w, fault{http.StatusNotFound, "", "There is nothing at this address; GET / lists what there is."})
}

// probe hears what the mux would say.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// recorder knows the status that was answered.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// rebound reports whether a browser took this server for a site of another name. A
// page may point its own name at 127.0.0.1; then same-origin rules protect nothing.
func rebound(r *http.Request) bool {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.IsLoopback()
}
