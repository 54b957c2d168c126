package reducer

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/feed"
)

// metrics counts what the fold says. No ids are labels.
type metrics struct {
	events, poisoned, sessions, rewinds prometheus.Counter
	hydrated                            prometheus.Counter
	turns                               *prometheus.CounterVec // by how they ended
	attempts                            *prometheus.CounterVec // by outcome and class
	tokens                              *prometheus.CounterVec // by direction and outcome
	costs                               *prometheus.CounterVec // by outcome
	resets                              *prometheus.CounterVec // by reason
	calls                               *prometheus.CounterVec // by tool and outcome
	timers                              *prometheus.CounterVec // by kind
	keyCalls                            prometheus.Histogram   // per turn, of its busiest key
	lag                                 *prometheus.GaugeVec   // by partition
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	keyCalls := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "turnfold_turn_key_calls_max",
		Help:    "Calls of the effect key with the most of them, per ended turn that called a tool. A healthy turn has 1.",
		Buckets: []float64{1, 2, 3, 4, 6, 8, 12, 16, 32}})
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "turnfold_reducer_lag_seconds",
		Help: "How long an event that is stored now waits for the fold, per partition that this process owns."}, []string{"partition"})
	reg.MustRegister(keyCalls, lag)
	return &metrics{
		keyCalls: keyCalls,
		lag:      lag,
		events:   counter("turnfold_events_total", "Events folded."),
		poisoned: counter("turnfold_events_set_aside_total", "Events that could not be read or folded."),
		sessions: counter("turnfold_reducer_restarts_total", "Times a partition was started over from the log."),
		rewinds:  counter("turnfold_rewinds_total", "Times outputs were taken back because the event log had lost its end."),
		hydrated: counter("turnfold_turns_hydrated_total", "Turns read again from the log because an event came of a turn that was not in memory."),
		turns:    vec("turnfold_turns_total", "Turns by what happened to them.", "outcome"),
		attempts: vec("turnfold_attempts_total", "Attempts by how they ended.", "outcome", "class"),
		tokens:   vec("turnfold_attempt_tokens_total", "Tokens that attempts reported.", "direction", "outcome"),
		costs:    vec("turnfold_attempt_cost_nanos_total", "Cost of attempts whose provider has a price, in billionths of the configured currency.", "outcome"),
		resets:   vec("turnfold_resets_total", "Resets by reason.", "reason"),
		calls:    vec("turnfold_calls_total", "Calls by outcome.", "tool", "outcome"),
		timers:   vec("turnfold_timers_total", "Timers that ran out.", "kind"),
	}
}

// lagOf is a partition's gauge, for as long as this process owns it.
func (m *metrics) lagOf(partition int) (gauge prometheus.Gauge, forget func()) {
	label := strconv.Itoa(partition)
	return m.lag.WithLabelValues(label), func() { m.lag.DeleteLabelValues(label) }
}

// ended looks at a turn that has just written its end.
func (m *metrics) ended(s *fold.State) {
	if n, any := s.KeyCallsMax(); any {
		m.keyCalls.Observe(float64(n))
	}
}

func (m *metrics) output(b feed.Body) {
	switch b := b.(type) {
	case *feed.TurnAccepted:
		m.turns.WithLabelValues("accepted").Inc()
	case *feed.Completion:
		outcome := "completed"
		if b.Salvaged {
			outcome = "salvaged"
		}
		m.turns.WithLabelValues(outcome).Inc()
	case *feed.Error:
		m.turns.WithLabelValues("failed").Inc()
	case *feed.Usage:
		m.attempts.WithLabelValues(b.Outcome, b.Class).Inc()
		m.tokens.WithLabelValues("input", b.Outcome).Add(float64(b.Input))
		m.tokens.WithLabelValues("output", b.Outcome).Add(float64(b.Output))
		if b.Currency != "" {
			m.costs.WithLabelValues(b.Outcome).Add(float64(b.Cost))
		}
	case *feed.Reset:
		m.resets.WithLabelValues(b.Reason).Inc()
	case *feed.ToolResult:
		m.calls.WithLabelValues(b.Tool, b.Outcome).Inc()
	}
}
