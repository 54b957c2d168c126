package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
)

// globals are the flags that every verb has.
type globals struct {
	configFile string
	logLevel   string
	json       bool
	server     string
	token      string
	set        []string
}

func newRoot() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:   "turnfold",
		Short: "Streamed LLM turns that survive broken streams, processes and networks",
		Long: "turnfold runs streamed LLM turns: the user reads one clean text and every tool acts once,\n" +
			"however often the stream, a process, a host or the network breaks.\n\n" +
			"Exit codes: 0 ok, 1 failed, 2 usage, 3 audit mismatch, 4 unavailable, 5 unknown effects remain, 130 interrupted.",
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q; see turnfold --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&g.configFile, "config", config.FileDefault, "configuration file")
	f.StringVar(&g.logLevel, "log-level", "", "debug, info, warn or error (default: log.level of the configuration)")
	f.BoolVar(&g.json, "json", false, "write data as JSON, one object a line")
	f.StringVar(&g.server, "server", "", "address of a running server (default: listen of the configuration)")
	f.StringVar(&g.token, "token", "", "bearer token (default: TURNFOLD_TOKEN)")
	f.StringArrayVar(&g.set, "set", nil, "override a member of the configuration, as in --set nats.store_dir=/tmp/x")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return coded{exitUsage, err} })
	root.AddCommand(serveCommand(g), runCommand(g), tailCommand(g), acpCommand(g), showCommand(g), auditCommand(g), replayCommand(g), costCommand(g), effectsCommand(g),
		approveCommand(g), denyCommand(g), archiveCommand(g), restoreCommand(g), backupCommand(g), eraseCommand(g),
		toolsCommand(g), configCommand(g), doctorCommand(g), demoCommand(g), benchCommand(g), newProviderCommand(), versionCommand(g))
	return root
}

// args makes a cobra argument check whose failure is a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if err := check(cmd, list); err != nil {
			return usagef("%w; usage: %s", err, cmd.UseLine())
		}
		return nil
	}
}

// load reads the configuration that the flags ask for.
func (g *globals) load(cmd *cobra.Command) (*config.Config, error) {
	flags := map[string]string{}
	for _, s := range g.set {
		name, value, ok := cut(s)
		if !ok {
			return nil, usagef("--set %s: write it as member=value", s)
		}
		flags[name] = value
	}
	if g.logLevel != "" {
		flags["log.level"] = g.logLevel
	}
	if f := cmd.Flags().Lookup("listen"); f != nil && f.Changed {
		flags["listen"] = f.Value.String()
	}
	explicit := cmd.Flags().Changed("config")
	file := g.configFile
	if env := os.Getenv("TURNFOLD_CONFIG"); !explicit && env != "" {
		file, explicit = env, true
	}
	cfg, err := config.Load(file, explicit, os.LookupEnv, flags)
	if err != nil {
		return nil, coded{exitUsage, err}
	}
	return cfg, nil
}

func cut(s string) (name, value string, ok bool) {
	for i := range len(s) {
		if s[i] == '=' {
			return s[:i], s[i+1:], i > 0
		}
	}
	return "", "", false
}

// logger writes to w what the configuration asks for. Arguments of tools and texts of
// models never go there.
func logger(cfg *config.Config, w io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(cfg.Log.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	if cfg.Log.Format == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// say writes a line of data. A reader that went away is no failure of ours.
func say(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
}
