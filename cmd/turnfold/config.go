package main

import (
	"encoding/json"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func configCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return usagef("say what to do: print or check") }}
	cmd.AddCommand(&cobra.Command{
		Use: "print", Short: "Write the configuration in force, each value with its origin", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := g.load(cmd)
			if err != nil {
				return err
			}
			if !g.json {
				return cfg.Print(cmd.OutOrStdout())
			}
			data, err := cfg.JSON()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(append(data, '\n'))
			return err
		},
	}, &cobra.Command{
		Use: "check", Short: "Check the configuration and the tools file", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := g.load(cmd)
			if err != nil {
				return err
			}
			tools, err := loadTools(cfg, zerolog.Nop())
			if err != nil {
				return coded{exitUsage, err}
			}
			if g.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"ok": true, "file": cfg.File,
					"providers": len(cfg.Providers), "routes": len(cfg.Routes), "tools": len(tools.All())})
			}
			file := cfg.File
			if file == "" {
				file = "no file; defaults"
			}
			say(cmd, "ok: %s; %d providers, %d routes, %d tools", file, len(cfg.Providers), len(cfg.Routes), len(tools.All()))
			return nil
		},
	})
	return cmd
}
