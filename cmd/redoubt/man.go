package main

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns the command that packages of a release run; it is not for users.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a directory",
		Example: "  redoubt man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    one("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Source: "redoubt " + readBuildVersion(), Manual: "Redoubt"}
			if at, err := time.Parse(time.RFC3339, readBuild(debug.ReadBuildInfo()).Time); err == nil {
				header.Date = &at
			}
			err := os.MkdirAll(args[0], 0o755) //nolint:gosec // documentation is for everybody
			if err == nil {
				err = doc.GenManTree(root, header, args[0])
			}
			if err != nil {
				return fail(exitFault, err)
			}
			return nil
		},
	}
}
