package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/settings"
)

// help prints the help of cmd, as wide as the terminal.
func help(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	_, _ = fmt.Fprintf(out, "%s\n\n", wrap(strings.TrimSpace(text), columns(out)))
	usage(cmd, out)
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  redoubt help queue put",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil {
				return misusef("%w", err)
			}
			if len(rest) > 0 {
				_, path, _ := strings.Cut(of.CommandPath()+": ", " ")
				return misusef("%s%w", path, unknown(of, rest[0]))
			}
			return of.Help()
		},
	}
}

func usage(cmd *cobra.Command, out io.Writer) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	s, width := styleOf(cmd, out), max(30, columns(out))
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	say("%s\n", s.bold("Usage:"))
	runs := cmd.Args == nil || !cmd.HasSubCommands() || cmd.Name() == "lock"
	if runs {
		say("  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		say("  %s COMMAND\n\n%s\n", cmd.CommandPath(), s.bold("Available Commands:"))
		for _, sub := range cmd.Commands() {
			if !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			pad := cmd.Commands()[0].NamePadding() + 2
			short := strings.ReplaceAll(wrap(sub.Short, width-2-pad), "\n", "\n"+strings.Repeat(" ", 2+pad))
			say("  %s%s%s\n", s.name(sub.Name()), strings.Repeat(" ", max(1, pad-uniseg.StringWidth(sub.Name()))), short)
		}
	}
	if cmd.HasExample() {
		say("\n%s\n%s\n", s.bold("Examples:"), strings.TrimRight(cmd.Example, "\n"))
	}
	for _, flags := range []struct {
		title string
		*pflag.FlagSet
	}{{"Flags:", cmd.LocalFlags()}, {"Global Flags:", cmd.InheritedFlags()}} {
		if flags.HasAvailableFlags() {
			say("\n%s\n%s\n", s.bold(flags.title), strings.TrimRight(flags.FlagUsagesWrapped(width), "\n"))
		}
	}
	if cmd.HasAvailableSubCommands() {
		say("\n%s\n", wrap(fmt.Sprintf("Use \"%s COMMAND --help\" for more information about a command.", cmd.CommandPath()), width))
	}
}

// unknown returns the error for a word that is no subcommand of cmd.
func unknown(cmd *cobra.Command, word string) error {
	text := "unknown command " + shown(word)
	if near := suggestion(cmd, word); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return errors.New(text)
}

// suggestion returns the subcommand of cmd that word may stand for, or "".
func suggestion(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 && len(word) > 1 {
		return near[0]
	}
	return ""
}

// flagFault returns the error for a flag of cmd. rest are the arguments after the words of cmd. Where the
// first of them is a misspelled subcommand, the flags are not cmd's: the error is about the subcommand.
func flagFault(cmd *cobra.Command, rest []string, err error) error {
	none, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			return misusef("--%s: %w", bad.GetFlag().Name, settings.Plain(bad.GetFlag(), bad.GetValue(), err))
		}
		return misusef("%w", err)
	}
	_, path, _ := strings.Cut(cmd.CommandPath()+": ", " ")
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		if cmd.Name() != "lock" { // whose first argument may be a NAME
			return misusef("%s%w", path, unknown(cmd, rest[0]))
		}
		if near := suggestion(cmd, rest[0]); near != "" {
			return misusef("%s%w", path, unknown(cmd, rest[0]))
		}
	}
	if none.GetSpecifiedShortnames() != "" {
		return misusef("unknown shorthand flag: -%c", none.GetSpecifiedName()[0]) // the rest may be a password, as in redis-cli -a
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	text := "unknown flag: --" + none.GetSpecifiedName()
	if near := settings.Nearest(none.GetSpecifiedName(), names); near != "" {
		text += "; did you mean --" + near + "?"
	}
	return misusef("%s", text)
}

// quoted replaces the arguments in a text by what errors may show.
func quoted(text string, args []string) string {
	for _, a := range args {
		text = strings.ReplaceAll(text, strconv.Quote(a), shown(a))
	}
	return text
}
