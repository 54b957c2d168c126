package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/audit"
)

func costCommand(g *globals) *cobra.Command {
	var since, bundle string
	var asCSV bool
	cmd := &cobra.Command{
		Use: "cost", Short: "Tokens and money of attempts that won and that were abandoned, from history",
		Long: "cost adds up what the log has, per day, provider, model, route and class. Costs are as exact as the\n" +
			"providers' counts and the configured prices; what was not counted is not guessed, but said.",
		Example: "  turnfold cost --since 720h --csv > costs.csv",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []string
			if bundle != "" {
				list = []string{bundle}
			}
			src, done, err := g.source(cmd, list, since)
			if err != nil {
				return err
			}
			defer done()
			entries, err := audit.Cost(cmd.Context(), src, func(events, turns uint64) {
				fmt.Fprintf(cmd.ErrOrStderr(), "\rcost: %d events, %d turns ", events, turns)
			})
			fmt.Fprintln(cmd.ErrOrStderr())
			if err != nil {
				return bundleFault(err)
			}
			return sayCosts(cmd, g, entries, asCSV)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "the turns opened since: a duration (24h) or a time (RFC 3339); all if empty")
	cmd.Flags().StringVar(&bundle, "bundle", "", "read a bundle instead of the log")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write CSV")
	return cmd
}

func sayCosts(cmd *cobra.Command, g *globals, entries []audit.CostEntry, asCSV bool) error {
	if asCSV {
		w := csv.NewWriter(cmd.OutOrStdout())
		_ = w.Write([]string{"day", "provider", "model", "route", "won", "class", "attempts", "input_tokens", "output_tokens",
			"cache_read_tokens", "cost", "currency", "uncounted"}) // Flush tells of faults
		for _, e := range entries {
			cost := ""
			if e.Currency != "" {
				cost = fmt.Sprintf("%d.%09d", e.Cost/1e9, e.Cost%1e9)
			}
			n := func(v int64) string { return strconv.FormatInt(v, 10) }
			_ = w.Write([]string{e.Day, e.Provider, e.Model, e.Route, strconv.FormatBool(e.Won), e.Class, n(e.Attempts), n(e.Input),
				n(e.Output), n(e.CacheRead), cost, e.Currency, n(e.Uncounted)})
		}
		w.Flush()
		return w.Error()
	}
	if g.json {
		out := json.NewEncoder(cmd.OutOrStdout())
		for _, e := range entries {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	for _, e := range entries {
		word := "won"
		if !e.Won {
			word = "abandoned: " + e.Class
		}
		cost := "no price"
		if e.Currency != "" {
			cost = money(e.Cost, e.Currency)
		}
		say(cmd, "%s  %-24s %-10s %-24s %6d attempts %9d in %9d out  %s", e.Day, e.Provider+"/"+e.Model, e.Route, word, e.Attempts, e.Input, e.Output, cost)
	}
	return nil
}
