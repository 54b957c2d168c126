package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/fold"
)

// decision is what a person says of a call that waits for them.
type decision struct {
	by, reason, digest string
}

func approveCommand(g *globals) *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "approve <turn> <call>", Short: "Let a call run that waits for a person",
		Long: "approve shows the exact arguments that would run, redacting nothing, and asks. Without a terminal, or to\n" +
			"approve what was shown elsewhere, give the digest of those arguments: other arguments are refused.",
		Args: args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := g.client(cmd)
			if err != nil {
				return err
			}
			if d.digest == "" {
				if d.digest, err = c.ask(cmd, list[0], list[1], g.json); err != nil {
					return err
				}
			}
			return c.decide(cmd, list[0], list[1], "approve", d, g.json)
		},
	}
	d.flags(cmd)
	cmd.Flags().StringVar(&d.digest, "digest", "", "digest of the arguments that were shown; do not ask")
	return cmd
}

func denyCommand(g *globals) *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "deny <turn> <call>", Short: "Refuse a call that waits for a person",
		Args: args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := g.client(cmd)
			if err != nil {
				return err
			}
			return c.decide(cmd, list[0], list[1], "deny", d, g.json)
		},
	}
	d.flags(cmd)
	return cmd
}

func (d *decision) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.by, "by", os.Getenv("USER"), "who decides")
	reasonFlag(cmd, &d.reason, "reason", "why", "why; the model is told, if the call is refused")
}

// reasonFlag takes a reason, by the name that the command shows, or by that which another
// command has for it.
func reasonFlag(cmd *cobra.Command, reason *string, name, other, usage string) {
	f := cmd.Flags()
	f.StringVar(reason, name, "", usage)
	f.StringVar(reason, other, "", "as --"+name)
	_ = f.MarkHidden(other) // it is there
}

// ask shows a call and has a person agree to exactly that.
func (c *client) ask(cmd *cobra.Command, turn, call string, asJSON bool) (digest string, err error) {
	data, err := c.get(cmd.Context(), callPath(turn, call)+"/approval")
	if err != nil {
		return "", err
	}
	var a fold.Approval
	if err := json.Unmarshal(data, &a); err != nil {
		return "", err
	}
	in, isFile := cmd.InOrStdin().(*os.File)
	terminal := false
	if isFile {
		_, _, terminal = terminalSize(in)
	}
	if asJSON || !terminal {
		return "", usagef("there is nobody to ask; look with GET %s/approval and give --digest %s, if it is that which you mean", callPath(turn, call), a.Digest)
	}
	w := cmd.ErrOrStderr()
	for _, line := range [][2]string{{"tool", a.Tool + " (" + a.Effect + ")"}, {"", a.About}, {"arguments", a.Args},
		{"hidden from others", strings.Join(a.Redacted, " ")}, {"key", a.Key}, {"expires", expiry(a.ExpiresMS)}} {
		if line[1] != "" {
			_, _ = io.WriteString(w, pad(line[0])+line[1]+"\n") // a person reads it, or nobody does
		}
	}
	_, _ = io.WriteString(w, "Let it run? Type yes: ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return "", coded{exitFailed, errNotApproved}
	}
	return a.Digest, nil
}

func pad(s string) string { return s + strings.Repeat(" ", max(1, 20-len(s))) }

func expiry(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).Format(time.RFC3339)
}

func callPath(turn, call string) string {
	return "/v1/turns/" + url.PathEscape(turn) + "/calls/" + url.PathEscape(call)
}

func (c *client) decide(cmd *cobra.Command, turn, call, verb string, d decision, asJSON bool) error {
	body := map[string]string{}
	for name, value := range map[string]string{"by": d.by, "reason": d.reason, "digest": d.digest} {
		if value != "" {
			body[name] = value
		}
	}
	data, err := c.post(cmd.Context(), callPath(turn, call)+"/"+verb, body)
	if err != nil {
		return err
	}
	if asJSON {
		say(cmd, "%s", data)
		return nil
	}
	say(cmd, "%s %s: %s", turn, call, map[string]string{"approve": "approved", "deny": "refused"}[verb])
	return nil
}

// post sends a JSON body and reads a JSON answer, as it came.
func (c *client) post(ctx context.Context, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	res, err := c.do(ctx, "POST", path, text, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		return nil, refused(res)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, answerBytes))
	if err != nil {
		return nil, unavailable(err)
	}
	return []byte(strings.TrimSpace(string(data))), nil
}
