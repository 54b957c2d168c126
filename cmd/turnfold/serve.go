package main

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func serveCommand(g *globals) *cobra.Command {
	var roles []string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run turns: all roles in this process, or some of them",
		Long: "serve runs until it is asked to stop (SIGTERM, Ctrl-C). Running turns then get shutdown_grace to end;\n" +
			"a process without any stops at once.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, r := range roles {
				if !slices.Contains(allRoles, r) {
					return usagef("--roles: %q is no role; roles are %s", r, strings.Join(allRoles, ", "))
				}
			}
			cfg, err := g.load(cmd)
			if err != nil {
				return err
			}
			tuneRuntime(roles)
			a, err := newApp(cmd.Context(), cfg, roles, logger(cfg, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			a.announce(cmd, roles)
			return a.run(cmd.Context())
		},
	}
	cmd.Flags().StringSliceVar(&roles, "roles", allRoles, "roles of this process")
	cmd.Flags().String("listen", "", "address of the HTTP API (default: of the configuration)")
	return cmd
}

// announce says where the process can be reached.
func (a *app) announce(cmd *cobra.Command, roles []string) {
	if a.listener != nil {
		say(cmd, "turnfold listens on %s", a.url())
	} else {
		say(cmd, "turnfold runs as %s", strings.Join(roles, ", "))
	}
	if a.embedded != nil {
		say(cmd, "watch the logs: %s", a.embedded.CredentialsHint())
	}
	if a.listener != nil {
		say(cmd, "watch the turns: %s/", a.url())
	}
}

// url is where clients of this host find the API.
func (a *app) url() string {
	scheme := "http"
	if a.cfg.TLS.Cert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(a.listener.Addr().String())
	if err != nil {
		return a.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, port))
}
