package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printBuild(cmd.OutOrStdout(), readBuild(debug.ReadBuildInfo()))
		},
	}
}

// A build describes the source of this binary.
type build struct {
	version, goVersion, revision, time string
	modified                           bool
}

func readBuild(info *debug.BuildInfo, ok bool) build {
	b := build{version: "(unknown)", goVersion: runtime.Version()}
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.time":
			b.time = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	return b
}

func printBuild(w io.Writer, b build) error {
	revision := b.revision
	switch {
	case revision == "":
		revision = "unknown"
	case b.modified:
		revision += " with local changes"
	}
	if b.time != "" {
		revision += ", " + b.time
	}
	_, err := fmt.Fprintf(w, "redoubt %s\nrevision %s\n%s %s/%s\n",
		b.version, revision, b.goVersion, runtime.GOOS, runtime.GOARCH)
	return err
}

func readBuildVersion() string { return readBuild(debug.ReadBuildInfo()).version }
