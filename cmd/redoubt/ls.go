package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
)

// newLS completes cmd, which has its help texts, to list things: locks, queues or items.
func newLS[State any](cmd *cobra.Command, things string, list func(ctx context.Context, client *redoubt.Client, match string) ([]State, error), table func(io.Writer, []State) error) *cobra.Command {
	var f serverFlags
	var match string
	var asJSON bool
	cmd.Use = "ls"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
			states, err := list(ctx, client, match)
			if err != nil {
				return serverFault("listing", err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), states)
			}
			return table(cmd.OutOrStdout(), states)
		})
	}
	flags := cmd.Flags()
	flags.StringVar(&match, "match", "", "only names that match this glob `pattern`, as in KEYS")
	flags.BoolVar(&asJSON, "json", false, "print a JSON array")
	onThisLine(flags, "match", "json")
	f.flags(flags, things)
	return cmd
}
