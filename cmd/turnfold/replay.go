package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

func replayCommand(g *globals) *cobra.Command {
	var asOf uint64
	var whatIf, since string
	var state bool
	cmd := &cobra.Command{
		Use: "replay [bundle|turn]", Short: "Fold recorded events again, in memory; effects never run",
		Long: "replay prints what a turn said, derived from its events. Outcomes of effects come from the record.\n\n" +
			"--what-if folds history under other settings, and says what would have differed. The file has any of\n" +
			"attempts_per_step, attempts_per_turn, after_text, backoff_base_ms, backoff_max_ms, calls_per_turn,\n" +
			"tokens_per_turn, route (a list of {provider, api, model, max_output_tokens}) and caps (by tool, or \"*\").",
		Example: "  turnfold replay 0198c1 --as-of 1207\n  turnfold replay day.ndjson\n  turnfold replay --since 24h --what-if policy.yaml",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 && since == "" || len(list) == 1 && since != "" {
				return usagef("name a bundle or a turn, or say --since")
			}
			src, done, err := g.source(cmd, list, since)
			if err != nil {
				return err
			}
			defer done()
			if whatIf != "" {
				return runWhatIf(cmd, g, src, whatIf)
			}
			return runReplay(cmd, g, src, asOf, state)
		},
	}
	cmd.Flags().Uint64Var(&asOf, "as-of", 0, "stop after this sequence of the event log")
	cmd.Flags().BoolVar(&state, "state", false, "print the states, not the outputs")
	cmd.Flags().StringVar(&whatIf, "what-if", "", "file with other settings")
	cmd.Flags().StringVar(&since, "since", "", "the turns opened since: a duration (24h) or a time (RFC 3339)")
	return cmd
}

// source is a bundle if a file has the name, else a turn on the log, or all turns since.
func (g *globals) source(cmd *cobra.Command, list []string, since string) (audit.Source, func(), error) {
	if len(list) == 1 {
		if f, err := os.Open(list[0]); err == nil {
			return audit.EventsIn(f), func() { _ = f.Close() }, nil
		}
	}
	var t subjects.Turn
	from, err := sinceOf(since)
	if err == nil && len(list) == 1 {
		t, err = turnAddress(list[0])
	}
	if err != nil {
		return nil, nil, err
	}
	log, _, closeLog, err := g.openLog(cmd)
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 1 {
		return log.EventsOf(t), closeLog, nil
	}
	return log.EventsSince(from), closeLog, nil
}

func runReplay(cmd *cobra.Command, g *globals, src audit.Source, asOf uint64, state bool) error {
	turns := 0
	out := json.NewEncoder(cmd.OutOrStdout())
	r := audit.Replay{AsOf: asOf, Turn: func(x *audit.Replayed) error {
		turns++
		if !state {
			return nil
		}
		return sayView(cmd, g, x.State.View())
	}}
	if !state {
		r.Output = func(t subjects.Turn, o feed.Output) error {
			data, err := feed.Encode(o)
			if err != nil {
				return err
			}
			if g.json {
				return out.Encode(map[string]any{"tenant": t.Tenant, "lane": o.Body.Lane(), "output": json.RawMessage(data)})
			}
			say(cmd, "%s %s", o.Body.Lane(), data)
			return nil
		}
	}
	if err := r.Run(cmd.Context(), src); err != nil {
		return bundleFault(err)
	}
	if turns == 0 {
		return errors.New("there is no such turn")
	}
	return nil
}

// bundleFault gives a bundle that does not hold the exit code of a mismatch.
func bundleFault(err error) error {
	if errors.Is(err, audit.ErrBundle) || errors.Is(err, audit.ErrForeign) || errors.Is(err, subjects.ErrNewer) {
		return coded{exitMismatch, err}
	}
	return err
}

func sayView(cmd *cobra.Command, g *globals, v fold.View) error {
	if g.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
	}
	show(cmd, v)
	return nil
}

// settingsFile is what --what-if reads.
type settingsFile struct {
	AttemptsPerStep *int           `yaml:"attempts_per_step"`
	AttemptsPerTurn *int           `yaml:"attempts_per_turn"`
	AfterText       *string        `yaml:"after_text"`
	BackoffBaseMS   *int64         `yaml:"backoff_base_ms"`
	BackoffMaxMS    *int64         `yaml:"backoff_max_ms"`
	CallsPerTurn    *int           `yaml:"calls_per_turn"`
	TokensPerTurn   *int64         `yaml:"tokens_per_turn"`
	Caps            map[string]int `yaml:"caps"`
	Route           []struct {
		Provider  string `yaml:"provider"`
		API       string `yaml:"api"`
		Model     string `yaml:"model"`
		MaxOutput int    `yaml:"max_output_tokens"`
	} `yaml:"route"`
}

func readSettings(file string) (audit.Settings, error) {
	f, err := os.Open(file)
	if err != nil {
		return audit.Settings{}, coded{exitUsage, err}
	}
	defer f.Close()
	var x settingsFile
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(&x); err != nil {
		return audit.Settings{}, usagef("%s: %w", file, err)
	}
	if x.AfterText != nil && *x.AfterText != "reset" && *x.AfterText != "salvage" {
		return audit.Settings{}, usagef("%s: after_text is %q; it must be reset or salvage", file, *x.AfterText)
	}
	s := audit.Settings{AttemptsPerStep: x.AttemptsPerStep, AttemptsPerTurn: x.AttemptsPerTurn, AfterText: x.AfterText,
		BackoffBaseMS: x.BackoffBaseMS, BackoffMaxMS: x.BackoffMaxMS, CallsPerTurn: x.CallsPerTurn,
		TokensPerTurn: x.TokensPerTurn, Caps: x.Caps}
	for _, e := range x.Route {
		s.Entries = append(s.Entries, event.Entry{Provider: e.Provider, API: e.API, Model: e.Model, MaxOutputTokens: e.MaxOutput})
	}
	return s, nil
}

func runWhatIf(cmd *cobra.Command, g *globals, src audit.Source, file string) error {
	s, err := readSettings(file)
	if err != nil {
		return err
	}
	list := 20
	if g.json {
		list = 1 << 30
	}
	c, err := audit.WhatIf(cmd.Context(), src, s, list, func(events, turns uint64) {
		fmt.Fprintf(cmd.ErrOrStderr(), "\rreplay: %d events, %d turns ", events, turns)
	})
	fmt.Fprintln(cmd.ErrOrStderr())
	if err != nil {
		return bundleFault(err)
	}
	if g.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
	}
	say(cmd, "%d turns, %d would have differed, %d of them would have gone on to an end that nobody knows", c.Turns, c.Differ, c.Open)
	for _, row := range []struct {
		name       string
		was, would int64
	}{{"attempts", c.Was.Attempts, c.Would.Attempts}, {"input tokens", c.Was.InputTokens, c.Would.InputTokens},
		{"output tokens", c.Was.OutputTokens, c.Would.OutputTokens}, {"backoff ms", c.Was.WaitMS, c.Would.WaitMS},
		{"calls", c.Was.Calls, c.Would.Calls}, {"salvaged", c.Was.Salvaged, c.Would.Salvaged}, {"failed", c.Was.Failed, c.Would.Failed}} {
		say(cmd, "  %-14s %10d  would be %10d  (%+d)", row.name, row.was, row.would, row.would-row.was)
	}
	say(cmd, "  calls stopped  %10d", c.Stopped)
	for _, d := range c.Differing {
		say(cmd, "  %s: %s, would be %s", d.Turn, d.Finish, d.Would)
	}
	return nil
}
