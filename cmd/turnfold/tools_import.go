package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/executor/tool"
)

// importTimeout bounds what a server may take to start and to list its tools.
const importTimeout = time.Minute

func newToolsImportCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Propose declarations for tools that exist elsewhere", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return usagef("say from where: mcp") }}
	cmd.AddCommand(importMCPCommand())
	return cmd
}

// importMCP is what `tools import mcp` was asked for.
type importMCP struct {
	name, command, url string
	passEnv            []string
	headerEnv          []string
	timeout            time.Duration
}

func importMCPCommand() *cobra.Command {
	var o importMCP
	cmd := &cobra.Command{
		Use:   "mcp (--command PROGRAM [-- ARG...] | --url URL)",
		Short: "Write a proposal of declarations for the tools of an MCP server",
		Long: "mcp lists the tools of an MCP server and writes declarations of them to standard output. What the\n" +
			"server says of its tools is not trusted: each one is marked as proposed, and turnfold refuses the file\n" +
			"until a person has confirmed effect and identity and deleted the mark.",
		Example: "  turnfold tools import mcp --name memory --command npx -- -y @modelcontextprotocol/server-memory > tools.yaml\n" +
			"  turnfold tools import mcp --name shop --url https://shop.example/mcp --header-env Authorization=SHOP_TOKEN > tools.yaml",
		RunE: func(cmd *cobra.Command, list []string) error {
			server, err := o.server(list)
			if err != nil {
				return err
			}
			ctx, cancel := contextWithTimeout(cmd, o.timeout)
			defer cancel()
			text, err := tool.ProposeMCP(ctx, server, tool.RunnerConfig{Env: os.LookupEnv})
			if err != nil {
				return unavailable(fmt.Errorf("mcp server %s: %w", server.Name, err))
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the server in mcp_servers (default: from the program or the host)")
	f.StringVar(&o.command, "command", "", "program to start; its arguments follow after --")
	f.StringVar(&o.url, "url", "", "address of a server that takes streamable HTTP")
	f.StringArrayVar(&o.passEnv, "pass-env", nil, "environment variable that the program gets too")
	f.StringArrayVar(&o.headerEnv, "header-env", nil, "header whose value is in an environment variable, as in Authorization=TOKEN")
	f.DurationVar(&o.timeout, "timeout", importTimeout, "how long the server may take")
	return cmd
}

// server is the server that the flags name.
func (o importMCP) server(list []string) (*tool.MCPServer, error) {
	s := &tool.MCPServer{Name: o.name, URL: o.url, PassEnv: o.passEnv, HeadersEnv: map[string]string{}}
	switch {
	case (o.command == "") == (o.url == ""):
		return nil, usagef("name a server: --command PROGRAM or --url URL")
	case o.url != "" && len(list)+len(o.passEnv) > 0:
		return nil, usagef("arguments and --pass-env are for a --command")
	case o.command != "" && len(o.headerEnv) > 0:
		return nil, usagef("--header-env is for a --url")
	}
	for _, h := range o.headerEnv {
		name, variable, ok := strings.Cut(h, "=")
		if !ok || name == "" || variable == "" {
			return nil, usagef("--header-env %s: write it as in Authorization=TOKEN", h)
		}
		s.HeadersEnv[name] = variable
	}
	if o.command != "" {
		s.Argv = append([]string{o.command}, list...)
		if len(list) == 0 && strings.Contains(o.command, " ") {
			if strings.ContainsAny(o.command, `"'\`) {
				return nil, usagef("--command: write the program, and its arguments after --")
			}
			s.Argv = strings.Fields(o.command)
		}
	}
	if s.Name == "" {
		s.Name = serverName(s)
	}
	return s, nil
}

// serverName names a server after its program or host.
func serverName(s *tool.MCPServer) string {
	from := s.URL
	if from != "" {
		_, from, _ = strings.Cut(from, "://")
		from, _, _ = strings.Cut(from, "/")
		from, _, _ = strings.Cut(from, ":")
	} else {
		from = filepath.Base(s.Argv[0])
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, from)
	if name == "" {
		return "server"
	}
	return name[:min(len(name), 64)]
}

// writeChanges tells what new declarations do that the old ones did not.
func writeChanges(w io.Writer, changes []tool.Change, asJSON bool) error {
	for _, c := range changes {
		if asJSON {
			if err := json.NewEncoder(w).Encode(c); err != nil {
				return err
			}
			continue
		}
		mark := ""
		if c.Keys {
			mark = " [keys]"
		}
		if c.Running {
			mark += " [running turns]"
		}
		if _, err := fmt.Fprintf(w, "%s%s\n", c, mark); err != nil {
			return err
		}
	}
	return nil
}
