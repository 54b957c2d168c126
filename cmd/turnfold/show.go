package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/fold"
)

func showCommand(g *globals) *cobra.Command {
	var asOf uint64
	cmd := &cobra.Command{
		Use: "show <turn>", Short: "Show a turn's state: text, attempts, calls, usage", Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if asOf > 0 {
				return showAsOf(cmd, g, list[0], asOf)
			}
			c, err := g.client(cmd)
			if err != nil {
				return err
			}
			data, err := c.get(cmd.Context(), "/v1/turns/"+url.PathEscape(list[0]))
			if err != nil {
				return err
			}
			if g.json {
				say(cmd, "%s", data)
				return nil
			}
			var v fold.View
			if err := json.Unmarshal(data, &v); err != nil {
				return err
			}
			show(cmd, v)
			return nil
		},
	}
	cmd.Flags().Uint64Var(&asOf, "as-of", 0, "show the turn as it stood after this sequence of the event log (read from the log)")
	return cmd
}

func showAsOf(cmd *cobra.Command, g *globals, turn string, asOf uint64) error {
	src, done, err := g.source(cmd, []string{turn}, "")
	if err != nil {
		return err
	}
	defer done()
	return runReplay(cmd, g, src, asOf, true)
}

func show(cmd *cobra.Command, v fold.View) {
	status := string(v.Status)
	if v.Finish != "" {
		status += ", " + v.Finish
	}
	if v.Salvaged {
		status += ", salvaged"
	}
	say(cmd, "turn %s: %s", v.Turn, status)
	for _, st := range v.Steps {
		say(cmd, "step %d", st.Step)
		for _, a := range st.Attempts {
			say(cmd, "  attempt %d  %-10s %s", a.Attempt, a.Outcome, fields(string(a.Class), a.Route, a.Model, a.RequestID, a.Detail))
		}
		for _, c := range st.Calls {
			outcome := string(c.Outcome)
			if outcome == "" {
				outcome = "open"
			}
			if c.Replayed {
				outcome += " (replayed)"
			}
			say(cmd, "  call %s  %-10s %s", c.Call, outcome, fields(c.Tool, c.ErrorClass, c.Waiting, c.Key, c.Args))
			if more := fields(labelled("scope", c.Scope), labelled("approved by", c.ApprovedBy), labelled("known", said(c.ResolvedBy, c.Why))); more != "" {
				say(cmd, "            %s", more)
			}
		}
	}
	say(cmd, "tokens: %d in, %d out, %d from cache", v.Usage.Input, v.Usage.Output, v.Usage.CacheRead)
	if v.Usage.Currency != "" {
		say(cmd, "cost: %s, of it %s for attempts that did not win", money(v.Usage.Cost, v.Usage.Currency), money(v.Usage.WastedCost, v.Usage.Currency))
	}
	if v.Text != "" {
		say(cmd, "\n%s", v.Text)
	}
}

func labelled(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

// fields joins what is known.
func fields(list ...string) string {
	var known []string
	for _, s := range list {
		if s != "" {
			known = append(known, s)
		}
	}
	return strings.Join(known, "  ")
}

// money renders an amount of billionths of a currency's unit.
func money(nanos int64, currency string) string {
	return fmt.Sprintf("%d.%06d %s", nanos/1e9, nanos%1e9/1e3, currency)
}
