package reducer

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/feed"
)

// What the outputs say is counted, under names that are no other component's.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := newMetrics(reg)
	for _, b := range []feed.Body{
		&feed.TurnAccepted{}, &feed.Completion{}, &feed.Completion{Salvaged: true}, &feed.Error{}, &feed.Reset{Reason: "stall"},
		&feed.ToolResult{Tool: "find", Outcome: "succeeded"},
		&feed.Usage{Outcome: "failed", Class: "stall", Tokens: feed.Tokens{Input: 3, Cost: 40, Currency: "USD"}},
		&feed.Usage{Outcome: "failed", Class: "stall", Tokens: feed.Tokens{Output: 2, Cost: 2, Currency: "USD"}},
		&feed.Usage{Outcome: "finished", Tokens: feed.Tokens{Output: 2}}, // of a provider without a price
	} {
		m.output(b)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "turnfold_streamer_") || strings.HasPrefix(f.GetName(), "turnfold_retry_budget_") {
			t.Errorf("%s is a name of the streamer's", f.GetName())
		}
		for _, s := range f.GetMetric() {
			name := f.GetName()
			for _, l := range s.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = s.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"turnfold_attempts_total stall failed": 2, "turnfold_attempts_total  finished": 1,
		"turnfold_attempt_tokens_total input failed": 3, "turnfold_attempt_tokens_total output failed": 2,
		"turnfold_attempt_cost_nanos_total failed": 42, "turnfold_turns_total salvaged": 1, "turnfold_resets_total stall": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %g, want %g; there are %v", name, got[name], want, got)
		}
	}
	if _, ok := got["turnfold_attempt_cost_nanos_total finished"]; ok {
		t.Error("a cost is counted where there is no price")
	}
}

// The busiest key of each turn is counted; turns without calls are not.
func TestKeyCallsMetric(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := newMetrics(reg)
	call := func(key string) *fold.Call { return &fold.Call{Key: key} }
	m.ended(&fold.State{})
	m.ended(&fold.State{Steps: []*fold.Step{{Calls: []*fold.Call{call("a"), call("b")}}}})
	m.ended(&fold.State{Steps: []*fold.Step{{Calls: []*fold.Call{call("a"), call("")}}, {Calls: []*fold.Call{call("a"), call("a")}}}})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "turnfold_turn_key_calls_max" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 2 || h.GetSampleSum() != 4 || len(h.GetBucket()) != 9 || h.GetBucket()[0].GetCumulativeCount() != 1 {
			t.Errorf("histogram is %v", h)
		}
		return
	}
	t.Error("there is no histogram")
}
