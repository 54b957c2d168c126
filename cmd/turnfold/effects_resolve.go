package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/subjects/event"
)

// errNotApproved: a person was asked and did not say yes.
var errNotApproved = errors.New("not approved")

// progressEvery is after how many turns a long look at all of them says how far it is.
const progressEvery = 100

func newEffectsResolveCommand(g *globals) *cobra.Command {
	var as, by, why, result string
	cmd := &cobra.Command{
		Use: "resolve <key> --as succeeded|failed --by WHO --why TEXT", Short: "Say how an effect ended whose outcome is unknown",
		Long: "resolve records a person's word for an unknown outcome, as a fact of the effect and in each turn that waits to\n" +
			"know. A known outcome never changes. Say failed only if the effect certainly did not happen and no request for\n" +
			"it is still under way: an equal call may then run again.",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			switch {
			case as != string(event.OutcomeSucceeded) && as != string(event.OutcomeFailed):
				return usagef("--as must be succeeded or failed")
			case by == "" || why == "":
				return usagef("say who found out and how: --by WHO --why TEXT")
			}
			c, err := g.client(cmd)
			if err != nil {
				return err
			}
			body := map[string]string{"as": as, "by": by, "why": why}
			if result != "" {
				body["result"] = result
			}
			data, err := c.post(cmd.Context(), "/v1/effects/"+url.PathEscape(list[0])+"/resolve", body)
			if err != nil {
				return err
			}
			if g.json {
				say(cmd, "%s", data)
				return nil
			}
			var v struct {
				Outcome string
				Told    []struct{ Turn, Call string }
			}
			if err := json.Unmarshal(data, &v); err != nil {
				return err
			}
			say(cmd, "%s: %s", list[0], v.Outcome)
			for _, t := range v.Told {
				say(cmd, "  told: %s", fields(t.Turn, t.Call))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&as, "as", "", "succeeded or failed")
	f.StringVar(&by, "by", os.Getenv("USER"), "who found out")
	reasonFlag(cmd, &why, "why", "reason", "how that is known")
	f.StringVar(&result, "result", "", "what the target says of the effect, if it succeeded")
	return cmd
}

// unknownEffects lists what remains unknown, of open and of ended turns.
func (c *client) unknownEffects(ctx context.Context, cmd *cobra.Command, asJSON bool) error {
	data, err := c.get(ctx, "/v1/effects?outcome=unknown")
	if err != nil {
		return err
	}
	var v struct{ Effects []effectLine }
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	for _, line := range v.Effects {
		if err := line.write(cmd, asJSON); err != nil {
			return err
		}
	}
	if len(v.Effects) > 0 {
		return coded{exitUnknown, nil}
	}
	return nil
}

func (l effectLine) write(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(l)
	}
	say(cmd, "%s", fields(l.Turn, l.Call, l.Tool, l.Key, string(l.Outcome), l.ErrorClass))
	return nil
}

// progress says how far a long look is, to a person and not among the data.
func progress(cmd *cobra.Command, done, all int) {
	if all >= progressEvery && (done%progressEvery == 0 || done == all) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d turns\n", done, all)
	}
}
