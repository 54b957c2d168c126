package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
)

// auditFlags say what of a log to audit.
type auditFlags struct {
	all, settled bool
	since, from  string
}

func auditCommand(g *globals) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use: "audit [turn]", Short: "Derive outputs again from events and compare; exit 3 on a mismatch",
		Long: "audit proves turns: it derives what was said from what happened, byte for byte, and checks the invariants\n" +
			"over events, outputs and effects. One turn is asked of the running server; --all and --since read the log\n" +
			"itself, from NATS or from the store directory, whether a server runs or not.\n\n" +
			"An interrupted audit prints where to go on (--from).",
		Example: "  turnfold audit 0198c1\n  turnfold audit --all --json\n  turnfold audit --since 24h",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			ranges := 0
			for _, given := range []bool{f.all, f.since != "", f.from != ""} {
				if given {
					ranges++
				}
			}
			if ranges+len(list) != 1 {
				return usagef("name a turn, or say one of --all, --since and --from")
			}
			if ranges == 1 {
				return auditLog(cmd, g, f)
			}
			c, err := g.client(cmd)
			if err != nil {
				return err
			}
			return c.audit(cmd.Context(), cmd, list[0], g.json)
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "audit every turn on the log")
	cmd.Flags().StringVar(&f.since, "since", "", "audit the turns opened since: a duration (24h) or a time (RFC 3339)")
	cmd.Flags().StringVar(&f.from, "from", "", "go on where an audit was interrupted")
	cmd.Flags().BoolVar(&f.settled, "settled", false, "no reducer is at work: outputs that are due are missing")
	cmd.AddCommand(exportCommand(g), verifyCommand(g))
	return cmd
}

func (c *client) audit(ctx context.Context, cmd *cobra.Command, turn string, asJSON bool) error {
	data, err := c.get(ctx, "/v1/turns/"+url.PathEscape(turn)+"/audit")
	if err != nil {
		return fmt.Errorf("audit %s: %w", turn, err)
	}
	var v audit.Verdict
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("audit %s: %w", turn, err)
	}
	if asJSON {
		say(cmd, "%s", data)
	} else {
		sayVerdict(cmd, turn, v)
	}
	if !v.OK {
		return coded{exitMismatch, nil}
	}
	return nil
}

func sayVerdict(cmd *cobra.Command, name string, v audit.Verdict) {
	word := "ok"
	switch {
	case !v.OK:
		word = "MISMATCH"
	case v.Status == "erased":
		word = "erased"
	}
	say(cmd, "%s: %s", name, word)
	for _, i := range v.Invariants {
		if !i.OK {
			say(cmd, "  %s at %s %d: %s", i.ID, i.Stream, i.Seq, i.Detail)
		}
	}
}

// sinceOf reads an age or a time.
func sinceOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usagef("--since %s: write a duration, as in 24h, or a time, as in 2026-01-02T15:04:05Z", text)
	}
	return t, nil
}

func auditLog(cmd *cobra.Command, g *globals, f auditFlags) error {
	since, err := sinceOf(f.since)
	if err != nil {
		return err
	}
	opts := audit.Scan{Since: since, Settled: f.settled, Progress: progressTo(cmd.ErrOrStderr(), "audit")}
	if f.from != "" {
		if opts.From, err = audit.ParsePositions(f.from); err != nil {
			return coded{exitUsage, err}
		}
	}
	log, _, closeLog, err := g.openLog(cmd)
	if err != nil {
		return err
	}
	defer closeLog()
	tuneScan()
	out := json.NewEncoder(cmd.OutOrStdout())
	opts.Each = func(v audit.Verdict) {
		if g.json {
			_ = out.Encode(v) // a reader that went away is no failure of ours
			return
		}
		sayVerdict(cmd, nameOf(v), v)
	}
	r, err := log.All(cmd.Context(), opts)
	fmt.Fprintln(cmd.ErrOrStderr())
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(cmd.ErrOrStderr(), "interrupted after %d turns; go on with: turnfold audit --from %s\n", r.Turns, r.Position)
		return err
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if g.json { // data are verdicts alone
		_ = json.NewEncoder(cmd.ErrOrStderr()).Encode(r)
	} else {
		sayReport(cmd, r)
	}
	if !r.OK {
		return coded{exitMismatch, nil}
	}
	return nil
}

// nameOf is how a turn is written on a command line.
func nameOf(v audit.Verdict) string {
	if v.Tenant == subjects.LocalTenant {
		return v.Turn
	}
	return v.Tenant + "/" + v.Turn
}

func sayReport(cmd *cobra.Command, r audit.Report) {
	for _, c := range r.Partitions {
		say(cmd, "partition %d: %s at %s %d: %s", c.Partition, c.ID, c.Stream, c.Seq, c.Detail)
	}
	word := "ok"
	if !r.OK {
		word = "MISMATCH"
	}
	say(cmd, "%s: %d turns, %d mismatches, %d erased; %d events, %d outputs, %d facts in %.1f s (%.0f events/s)",
		word, r.Turns, r.Mismatches, r.Erased, r.Events, r.Outputs, r.Facts, r.Seconds, r.EventsPerS)
	for n, what := range map[*uint64]string{&r.Before: "turns began before the range and were left out",
		&r.UnderWay: "outputs are under way", &r.Unasked: "effects were asked for by events that a rewind has lost"} {
		if *n > 0 {
			say(cmd, "%d %s", *n, what)
		}
	}
	say(cmd, "later turns: turnfold audit --from %s", r.Position)
}

// progressTo shows progress on one line of w.
func progressTo(w io.Writer, verb string) func(audit.Progress) {
	return func(p audit.Progress) {
		done := uint64(100)
		if p.Total > 0 {
			done = (p.Events + p.Outputs) * 100 / p.Total
		}
		fmt.Fprintf(w, "\r%s: %d facts, %d events (%d%%), %d turns, %d mismatches, %.0f events/s ",
			verb, p.Facts, p.Events, min(done, 100), p.Turns, p.Bad, p.Rate())
	}
}
