package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics of the gateway. No ids as labels.
type metrics struct {
	requests   *prometheus.CounterVec
	feeds      prometheus.Gauge
	reads      prometheus.Gauge
	rereads    prometheus.Counter
	rewinds    prometheus.Counter
	poisoned   prometheus.Counter
	firstDelta prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "turnfold_http_requests_total",
			Help: "HTTP requests answered."}, []string{"route", "status"}),
		feeds: prometheus.NewGauge(prometheus.GaugeOpts{Name: "turnfold_feeds_open",
			Help: "Feeds being followed."}),
		reads: prometheus.NewGauge(prometheus.GaugeOpts{Name: "turnfold_feed_reads",
			Help: "Feeds being read from the log, of at most 16 at a time."}),
		rereads: prometheus.NewCounter(prometheus.CounterOpts{Name: "turnfold_feed_rereads_total",
			Help: "Times that a reader was too slow and was served from the log again."}),
		rewinds: prometheus.NewCounter(prometheus.CounterOpts{Name: "turnfold_feed_rewinds_total",
			Help: "Times that a partition's outputs turned out to have lost their end."}),
		poisoned: prometheus.NewCounter(prometheus.CounterOpts{Name: "turnfold_feed_unreadable_total",
			Help: "Messages on a feed that are no items."}),
		firstDelta: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "turnfold_post_to_text_seconds",
			Help:    "From the post of a turn to its first text.",
			Buckets: []float64{.025, .05, .1, .2, .4, .8, 1.5, 3, 6, 12, 30, 60}}),
	}
	r.MustRegister(m.requests, m.feeds, m.reads, m.rereads, m.rewinds, m.poisoned, m.firstDelta)
	return m
}

func (g *Gateway) getMetrics() func(http.ResponseWriter, *http.Request, string) {
	h := promhttp.HandlerFor(g.cfg.Registry, promhttp.HandlerOpts{Registry: g.cfg.Registry})
	return func(w http.ResponseWriter, r *http.Request, _ string) { h.ServeHTTP(w, r) }
}

// Count sums up counters of the registry, by their names.
func (g *Gateway) Count(names ...string) (float64, error) {
	families, err := g.cfg.Registry.Gather()
	if err != nil {
		return 0, fmt.Errorf("gather metrics: %w", err)
	}
	sum := 0.0
	for _, f := range families {
		if slices.Contains(names, f.GetName()) {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum, nil
}
