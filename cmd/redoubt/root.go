package main

import (
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/handover"
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
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		_, rest, _ := root.Find(args) // cmd again
		return flagFault(cmd, rest, err)
	})
	return report(stderr, styleOf(root, stderr), root.Execute())
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "redoubt",
		Short: "Locks, rate limits and queues for services, on Redis",
		Long: `Redoubt provides locks, rate limits and queues for services, on Redis.

You can set every flag in the environment too, like REDOUBT_LISTEN for --listen, and
in a YAML file named by --config, like "listen: 127.0.0.1:6380". A flag overrides the
environment, and the environment overrides the file.`,
		Example: `  redoubt serve
  redoubt lock deploy -- ./deploy.sh
  redoubt limit try mail:42 --rate 10/h && ./send-mail`,
		SilenceErrors: true, // report prints them
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	// Cobra's own flag needs a template, and with text/template the linker keeps all methods: 15 MB more.
	showVersion := root.Flags().BoolP("version", "v", false, "print the version")
	onThisLine(root.Flags(), "version")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *showVersion {
			_, err := fmt.Fprint(cmd.OutOrStdout(), readBuild(debug.ReadBuildInfo()))
			return err
		}
		return showHelp(cmd, args)
	}
	root.PersistentFlags().String("config", "", "YAML `file` with settings")
	noColour(root.PersistentFlags())
	root.AddCommand(newServe(), newLock(), newLimit(), newQueue(), newStock(), newCache(), newScan(), newDel(), newBigkeys(), newImport(), newExport(), newCheck(), newHealth(), newDoctor(), newBench(), newTop(), newCommands(), newMan(), newVersion())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return fill(root, cmd) }
	root.SetHelpFunc(help)
	root.SetHelpCommand(newHelp())
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		usage(cmd, cmd.OutOrStderr())
		return nil
	})
	for cmd := range within(root) {
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// showHelp and noSuchCommand are for a command that only has subcommands.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknown(cmd, args[0])
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

// one accepts one argument.
func one(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want one %s, not %d", what, len(args))
		}
		return nil
	}
}

// noArguments accepts none, and says how to choose by a pattern.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("match") != nil:
		return fmt.Errorf("unknown argument %q; to choose by a pattern: --match PATTERN", args[0])
	}
	return fmt.Errorf("unknown argument %q", args[0])
}

// usageArgs turns the errors of check into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if !cmd.HasParent() && len(args) > 0 {
			return misusef("%w", unknown(cmd, args[0]))
		}
		if err := check(cmd, args); err != nil {
			_, path, _ := strings.Cut(cmd.CommandPath(), " ")
			return misusef("%s: %s", path, quoted(err.Error(), args))
		}
		return nil
	}
}

// fill sets cmd's flags from the environment and the configuration file. Commands may share one file, so
// a setting of another command is allowed.
func fill(root, cmd *cobra.Command) error {
	flags := cmd.Flags()
	from := settings.Sources{
		Env: os.LookupEnv, Prefix: envPrefix, Except: []string{"config"}, Environ: os.Environ(), Foreign: foreign,
		Path: strings.Fields(cmd.CommandPath())[1:],
	}
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
	from.Others = settingsBelow(root)
	from.Section = func(path []string) ([]string, bool) {
		of := root
		for _, word := range path {
			at := slices.IndexFunc(of.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
			if at < 0 {
				return nil, false
			}
			of = of.Commands()[at]
		}
		allowed := settingsBelow(of)
		return allowed, len(allowed) > 0
	}
	if err := settings.Fill(flags, from); err != nil {
		return usagef("%s", strings.ReplaceAll(err.Error(), "\n", "\nredoubt: "))
	}
	return nil
}

// settingsBelow returns the settings of a command and its subcommands.
func settingsBelow(cmd *cobra.Command) (names []string) {
	for c := range within(cmd) {
		if c == cmd.Root() || !c.IsAvailableCommand() {
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if isSetting(f) && c.Root().PersistentFlags().Lookup(f.Name) == nil {
				names = append(names, f.Name)
			}
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// foreign reports whether a variable that begins as ours do is not a setting: what redoubt lock gives to its
// command, the URL for the examples, what serve tells its successor, and the addresses that Kubernetes and Docker give to containers beside a service called redoubt.
func foreign(name, value string) bool {
	return name == envPrefix+"ACTIVE_HELP" || name == envPrefix+"COMPLETION_DESCRIPTIONS" || // the completion scripts
		name == envPrefix+"FENCE" || name == envPrefix+"LOCK_NAME" || name == envPrefix+"URL" || name == handover.Variable || serviceLink.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && (strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://"))
}

var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?$`)
