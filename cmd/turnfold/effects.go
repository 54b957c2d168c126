package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects/event"
)

func effectsCommand(g *globals) *cobra.Command {
	var turn string
	var unknown, all bool
	cmd := &cobra.Command{
		Use: "effects [key]", Short: "Show what is known of effects; exit 5 if one is unknown",
		Long: "effects shows one key with its claims and outcomes, or the effects of a turn's calls (--turn),\n" +
			"or without either those of every open turn. With --unknown it lists what is unknown, also of ended turns; with\n" +
			"--all it looks through every turn that the log has, however long that takes.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if turn != "" && len(list) == 1 {
				return usagef("name a key or a turn, not both")
			}
			if (unknown || all) && len(list) == 1 {
				return usagef("--unknown and --all are for many effects, not for one key")
			}
			c, err := g.client(cmd)
			if err != nil {
				return err
			}
			if len(list) == 1 {
				return c.effect(cmd.Context(), cmd, list[0], g.json)
			}
			if unknown && !all && turn == "" {
				return c.unknownEffects(cmd.Context(), cmd, g.json)
			}
			turns := []string{turn}
			if turn == "" {
				which := "open"
				if all {
					which = "all"
				}
				if turns, err = c.turns(cmd.Context(), which); err != nil {
					return err
				}
			}
			return c.effectsOf(cmd.Context(), cmd, turns, unknown, g.json)
		},
	}
	cmd.AddCommand(newEffectsKeyCommand(), newEffectsResolveCommand(g))
	cmd.Flags().BoolVar(&unknown, "unknown", false, "list only what is unknown, of open and of ended turns")
	cmd.Flags().BoolVar(&all, "all", false, "look through all turns that the log has")
	cmd.Flags().StringVar(&turn, "turn", "", "show the effects of this turn's calls")
	return cmd
}

func (c *client) effect(ctx context.Context, cmd *cobra.Command, key string, asJSON bool) error {
	data, err := c.get(ctx, "/v1/effects/"+url.PathEscape(key))
	if err != nil {
		return err
	}
	var v struct {
		Outcome string
		Claims  []struct{ Token, Call, Host, Outcome, Detail, By, Why string }
		NotRun  []string `json:"not_run"`
		Result  string
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if asJSON {
		say(cmd, "%s", data)
	} else {
		say(cmd, "%s: %s", key, v.Outcome)
		for _, cl := range v.Claims {
			say(cmd, "  claim %s", fields(cl.Token, cl.Outcome, cl.Call, cl.Host, cl.Detail, said(cl.By, cl.Why)))
		}
		for _, call := range v.NotRun {
			say(cmd, "  withdrawn: %s", call)
		}
		if v.Result != "" {
			say(cmd, "  result: %s", v.Result)
		}
	}
	if v.Outcome == string(event.OutcomeUnknown) {
		return coded{exitUnknown, nil}
	}
	return nil
}

// effectLine is one line of `effects --json`.
type effectLine struct {
	Turn    string        `json:"turn"`
	Call    string        `json:"call"`
	Tool    string        `json:"tool"`
	Key     string        `json:"key"`
	Outcome event.Outcome `json:"outcome"`
	// ErrorClass says of which kind a failure or a doubt is.
	ErrorClass string `json:"error_class,omitempty"`
}

func (c *client) effectsOf(ctx context.Context, cmd *cobra.Command, turns []string, only, asJSON bool) error {
	unknown := 0
	for i, turn := range turns {
		progress(cmd, i+1, len(turns))
		data, err := c.get(ctx, "/v1/turns/"+url.PathEscape(turn))
		if err != nil {
			return fmt.Errorf("effects of %s: %w", turn, err)
		}
		var v fold.View
		if err := json.Unmarshal(data, &v); err != nil {
			return fmt.Errorf("effects of %s: %w", turn, err)
		}
		for _, st := range v.Steps {
			for _, call := range st.Calls {
				if call.Outcome == event.OutcomeUnknown {
					unknown++
				}
				if only && call.Outcome != event.OutcomeUnknown {
					continue
				}
				line := effectLine{turn, call.Call, call.Tool, call.Key, call.Outcome, call.ErrorClass}
				if err := line.write(cmd, asJSON); err != nil {
					return err
				}
			}
		}
	}
	if unknown > 0 {
		return coded{exitUnknown, nil}
	}
	return nil
}

// said is who reported an outcome that its run did not tell, and what they said.
func said(by, why string) string {
	if by == "" {
		return ""
	}
	return strings.TrimSuffix("by "+by+": "+why, ": ")
}
