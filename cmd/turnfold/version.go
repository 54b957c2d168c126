package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/subjects"
)

// version is set by the release build (-ldflags "-X main.version=…").
var version = ""

// versionInfo is what `version --json` writes.
type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Dirty   bool   `json:"dirty,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Format  int    `json:"format"` // of events and outputs
}

func buildVersion() versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Format: subjects.Version}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if v.Version == "" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Dirty = s.Value == "true"
			}
		}
	}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	return v
}

func versionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which build this is", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion()
			if g.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			say(cmd, "turnfold %s (%s, %s/%s, format %d)", v.Version, v.Go, v.OS, v.Arch, v.Format)
			return nil
		},
	}
}
