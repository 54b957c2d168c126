package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

func tailCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "tail [turn]", Short: "Show a turn's feed from its start, and follow it",
		Long: "tail shows one turn. Without a name it takes the only open turn; if several are open, it lists them.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := g.client(cmd)
			if err != nil {
				return err
			}
			if len(list) == 1 {
				return c.tail(cmd.Context(), cmd, list[0], g.json)
			}
			open, err := c.turns(cmd.Context(), "open")
			switch {
			case err != nil:
				return err
			case len(open) == 1:
				return c.tail(cmd.Context(), cmd, open[0], g.json)
			case len(open) == 0:
				return usagef("no turn is open; name one: turnfold tail <turn>")
			}
			return usagef("%d turns are open; name one of them: %s", len(open), strings.Join(open, " "))
		},
	}
}

func (c *client) tail(ctx context.Context, cmd *cobra.Command, turn string, asJSON bool) error {
	var o outcome
	if err := c.follow(ctx, turn, nil, o.watch(renderer(cmd.OutOrStdout(), asJSON))); err != nil {
		return err
	}
	if o.failed {
		return coded{exitFailed, nil}
	}
	return nil
}

// turns lists the tenant's turns, open ones or all.
func (c *client) turns(ctx context.Context, status string) ([]string, error) {
	data, err := c.get(ctx, "/v1/turns?limit=10000&status="+url.QueryEscape(status))
	if err != nil {
		return nil, err
	}
	var list struct{ Turns []struct{ Turn string } }
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	var out []string
	for _, t := range list.Turns {
		out = append(out, t.Turn)
	}
	return out, nil
}
