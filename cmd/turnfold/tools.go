package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/executor/tool"
)

// loadTools reads the declared tools; no file is no tools. What lint calls an error
// may not run.
func loadTools(cfg *config.Config, log zerolog.Logger) (*tool.Set, error) {
	if cfg.ToolsFile == "" {
		return nil, nil
	}
	set, err := tool.Load(cfg.ToolsFile)
	if err != nil {
		return nil, err
	}
	if err := cfg.CheckTools(set); err != nil {
		return nil, err
	}
	findings := tool.Lint(set)
	for _, f := range findings {
		if f.Level == tool.LevelStrict {
			log.Warn().Str("tool", f.Tool).Int("line", f.Line).Msg(f.Message + "; " + f.Fix)
		}
	}
	if findings := tool.Errors(findings); len(findings) > 0 {
		lines := make([]string, len(findings))
		for i, f := range findings {
			lines[i] = fmt.Sprintf("%s:%d: %s", set.File, f.Line, f)
		}
		return nil, fmt.Errorf("%s", strings.Join(lines, "\n"))
	}
	return set, nil
}

// toolReport is one line of `tools lint --json`.
type toolReport struct {
	Tool     string         `json:"tool"`
	Line     int            `json:"line"`
	Effect   string         `json:"effect"`
	Fields   []tool.Field   `json:"fields"`
	Findings []tool.Finding `json:"findings"`
}

func toolsCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "tools", Short: "Look at the declared tools", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return usagef("say what to do: lint or import") }}
	var against string
	check := &cobra.Command{
		Use: "lint [file]", Short: "Name each field as identity or decoration; fail on what should not run",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error { return lint(g, cmd, list, against) },
	}
	check.Flags().StringVar(&against, "against", "", "an older tools file: say what the change does to effect keys in flight")
	cmd.AddCommand(check, newToolsImportCommand())
	return cmd
}

func lint(g *globals, cmd *cobra.Command, list []string, against string) error {
	var file string
	if len(list) == 1 {
		file = list[0]
	} else {
		cfg, err := g.load(cmd)
		if err != nil {
			return err
		}
		if file = cfg.ToolsFile; file == "" {
			return usagef("the configuration names no tools_file; name one: turnfold tools lint tools.yaml")
		}
	}
	set, err := tool.Load(file)
	if err != nil {
		return coded{exitUsage, err}
	}
	findings := tool.Lint(set)
	for _, d := range set.All() {
		r := toolReport{Tool: d.Name, Line: d.Line, Effect: string(d.Effect), Fields: tool.Describe(d), Findings: []tool.Finding{}}
		for _, f := range findings {
			if f.Tool == d.Name {
				r.Findings = append(r.Findings, f)
			}
		}
		if g.json {
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(r); err != nil {
				return err
			}
			continue
		}
		r.print(cmd)
	}
	if against != "" {
		old, err := tool.Load(against)
		if err != nil {
			return coded{exitUsage, err}
		}
		if err := writeChanges(cmd.OutOrStdout(), tool.Compare(old, set), g.json); err != nil {
			return err
		}
	}
	if len(tool.Refused(findings)) > 0 {
		return coded{exitFailed, nil}
	}
	return nil
}

func (r toolReport) print(cmd *cobra.Command) {
	say(cmd, "%s (%s)", r.Tool, r.Effect)
	for _, f := range r.Fields {
		what := "decoration"
		if f.Identity {
			what = "identity"
		}
		if r.Effect == "read" {
			what = "argument"
		}
		if f.Redacted {
			what += ", redacted"
		}
		say(cmd, "  %-24s %s", f.Name, what)
	}
	for _, f := range r.Findings {
		say(cmd, "  line %d: %s: %s; %s", f.Line, f.Level, f.Message, f.Fix)
	}
}
