package streamer

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// clock stands still until it is moved.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// Whatever comes when, a process alone lets a retry through exactly if that keeps the
// retries of the window within the fraction of its first attempts and the floor.
func TestBudgetLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &clock{time.Unix(1000, 0)}
		permille, perSecond := rapid.IntRange(0, 1500).Draw(t, "permille"), rapid.IntRange(0, 2).Draw(t, "per second")
		b := newBudget(RetryBudget{Fraction: float64(permille) / 1000, PerSecond: perSecond}, c.now)
		start := c.Time
		var firsts, retries []int // the slots of what was counted
		within := func(list []int, slot int) (n int) {
			for _, at := range list {
				if at > slot-budgetSlots {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			c.Time = c.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 300, 1000, 4000, 30_000}).Draw(t, "wait")) * time.Millisecond)
			slot := int(c.Sub(start) / budgetSlot)
			if rapid.Bool().Draw(t, "first") {
				b.first()
				firsts = append(firsts, slot)
				continue
			}
			ok, fleet := b.retry()
			f, r := within(firsts, slot), within(retries, slot)
			if fleet.first != int64(f) || fleet.retry != int64(r) {
				t.Fatalf("counts %+v, there were %d and %d", fleet, f, r)
			}
			if want := r+1 <= f*permille/1000+perSecond*budgetSlots; ok != want {
				t.Fatalf("a retry after %d, with %d first attempts: %v", r, f, ok)
			}
			if ok {
				retries = append(retries, slot)
			}
		}
	})
}

// Peers that hear of each other once in a slot share one budget, and go over it by less
// than one each. One that falls silent leaves the window with its counts.
func TestBudgetShared(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	const peers, perSecond = 4, 3
	var all []*budget
	for range peers {
		all = append(all, newBudget(RetryBudget{Fraction: 0.1, PerSecond: perSecond}, c.now))
	}
	exchange := func(from []*budget) {
		c.Time = c.Add(budgetSlot)
		for _, a := range from {
			data := a.tell()
			for _, b := range all {
				b.hear(data)
			}
		}
	}
	limit := int64(10 + perSecond*budgetSlots)
	exchange(all)
	for range 100 {
		all[0].first() // the traffic is one streamer's, the retries are another's
	}
	exchange(all)
	granted := int64(0)
	for slot := 1; slot < budgetSlots; slot++ {
		for _, b := range all[1:] {
			for range 20 {
				if ok, _ := b.retry(); ok {
					granted++
				}
			}
		}
		exchange(all)
	}
	if granted < limit || granted >= limit+peers {
		t.Errorf("%d retries are let through, the budget is %d", granted, limit)
	}
	for range budgetSlots {
		exchange(nil)
	}
	if ok, fleet := all[3].retry(); !ok || fleet != (counts{}) || len(all[3].peers) != 0 {
		t.Errorf("after a silence: %v, %+v, %d peers", ok, fleet, len(all[3].peers))
	}
}

// What is no message of a peer changes nothing; what claims too much is bounded.
func TestBudgetHears(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	b := newBudget(RetryBudget{Fraction: 1, PerSecond: 1}, c.now)
	ten := "[" + strings.Repeat("1,", 9) + "1]"
	for _, data := range []string{"", "{}", "null", "[", `{"v":2,"from":"x","first":` + ten + `,"retry":` + ten + `}`,
		`{"v":1,"first":` + ten + `,"retry":` + ten + `}`, `{"v":1,"from":"x","first":[1],"retry":` + ten + `}`,
		`{"v":1,"from":"` + b.name + `","first":` + ten + `,"retry":` + ten + `}`} {
		if b.hear([]byte(data)); len(b.peers) != 0 {
			t.Errorf("%s is taken", data)
		}
	}
	huge := fmt.Sprintf("[%d,-5%s]", math.MaxInt64, strings.Repeat(",0", 8))
	b.hear([]byte(`{"v":1,"from":"x","first":` + huge + `,"retry":` + huge + `}`))
	if _, fleet := b.retry(); fleet != (counts{budgetCountMax, budgetCountMax}) {
		t.Errorf("%+v", fleet)
	}
	for i := range budgetPeersMax + 5 {
		b.hear(fmt.Appendf(nil, `{"v":1,"from":"p%d","first":%s,"retry":%s}`, i, ten, ten))
	}
	if len(b.peers) != budgetPeersMax {
		t.Errorf("%d peers are remembered", len(b.peers))
	}
}

