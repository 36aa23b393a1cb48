package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/internal/doctor"
	"github.com/redoubt-go/redoubt/internal/redisurl"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	var password secret
	cmd := &cobra.Command{
		Use:   "doctor URL",
		Short: "Examine a server: what is safe on it, and what helps",
		Long: `Examine the Redis, Valkey or redoubt serve that URL names: all masters of a cluster, or
the master of Sentinels. Each line says what was looked at and, if it is not as it should be,
what helps: version, role, scripts, eviction, memory, persistence, replicas, clock, network
and disk. Nothing is written but a script that does nothing.

Exit codes: 0 no danger; 1 something would not be safe, or does not work; 64 wrong usage;
69 the server does not answer.`,
		Example: "  redoubt doctor redis://10.0.0.5:6379\n  redoubt doctor redis-cluster://10.0.1.1:6379 --json",
		Args:    one("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := doctorDoor.Check(args[0]); err != nil {
				return usagef("URL: %w", err)
			}
			pass, err := password.read()
			if err != nil {
				return err
			}
			target, err := redisurl.Parse(withPassword(args[0], pass))
			if err != nil {
				return usagef("URL: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			found, err := doctor.Examine(ctx, target)
			if err != nil && len(found) == 0 {
				return failf(exitUnavailable, "%s does not answer: %w", target, err)
			}
			return showFindings(cmd, found, asJSON)
		},
	}
	password.flags(cmd.Flags(), "password of the server, if the URL has none")
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON array")
	return cmd
}

func showFindings(cmd *cobra.Command, found []doctor.Finding, asJSON bool) error { //nolint:revive // a flag
	dangers := 0
	for _, f := range found {
		if f.Level == doctor.Danger {
			dangers++
		}
	}
	out := cmd.OutOrStdout()
	if asJSON {
		if err := printJSON(out, found); err != nil {
			return err
		}
	} else {
		s := styleOf(cmd, out)
		var b strings.Builder
		node := ""
		for _, f := range found {
			if f.Node != node {
				if node != "" {
					b.WriteByte('\n')
				}
				node = f.Node
				b.WriteString(s.bold(node) + "\n")
			}
			level := fmt.Sprintf("%-7s", f.Level)
			if f.Level == doctor.Danger {
				level = s.bad(level)
			}
			fmt.Fprintf(&b, "  %s  %-11s  %s\n", level, f.Check, f.Says)
			if f.Remedy != "" {
				fmt.Fprintf(&b, "  %-7s  %-11s  %s\n", "", "", f.Remedy)
			}
		}
		if _, err := io.WriteString(out, b.String()); err != nil {
			return err
		}
	}
	switch dangers {
	case 0:
		return nil
	case 1:
		return failf(exitFault, "1 thing is a danger")
	}
	return failf(exitFault, "%d things are a danger", dangers)
}
