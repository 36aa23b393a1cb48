package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/settings"
)

// envPrefix begins the environment variable of every flag.
const envPrefix = "REDOUBT_"

// run runs the command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	redis.SetLogger(silent{}) // what it has to say is in the errors
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.Execute())
}

// silent is a logger of go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "redoubt",
		Short: "Locks and rate limits for services, on Redis",
		Long: `Redoubt gives locks and rate limits to services, on Redis.

Every flag may also be set in the environment, as REDOUBT_LISTEN for --listen,
and in a YAML file named by --config, as "listen: 127.0.0.1:6380". A flag counts
more than the environment, the environment more than the file.`,
		SilenceErrors: true, // report prints them
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.PersistentFlags().String("config", "", "`file` of settings, in YAML")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newLock(), newImport(), newExport(), newCommands(), newVersion())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return fill(root, cmd) }
	for _, cmd := range append(root.Commands(), root) {
		cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misusef("%w", err) })
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// usageArgs makes the errors of a check of arguments usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if cmd.HasSubCommands() && len(args) > 0 {
			return misusef("unknown command %q", args[0])
		}
		if err := check(cmd, args); err != nil {
			return misusef("%s: %w", cmd.Name(), err)
		}
		return nil
	}
}

// fill sets cmd's flags from the environment and the configuration file. All
// commands may share one file, so that a setting of another is no error.
func fill(root, cmd *cobra.Command) error {
	flags := cmd.Flags()
	from := settings.Sources{Env: os.LookupEnv, Prefix: envPrefix, Except: []string{"config", "help"}}
	from.File, _ = flags.GetString("config")
	if !flags.Changed("config") {
		if file, ok := os.LookupEnv(settings.EnvName(envPrefix, "config")); ok {
			from.File = file
		}
	}
	for _, other := range root.Commands() {
		if other.IsAvailableCommand() {
			other.LocalFlags().VisitAll(func(f *pflag.Flag) { from.Others = append(from.Others, f.Name) })
		}
	}
	if err := settings.Fill(flags, from); err != nil {
		return usagef("%s", strings.ReplaceAll(err.Error(), "\n", "\nredoubt: "))
	}
	return nil
}
