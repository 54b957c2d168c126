package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/subjects/jet"
)

// finding is one thing that `doctor` looked at.
type finding struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Note string `json:"note,omitempty"`
	Fix  string `json:"fix,omitempty"`
}

func doctorCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Look for what is wrong, and say how to mend it", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			bad := 0
			for _, f := range examine(g, cmd) {
				if !f.OK {
					bad++
				}
				if g.json {
					if err := json.NewEncoder(cmd.OutOrStdout()).Encode(f); err != nil {
						return err
					}
					continue
				}
				f.print(cmd)
			}
			if bad > 0 {
				return coded{exitFailed, nil}
			}
			return nil
		},
	}
}

func (f finding) print(cmd *cobra.Command) {
	word := "ok  "
	if !f.OK {
		word = "FAIL"
	}
	line := word + " " + f.What
	if f.Note != "" {
		line += ": " + f.Note
	}
	say(cmd, "%s", line)
	if !f.OK && f.Fix != "" {
		say(cmd, "     %s", f.Fix)
	}
}

func examine(g *globals, cmd *cobra.Command) []finding {
	cfg, err := g.load(cmd)
	if err != nil {
		return []finding{{What: "configuration", Note: err.Error(), Fix: "mend the file; turnfold config check says when it is right"}}
	}
	file := cfg.File
	if file == "" {
		file = "no file; defaults"
	}
	out := []finding{{What: "configuration", OK: true, Note: file}, examineTools(cfg)}
	out = append(out, examineProviders(cfg)...)
	out = append(out, examineStore(cfg.NATS.StoreDir))
	c, err := g.clientOf(cfg)
	switch {
	case err != nil:
		out = append(out, finding{What: "server", Note: err.Error()})
	case c.alive(cmd.Context()):
		out = append(out, examineServer(cmd.Context(), c))
	default:
		out = append(out, finding{What: "server", OK: true, Note: "none runs at " + c.base})
	}
	if !cfg.NATS.Embedded() {
		out = append(out, examineNATS(cmd.Context(), cfg))
	}
	return out
}

func examineTools(cfg *config.Config) finding {
	set, err := loadTools(cfg, zerolog.Nop())
	if err != nil {
		return finding{What: "tools", Note: err.Error(), Fix: "mend the tools file; turnfold tools lint says when it is right"}
	}
	note := fmt.Sprintf("%d declared", len(set.All()))
	if n := len(tool.Lint(set)); n > 0 {
		note += fmt.Sprintf(", %d warnings (turnfold tools lint)", n)
	}
	return finding{What: "tools", OK: true, Note: note}
}

func examineProviders(cfg *config.Config) []finding {
	if len(cfg.Providers) == 0 {
		return []finding{{What: "providers", Note: "none is configured", Fix: "add one under providers in " + config.FileDefault}}
	}
	var out []finding
	for name, p := range cfg.Providers {
		f := finding{What: "provider " + name, OK: true, Note: p.API + " at " + p.BaseURL}
		if _, err := p.Key(os.LookupEnv); err != nil {
			f.OK, f.Note, f.Fix = false, "its key is missing", fmt.Sprintf("export %s=…, or %s_FILE=/path/to/key", p.APIKeyEnv, p.APIKeyEnv)
		} else if adapters[p.API] == nil {
			f.OK, f.Note, f.Fix = false, "this build does not speak "+p.API, "choose another api"
		}
		out = append(out, f)
	}
	return out
}

func examineStore(dir string) finding {
	f := finding{What: "store directory", Note: dir, Fix: "make it writable for this user, or set nats.store_dir"}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Note = err.Error()
		return f
	}
	probe, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		f.Note = err.Error()
		return f
	}
	name := probe.Name()
	if err := probe.Close(); err != nil {
		f.Note = err.Error()
	}
	f.OK = os.Remove(name) == nil
	return f
}

func examineServer(ctx context.Context, c *client) finding {
	f := finding{What: "server", Note: c.base, Fix: "look at " + c.base + "/readyz?verbose and at its log"}
	res, err := c.do(ctx, "GET", "/readyz", nil, nil)
	if err != nil {
		f.Note = err.Error()
		return f
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		f.Note = refused(res).Error()
		return f
	}
	f.OK = true
	return f
}

func examineNATS(ctx context.Context, cfg *config.Config) finding {
	f := finding{What: "NATS", Note: cfg.NATS.URL, Fix: "start it with JetStream (nats-server -js), or correct nats.url and its credentials"}
	c, err := natsOf(cfg.NATS, zerolog.Nop())
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var conn *jet.Conn
		conn, err = jet.Connect(ctx, c)
		if err == nil {
			_ = conn.Close(ctx) // it was only to see whether it opens
		}
	}
	if err != nil {
		f.Note = err.Error()
		return f
	}
	f.OK = true
	return f
}
