package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

func newCheck() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Check a directory of the embedded back end, and repair it",
		Long: `Check the directory of an embedded back end that is not running. Without --repair it
changes nothing.

With --repair it makes a damaged directory usable again: it keeps everything written
before the damage, and drops everything after it. It renames the original files to
*.damaged.

Exit codes: 0 intact, or repaired; 64 wrong usage; 65 damaged; 69 the directory can't
be read, or is in use.`,
		Example: `  redoubt check ./data
  redoubt check ./data --repair`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return check(args[0], repair, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "keep everything written before the damage, and drop the rest")
	onThisLine(cmd.Flags(), "repair")
	return cmd
}

func check(dir string, repair bool, stdout io.Writer) error {
	if err := sourceDir("directory", dir); err != nil {
		return err
	}
	fs, err := aof.Dir(dir)
	if err != nil {
		return failf(exitUnavailable, "dir %s can't be read: %w", dir, err)
	}
	read := aof.Check
	if repair {
		read = aof.Repair
	}
	r, err := read(fs)
	switch {
	case errors.Is(err, aof.ErrLocked):
		return failf(exitUnavailable, "dir %s: %w; stop that process first", dir, err)
	case err != nil:
		return failf(exitUnavailable, "dir %s can't be read: %w", dir, err)
	case r.Damage != nil && !repair:
		return failf(exitData, "dir %s is damaged: %w. Readable before that: %s; %s. "+
			"`redoubt check %s --repair` keeps the readable part", dir, r.Damage, changes(r.Records), lost(r), dir)
	case r.Damage != nil:
		_, err = fmt.Fprintf(stdout, "repaired %s: %v; kept %s before that; %s; the original files now end in .damaged\n", dir, r.Damage, changes(r.Records), lost(r))
		return err
	}
	text := fmt.Sprintf("%s is intact: %s, %d bytes", dir, changes(r.Records), r.Bytes)
	if r.Torn != nil {
		text += fmt.Sprintf("; a crash tore the end of %s: the next start cuts off %d bytes", r.Torn.File, r.Torn.Bytes)
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}

// lost describes what a repair drops.
func lost(r aof.Report) string {
	if r.Lost == 0 && len(r.Behind) == 0 {
		return "no known data is lost"
	}
	text := fmt.Sprintf("%d bytes are lost", r.Lost)
	if len(r.Behind) > 0 {
		text += ", including all of " + strings.Join(r.Behind, " and ")
	}
	return text
}

func changes(n int64) string {
	if n == 1 {
		return "1 change"
	}
	return fmt.Sprintf("%d changes", n)
}
