package executor

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnfold/turnfold/subjects/event"
)

// metrics are counts by tool and result, never by key or turn: those have no bound.
type metrics struct {
	effects *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	claims  *prometheus.CounterVec
	outbox  prometheus.GaugeFunc
	// verifies by what the target said; conflicts of keys.
	verifies  *prometheus.CounterVec
	conflicts prometheus.Counter
}

func newMetrics(outbox func() (int, error)) *metrics {
	return &metrics{
		effects: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "turnfold_effects_total",
			Help: "Calls settled, by tool and result; replayed calls ran nothing."}, []string{"tool", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "turnfold_effect_seconds",
			Help:    "Time that tools ran.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 300}}, []string{"tool"}),
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "turnfold_claims_total",
			Help: "Claims by what came of them: won, lost, unclear (answered by looking), takeover of an expired one."},
			[]string{"result"}),
		verifies: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "turnfold_verifies_total",
			Help: "Questions to targets about unknown effects, by answer; given_up: the last one has been asked."}, []string{"answer"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{Name: "turnfold_key_conflicts_total",
			Help: "Calls refused because their effect key stands for another identity. Any is an alarm."}),
		outbox: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "turnfold_outbox",
			Help: "Reports of this host that are not known to be on the log."}, func() float64 {
			n, err := outbox()
			if err != nil {
				return math.NaN()
			}
			return float64(n)
		}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.effects, m.seconds, m.claims, m.outbox, m.verifies, m.conflicts} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) claim(result string) { m.claims.WithLabelValues(result).Inc() }

func (m *metrics) verify(answer string) { m.verifies.WithLabelValues(answer).Inc() }

func (m *metrics) took(tool string, d time.Duration) {
	m.seconds.WithLabelValues(tool).Observe(d.Seconds())
}

func (m *metrics) settled(tool string, b *event.CallSettled) {
	result := string(b.Outcome)
	if b.Replayed {
		result = "replayed"
	}
	m.effects.WithLabelValues(tool, result).Inc()
}
