package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/turnfold/turnfold/subjects/event"
)

// CostKey is what a ledger's entries are told apart by.
type CostKey struct {
	Day      string `json:"day"` // of the turn's opening, UTC
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Route    string `json:"route"`
	Won      bool   `json:"won"`            // the attempts won their steps; false: abandoned
	Class    string `json:"class,omitzero"` // why they were abandoned
	Currency string `json:"currency,omitzero"`
}

// CostEntry adds up requests. Costs are in billionths of the currency's unit, as far as
// counts and prices are known; nothing is guessed.
type CostEntry struct {
	CostKey   `json:",inline"`
	Attempts  int64 `json:"attempts"`
	Input     int64 `json:"input_tokens"`
	Output    int64 `json:"output_tokens"`
	CacheRead int64 `json:"cache_read_tokens"`
	Cost      int64 `json:"cost_nanos"`
	Uncounted int64 `json:"uncounted"` // attempts whose provider gave no final count
}

// Cost is the ledger of what won and abandoned attempts used.
func Cost(ctx context.Context, src Source, progress func(events, turns uint64)) ([]CostEntry, error) {
	sums := map[CostKey]*CostEntry{}
	r := Replay{Progress: progress, Turn: func(x *Replayed) error {
		day := x.Opened.UTC().Format(time.DateOnly)
		for i, st := range x.State.View().Steps {
			for _, a := range st.Attempts {
				if a.Unsent || a.Outcome == "open" {
					continue
				}
				k := CostKey{Day: day, Provider: a.Route, Model: a.Model, Route: x.State.Opened.Route, Class: string(a.Class),
					Won: a.Attempt == x.State.Steps[i].Committed, Currency: a.Usage.Currency}
				e := sums[k]
				if e == nil {
					e = &CostEntry{CostKey: k}
					sums[k] = e
				}
				e.Attempts++
				e.Input += a.Usage.Input
				e.Output += a.Usage.Output
				e.CacheRead += a.Usage.CacheRead
				e.Cost += a.Usage.Cost
				if a.Usage.Source != event.SourceReported {
					e.Uncounted++
				}
			}
		}
		return nil
	}}
	if err := r.Run(ctx, src); err != nil {
		return nil, err
	}
	out := make([]CostEntry, 0, len(sums))
	for _, e := range sums {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b CostEntry) int {
		won := map[bool]int{true: 0, false: 1}
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model),
			cmp.Compare(a.Route, b.Route), cmp.Compare(won[a.Won], won[b.Won]), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Currency, b.Currency))
	})
	return out, nil
}
