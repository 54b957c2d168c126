package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/demo"
)

func demoCommand(g *globals) *cobra.Command {
	var scenario string
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "See one broken turn under three policies, a kill, and a loop",
		Long: "demo needs no account and no network. It starts a model that really resets its connection, tools that count\n" +
			"what is done to them, and turnfold as a process of its own, and prints what the world saw.\n\n" +
			"Scenarios: " + strings.Join(demo.Scenarios, ", ") + ".",
		Example: "  turnfold demo\n  turnfold demo --scenario kill\n  turnfold demo --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			var progress io.Writer = cmd.ErrOrStderr()
			if g.json {
				progress = nil
			}
			report, err := demo.Run(cmd.Context(), demo.Config{Binary: binary, Scenario: scenario, Keep: keep, Progress: progress})
			if errors.Is(err, demo.ErrScenario) {
				return usagef("%w", err)
			}
			if err != nil {
				return err
			}
			if g.json {
				err = json.MarshalWrite(cmd.OutOrStdout(), report, jsontext.WithIndent("  "))
				say(cmd, "")
			} else {
				report.Print(cmd.OutOrStdout())
			}
			if wrong := report.Wrong(); err == nil && len(wrong) > 0 {
				err = fmt.Errorf("the demo did not come out as promised: %s", strings.Join(wrong, "; "))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&scenario, "scenario", "", "run only this one")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the working folder, with stores and logs")
	return cmd
}
