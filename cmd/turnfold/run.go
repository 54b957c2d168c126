package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// startTimeout bounds the start of a server of our own, and how long it takes to be
// ready.
const startTimeout = 60 * time.Second

// turnFlags is what `run` asks for.
type turnFlags struct {
	turn, route, system, deadline, conversation string

	tools []string
}

func runCommand(g *globals) *cobra.Command {
	var f turnFlags
	cmd := &cobra.Command{
		Use: `run "text"`, Short: "Run one turn and show it live",
		Long: "run posts one turn to the running server and follows it. If no server answers, one is started in this\n" +
			"process, on the configuration's store, for this turn. Exit code 1 if the turn ends in an error.",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error { return runTurn(g, cmd, f, list[0]) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.turn, "turn", "", "id of the turn (default: a new one)")
	fl.StringVar(&f.route, "route", "", "route of the configuration")
	fl.StringVar(&f.system, "system", "", "system prompt")
	fl.StringVar(&f.deadline, "deadline", "", "longest time for the turn, such as 90s")
	fl.StringVar(&f.conversation, "conversation", "", "what the turn belongs to, for tools whose effects are a conversation's")
	fl.StringSliceVar(&f.tools, "tools", nil, "tools to offer (default: all that are declared)")
	return cmd
}

func (f turnFlags) body(cmd *cobra.Command, input string) ([]byte, error) {
	body := map[string]any{"input": input}
	for name, value := range map[string]string{"turn": f.turn, "route": f.route, "system": f.system, "deadline": f.deadline, "conversation": f.conversation} {
		if cmd.Flags().Changed(name) {
			body[name] = value
		}
	}
	if cmd.Flags().Changed("tools") {
		body["tools"] = append([]string{}, f.tools...)
	}
	return json.Marshal(body)
}

func runTurn(g *globals, cmd *cobra.Command, f turnFlags, input string) error {
	body, err := f.body(cmd, input)
	if err != nil {
		return err
	}
	return withServer(g, cmd, func(c *client) error { return c.runTurn(cmd.Context(), cmd, body, g.json) })
}

// withServer hands fn a client of the running server, or of one that runs here for as
// long as fn does.
func withServer(g *globals, cmd *cobra.Command, fn func(*client) error) error {
	cfg, err := g.load(cmd)
	if err != nil {
		return err
	}
	c, err := g.clientOf(cfg)
	if err != nil {
		return err
	}
	if g.server != "" || c.alive(cmd.Context()) {
		return fn(c)
	}
	// Nobody answers: run everything here, on a free port of this host.
	cfg.Listen, cfg.TLS.Cert, cfg.TLS.Key, cfg.TokensFile = "127.0.0.1:0", "", "", ""
	if g.logLevel == "" {
		cfg.Log.Level = "warn"
	}
	tuneRuntime(allRoles)
	a, err := newApp(cmd.Context(), cfg, allRoles, logger(cfg, cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	c.base, c.token = a.url(), ""
	stop, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.run(stop) }()
	defer cancel()
	err = c.untilReady(cmd.Context())
	if err == nil {
		err = fn(c)
	}
	cancel()
	return errors.Join(err, <-ended)
}

func (c *client) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		res, err := c.do(ctx, "GET", "/readyz", nil, nil)
		if err == nil {
			_ = res.Body.Close() // only the status counts
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		if ctx.Err() != nil {
			return unavailable(fmt.Errorf("not ready after %s", startTimeout))
		}
		wait(ctx, 20*time.Millisecond)
	}
}

func (c *client) runTurn(ctx context.Context, cmd *cobra.Command, body []byte, asJSON bool) error {
	res, err := c.do(ctx, "POST", "/v1/turns", body, map[string]string{"Accept": "application/x-ndjson"})
	if err != nil {
		return err
	}
	var o outcome
	if err := c.follow(ctx, res.Header.Get("Turnfold-Turn"), res, o.watch(renderer(cmd.OutOrStdout(), asJSON))); err != nil {
		return err
	}
	if o.failed {
		return coded{exitFailed, nil}
	}
	return nil
}
