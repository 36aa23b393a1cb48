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
	var repair, asJSON bool
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
		Args: one("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return check(args[0], repair, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "keep everything written before the damage, and drop the rest")
	onThisLine(cmd.Flags(), "repair")
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON object, also of a damaged directory")
	return cmd
}

// A checkState is the JSON form of a check.
type checkState struct {
	Dir      string `json:"dir"`
	Intact   bool   `json:"intact"`
	Repaired bool   `json:"repaired"`
	Changes  int64  `json:"changes"` // that can be read
	Bytes    int64  `json:"bytes"`   // of these
	Torn     int64  `json:"torn_bytes"`
	Flaw     string `json:"flaw"` // damage that loses nothing
	Damage   string `json:"damage"`
	Lost     int64  `json:"lost_bytes"`
}

func checkStateOf(dir string, r aof.Report, repaired bool) checkState {
	s := checkState{Dir: dir, Intact: r.Damage == nil, Repaired: repaired && r.Damage != nil, Changes: r.Records, Bytes: r.Bytes, Lost: r.Lost}
	if r.Torn != nil {
		s.Torn = r.Torn.Bytes
	}
	if r.Flaw != nil {
		s.Flaw = r.Flaw.Error()
	}
	if r.Damage != nil {
		s.Damage = r.Damage.Error()
	}
	return s
}

func check(dir string, repair, asJSON bool, stdout io.Writer) error {
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
	case asJSON:
		if err := printJSON(stdout, checkStateOf(dir, r, repair)); err != nil || r.Damage == nil || repair {
			return err
		}
		return fail(exitData, nil)
	case r.Damage != nil && !repair:
		return failf(exitData, "dir %s is damaged: %w. Readable before that: %s; %s. "+
			"`redoubt check %s --repair` keeps the readable part", dir, r.Damage, changes(r.Records), lost(r), dir)
	case r.Damage != nil:
		_, err = fmt.Fprintf(stdout, "repaired %s: %v; kept %s before that; %s; the original files now end in .damaged\n", dir, r.Damage, changes(r.Records), lost(r))
		return err
	}
	text := fmt.Sprintf("%s is intact: %s, %s", dir, changes(r.Records), byteSize(r.Bytes))
	if r.Flaw != nil {
		text += fmt.Sprintf("; %v: nothing is lost, and the next start writes the mark anew", r.Flaw)
	}
	if r.Torn != nil {
		text += fmt.Sprintf("; a crash tore the end of %s: the next start cuts off %s", r.Torn.File, byteSize(r.Torn.Bytes))
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}

// lost describes what a repair drops.
func lost(r aof.Report) string {
	if r.Lost == 0 && len(r.Behind) == 0 {
		return "no known data is lost"
	}
	text := byteSize(r.Lost) + " are lost"
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