// Two streamers over one log: what one has used, the other does not have.
func TestBudgetOverTheLog(t *testing.T) {
	w := newWorld(t)
	var all []*Streamer
	for _, name := range []string{"host-1", "host-2"} {
		conn := w.connect()
		s := w.streamer("http://127.0.0.1:1", func(c *Config) {
			c.Conn, c.Instance, c.RetryBudget = conn, name, &RetryBudget{PerSecond: 1}
		})
		w.run(s)
		all = append(all, s)
	}
	used := int64(0)
	for ok := true; ok; used++ {
		ok, _ = all[0].budget.retry()
	}
	used--
	heard := func() (n int64) {
		b := all[1].budget
		b.mu.Lock()
		defer b.mu.Unlock()
		b.tick()
		for _, p := range b.peers {
			n += p.sum().retry
		}
		return n
	}
	for deadline := time.Now().Add(testWait); heard() < used; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s the other has heard of %d of %d", testWait, heard(), used)
		}
	}
	if ok, fleet := all[1].budget.retry(); ok || used != budgetSlots {
		t.Errorf("%d used by one, %+v counted by the other, which may go on: %v", used, fleet, ok)
	}
}

// The budget is empty: the second attempt makes no request and ends the turn, although
// another would be allowed. What follows a lost attempt needs no budget.
func TestBudgetEmpty(t *testing.T) {
	w := newWorld(t)
	p := providertest.Start(t, providertest.Answer{Status: 500, End: providertest.Clean, Writes: [][]byte{[]byte(`{}`)}})
	reg := prometheus.NewRegistry()
	left := w.turn("left", nil)
	w.untilKind("turn.opened", 1)
	w.publish(left, &event.AttemptStarted{Step: 1, Attempt: 1, Token: "old", Provider: "main", API: openaichat.Name,
		Model: "m-small", Instance: "host-1", Incarnation: "before"})
	w.untilKind("attempt.started", 1)
	s := w.streamer(p.URL, func(c *Config) { c.RetryBudget, c.Registerer = &RetryBudget{}, reg })
	w.run(s)
	plain := w.turn("plain", nil)
	for _, turn := range []subjects.Turn{left, plain} {
		w.until(turn.ID, func([]event.Event) bool { s := w.state(turn); return s.Over() })
		st := w.state(turn)
		attempts := st.Steps[0].Attempts
		last := attempts[len(attempts)-1]
		if st.Finish != "budget" || last.Class != event.Budget || !last.Unsent || !strings.HasPrefix(last.Detail, "retry.budget: 0 retries beside") {
			t.Errorf("%s ends with %q: %+v", turn, st.Finish, last)
		}
		if first := attempts[0]; turn == left && (first.Outcome != fold.AttemptLost || attempts[1].Class != event.ServerError) {
			t.Errorf("%s: %+v, then %+v", turn, first, attempts[1])
		}
	}
	if n := len(p.Requests()); n != 2 {
		t.Errorf("%d requests for two turns", n)
	}
	if n := metric(t, reg, "turnfold_retry_budget_denied_total"); n != 2 {
		t.Errorf("%g denials are counted", n)
	}
}

func metric(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// An attempt that was never sent makes its successor no retry.
func TestKindOf(t *testing.T) {
	unsent, failed := &fold.Attempt{Outcome: fold.AttemptFailed, Unsent: true}, &fold.Attempt{Outcome: fold.AttemptFailed}
	lost, now := &fold.Attempt{Outcome: fold.AttemptLost}, &fold.Attempt{}
	for i, c := range []struct {
		attempts []*fold.Attempt
		want     requestKind
	}{
		{[]*fold.Attempt{now}, firstRequest},
		{[]*fold.Attempt{unsent, unsent, now}, firstRequest},
		{[]*fold.Attempt{failed, now}, retryRequest},
		{[]*fold.Attempt{failed, unsent, now}, retryRequest},
		{[]*fold.Attempt{failed, lost, now}, resumedRequest},
		{[]*fold.Attempt{lost, failed, now}, retryRequest},
	} {
		s := fold.State{Steps: []*fold.Step{{N: 1}, {N: 2, Attempts: c.attempts}}}
		if got := kindOf(&s, place{step: 2, attempt: len(c.attempts)}); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
}

func TestBudgetConfig(t *testing.T) {
	for _, b := range []RetryBudget{{Fraction: -0.1}, {Fraction: 1001}, {Fraction: math.NaN()}, {PerSecond: -1}, {PerSecond: perSecondMax + 1}} {
		if err := b.validate(); err == nil || !strings.Contains(err.Error(), "RetryBudget.") {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

// A process's components share one registry: every name of the streamer says that it is
// the streamer's, and a second one adds to the same series.
func TestMetricNames(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for range 2 {
		m, err := newMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		m.ended(fold.AttemptFailed, event.Stall, event.Usage{Input: 1})
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetName(); !strings.HasPrefix(n, "turnfold_streamer_") && n != "turnfold_retry_budget_denied_total" {
			t.Errorf("%s could be another component's", n)
		}
	}
	if len(families) != 5 {
		t.Errorf("%d metrics", len(families))
	}
}
