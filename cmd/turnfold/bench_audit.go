package main

import (
	"context"
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/bench"
)

func benchAuditCommand(g *globals) *cobra.Command {
	cfg := bench.AuditConfig{}
	cmd := &cobra.Command{
		Use: "audit", Short: "How fast an audit of a whole log is, beside plain ordered consumers",
		Long: "audit makes a history of its own with a real reducer: each turn has a broken attempt, a reset, a second attempt that\n" +
			"calls a tool, its effect, and an answer, in about forty events. Another process then reads it with ordered consumers\n" +
			"of the client library that do nothing else, and as an audit, and prints both rates.",
		Example: "  turnfold bench audit\n  turnfold bench audit --events 1000000 --json",
		Args:    args(cobra.NoArgs),
		RunE: measures(g, func(ctx context.Context, progress io.Writer) (bench.AuditReport, error) {
			var err error
			if cfg.Binary, err = os.Executable(); err != nil {
				return bench.AuditReport{}, err
			}
			cfg.Progress = progress
			return bench.Audit(ctx, cfg)
		}),
	}
	cmd.Flags().IntVar(&cfg.Events, "events", 200_000, "events of the history")
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "new folder that keeps the history and its turnfold.yaml (default: a temporary one)")
	cmd.Flags().IntVar(&cfg.Partitions, "partitions", 4, "partitions of the history")
	return cmd
}

// benchAuditReadCommand is the other process of bench audit.
func benchAuditReadCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "audit-read", Hidden: true, Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, _, closeLog, err := g.openLog(cmd)
			if err != nil {
				return err
			}
			defer closeLog()
			tuneScan()
			r, err := bench.AuditRead(cmd.Context(), log, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return json.MarshalWrite(cmd.OutOrStdout(), r)
		},
	}
}
