package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  redoubt version\n  redoubt version --json | jq -r .version",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), readBuild(debug.ReadBuildInfo()))
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), readBuild(debug.ReadBuildInfo()))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	onThisLine(cmd.Flags(), "json")
	return cmd
}

// version is the version of a binary that is built from files without their history, as in a container:
// -ldflags "-X main.version=v1.2.3". Otherwise Go records the version.
var version string

// A build describes the source of this binary.
type build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"` // "" if unknown
	Time      string `json:"time"`     // of the revision; "" if unknown
	Modified  bool   `json:"modified"` // after the revision
	GoVersion string `json:"go"`
	System    string `json:"system"`
}

func readBuild(info *debug.BuildInfo, ok bool) build {
	b := build{Version: version, GoVersion: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "(unknown)"
	}
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String implements [fmt.Stringer]: three lines.
func (b build) String() string {
	revision := b.Revision
	switch {
	case revision == "":
		revision = "unknown"
	case b.Modified:
		revision += " with local changes"
	}
	if b.Time != "" {
		revision += ", " + b.Time
	}
	return fmt.Sprintf("redoubt %s\nrevision %s\n%s %s\n", b.Version, revision, b.GoVersion, b.System)
}

func readBuildVersion() string { return readBuild(debug.ReadBuildInfo()).Version }
