package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/bench"
)

func benchCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure turnfold on this machine",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchFeedCommand(g), benchPipelineCommand(g), benchAuditCommand(g), benchAuditReadCommand(g), benchEffectsCommand(g))
	return cmd
}

// measures makes a command's RunE of a measurement, whose report is printed, or written
// as JSON. Progress goes to people alone.
func measures[R interface{ Print(io.Writer) }](g *globals, measure func(context.Context, io.Writer) (R, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		progress := cmd.ErrOrStderr()
		if g.json {
			progress = io.Discard
		}
		report, err := measure(cmd.Context(), progress)
		if err != nil {
			return err
		}
		if g.json {
			err = json.MarshalWrite(cmd.OutOrStdout(), report)
			say(cmd, "")
			return err
		}
		report.Print(cmd.OutOrStdout())
		return nil
	}
}

func benchFeedCommand(g *globals) *cobra.Command {
	cfg := bench.FeedConfig{}
	cmd := &cobra.Command{
		Use: "feed", Short: "How long text takes from the provider's write to a reader",
		Long: "feed starts a turnfold of its own, a model that writes timed words, and readers of its HTTP feed, and\n" +
			"measures the delay of every word, and the memory of the process before and after.",
		Example: "  turnfold bench feed\n  turnfold bench feed --concurrent 32 --turns 320 --json",
		Args:    args(cobra.NoArgs),
		RunE: measures(g, func(ctx context.Context, progress io.Writer) (bench.FeedReport, error) {
			var err error
			if cfg.Binary, err = os.Executable(); err != nil {
				return bench.FeedReport{}, err
			}
			cfg.Progress = progress
			return bench.Feed(ctx, cfg)
		}),
	}
	cmd.Flags().IntVar(&cfg.Turns, "turns", 40, "turns to run")
	cmd.Flags().IntVar(&cfg.Concurrent, "concurrent", 1, "turns at the same time")
	cmd.Flags().IntVar(&cfg.Deltas, "deltas", 40, "words per turn")
	cmd.Flags().DurationVar(&cfg.Pace, "pace", 5*time.Millisecond, "the model's wait between words")
	return cmd
}

func benchPipelineCommand(g *globals) *cobra.Command {
	cfg := bench.PipelineConfig{}
	cmd := &cobra.Command{
		Use: "pipeline", Short: "What the logs bear, with and without the fold",
		Long: "pipeline carries messages through a log of its own: first without the fold (publish, consume, publish with\n" +
			"a fence, consume), by turns with it, then with streams of a model in front, and prints the ratios. Times are\n" +
			"of this machine; ratios are of one run. The model, the log's server, the readers and all of turnfold are in\n" +
			"this one process. With --sweep it also shows how the fold's cost grows with partitions and reducers.",
		Example: "  turnfold bench pipeline\n  turnfold bench pipeline --sweep\n  turnfold bench pipeline --partitions 16 --reducers 4 --json",
		Args:    args(cobra.NoArgs),
		RunE: measures(g, func(ctx context.Context, progress io.Writer) (bench.PipelineReport, error) {
			tuneRuntime([]string{roleStreamer, roleReducer})
			cfg.Progress = progress
			return bench.Pipeline(ctx, cfg)
		}),
	}
	cmd.Flags().IntVar(&cfg.Partitions, "partitions", 4, "partitions of the log")
	cmd.Flags().IntVar(&cfg.Reducers, "reducers", 1, "reducers that share the partitions")
	cmd.Flags().IntVar(&cfg.Messages, "messages", 200_000, "messages through the raw double hop and through the fold")
	cmd.Flags().IntVar(&cfg.Turns, "turns", 1000, "turns at the same time in the steady phase")
	cmd.Flags().IntVar(&cfg.PerSecond, "per-second", 10, "deltas per second of each of them")
	cmd.Flags().BoolVar(&cfg.Sweep, "sweep", false, "also with 1 to 16 partitions and 1 to 8 reducers")
	cmd.Flags().IntVar(&cfg.Weighed, "weighed", 2000, "turns whose memory is measured, open ones and such whose model speaks")
	cmd.Flags().DurationVar(&cfg.For, "for", 10*time.Second, "how long each phase of streams lasts")
	return cmd
}

func benchEffectsCommand(g *globals) *cobra.Command {
	cfg := bench.EffectsConfig{}
	cmd := &cobra.Command{
		Use: "effects", Short: "How many effects a second, beside the bare durable operations",
		Long: "effects runs whole effects (claim, a tool that does nothing, settled) through an executor on an embedded log\n" +
			"at 1, 16 and 64 callers, beside a bare loop of the same durable operations in the same run, and measures a key\n" +
			"store with many keys: its size on disk, its lookups, its start.",
		Example: "  turnfold bench effects\n  turnfold bench effects --keys 10000000 --json",
		Args:    args(cobra.NoArgs),
		RunE: measures(g, func(ctx context.Context, progress io.Writer) (bench.EffectsReport, error) {
			tuneRuntime([]string{roleExecutor})
			cfg.Progress = progress
			return bench.Effects(ctx, cfg)
		}),
	}
	cmd.Flags().DurationVar(&cfg.For, "for", 4*time.Second, "time of each loop at each number of callers")
	cmd.Flags().IntVar(&cfg.Keys, "keys", 200_000, "keys in the store that lookups and the start are measured on")
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "folder for the stores (default: a temporary one)")
	return cmd
}
