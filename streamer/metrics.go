package streamer

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/event"
)

type metrics struct {
	attempts   *prometheus.CounterVec
	tokens     *prometheus.CounterVec
	firstDelta prometheus.Histogram
	running    prometheus.Gauge
	denied     prometheus.Counter
}

// newMetrics makes what this process sees of its own requests. What became of attempts
// on the log is the reducer's to count, under names of its own.
//
// It registers them, or finds those that this process has registered
// already: a second streamer of a process adds to the same series.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "turnfold_streamer_attempts_total",
			Help: "Attempts of this process, by how they ended and why."}, []string{"outcome", "class"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "turnfold_streamer_tokens_total",
			Help: "Tokens that providers reported; those of abandoned attempts are billed too."}, []string{"direction", "outcome"}),
		firstDelta: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "turnfold_streamer_first_delta_seconds",
			Help:    "From the opening of an attempt to its first piece.",
			Buckets: []float64{.05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 10, 20, 40, 80}}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "turnfold_streamer_attempts_running",
			Help: "Attempts under way in this process."}),
		denied: prometheus.NewCounter(prometheus.CounterOpts{Name: "turnfold_retry_budget_denied_total",
			Help: "Retries that were not sent because the fleet's budget of retries was used up."}),
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(register(r, &m.attempts), register(r, &m.tokens), register(r, &m.firstDelta), register(r, &m.running), register(r, &m.denied))
}

func register[C prometheus.Collector](r prometheus.Registerer, c *C) error {
	err := r.Register(*c)
	var have prometheus.AlreadyRegisteredError
	if errors.As(err, &have) {
		if old, ok := have.ExistingCollector.(C); ok {
			*c = old
			return nil
		}
	}
	return err
}

// ended counts an attempt once, when its end is stored.
func (m *metrics) ended(outcome fold.AttemptOutcome, class event.Class, u event.Usage) {
	m.attempts.WithLabelValues(string(outcome), string(class)).Inc()
	for direction, n := range map[string]int64{
		"input": u.Input, "output": u.Output, "cache_read": u.CacheRead, "reasoning": u.Reasoning,
	} {
		if n > 0 {
			m.tokens.WithLabelValues(direction, string(outcome)).Add(float64(n))
		}
	}
}
