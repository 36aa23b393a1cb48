package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
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
	redis.SetLogger(silent{}) // its news are in the errors
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.Execute())
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "redoubt",
		Short: "Locks, rate limits and queues for services, on Redis",
		Long: `Redoubt provides locks, rate limits and queues for services, on Redis.

You can set every flag in the environment too, like REDOUBT_LISTEN for --listen, and
in a YAML file named by --config, like "listen: 127.0.0.1:6380". A flag overrides the
environment, and the environment overrides the file.`,
		SilenceErrors: true, // report prints them
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          showHelp,
	}
	root.PersistentFlags().String("config", "", "YAML `file` with settings")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newLock(), newLimit(), newQueue(), newStock(), newCache(), newScan(), newDel(), newBigkeys(), newImport(), newExport(), newCheck(), newCommands(), newVersion())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return fill(root, cmd) }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if none, ok := errors.AsType[*pflag.NotExistError](err); ok && none.GetSpecifiedShortnames() != "" {
			return misusef("unknown shorthand flag: -%c", none.GetSpecifiedName()[0]) // the rest may be a password, as in redis-cli -a
		}
		return misusef("%w", err)
	})
	for cmd := range within(root) {
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// showHelp and noSuchCommand are for a command that only has subcommands.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func noSuchCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown command %q", args[0])
	}
	return nil
}

// within iterates over cmd and all its subcommands.
func within(cmd *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		if !yield(cmd) {
			return
		}
		for _, sub := range cmd.Commands() {
			for c := range within(sub) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// onThisLine marks flags that only the command line can set, because they apply to a single run.
func onThisLine(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Annotations = map[string][]string{onlyOnLine: nil}
	}
}

const onlyOnLine = "only on the command line"

func isSetting(f *pflag.Flag) bool {
	_, only := f.Annotations[onlyOnLine]
	return !only && f.Name != "help"
}

// usageArgs turns the errors of check into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if !cmd.HasParent() && len(args) > 0 {
			return misusef("unknown command %s", shown(args[0]))
		}
		if err := check(cmd, args); err != nil {
			text := err.Error()
			for _, a := range args {
				text = strings.ReplaceAll(text, strconv.Quote(a), shown(a))
			}
			_, path, _ := strings.Cut(cmd.CommandPath(), " ")
			return misusef("%s: %s", path, text)
		}
		return nil
	}
}

// fill sets cmd's flags from the environment and the configuration file. Commands may share one file, so
// a setting of another command is allowed.
func fill(root, cmd *cobra.Command) error {
	flags := cmd.Flags()
	from := settings.Sources{Env: os.LookupEnv, Prefix: envPrefix, Except: []string{"config"}}
	flags.VisitAll(func(f *pflag.Flag) {
		if !isSetting(f) {
			from.OnLine = append(from.OnLine, f.Name)
		}
	})
	from.File, _ = flags.GetString("config")
	if !flags.Changed("config") {
		if file, ok := os.LookupEnv(settings.EnvName(envPrefix, "config")); ok {
			from.File = file
		}
	}
	for other := range within(root) {
		if other != root && other.IsAvailableCommand() {
			other.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if isSetting(f) {
					from.Others = append(from.Others, f.Name)
				}
			})
		}
	}
	if err := settings.Fill(flags, from); err != nil {
		return usagef("%s", strings.ReplaceAll(err.Error(), "\n", "\nredoubt: "))
	}
	return nil
}
