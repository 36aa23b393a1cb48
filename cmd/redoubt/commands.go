package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/internal/command"
)

func newCommands() *cobra.Command {
	var format string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "commands",
		Short:   "List the server's own commands, beyond Redis' commands",
		Example: "  redoubt commands\n  redoubt commands --format json | jq -r .[].syntax",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				format = "json"
			}
			return printCommands(cmd.OutOrStdout(), format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "`format` of the list: table, json or markdown")
	jsonFlag(cmd.Flags(), &asJSON, "the same as --format json")
	return cmd
}

func printCommands(w io.Writer, format string) error {
	switch format {
	case "table":
		_, err := io.WriteString(w, commandTable(command.All()))
		return err
	case "json":
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(commandList(command.All()))
	case "markdown":
		_, err := io.WriteString(w, command.Markdown())
		return err
	}
	return usagef("format is %q; want table, json or markdown", format)
}

// commandTable lists each command with its arguments and their units.
func commandTable(all []*command.Command) string {
	var b strings.Builder
	group := ""
	for _, c := range all {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&b, "%s\n", strings.ToUpper(group))
		}
		fmt.Fprintf(&b, "  %s\n      %s\n", c.Syntax(), c.Summary)
		for _, a := range flatten(c.Args) {
			kind := a.Type
			if a.Unit != "" {
				kind += ", " + a.Unit
			}
			fmt.Fprintf(&b, "      %-10s %-16s %s\n", label(a), kind, a.Summary)
		}
	}
	return b.String()
}

// label is the name of an argument in the table: its token, if it has one.
func label(a command.Arg) string {
	if a.Token != "" {
		return a.Token
	}
	return a.Name
}

// flatten replaces an argument by its alternatives.
func flatten(args []command.Arg) []command.Arg {
	var flat []command.Arg
	for _, a := range args {
		if len(a.Args) == 0 {
			flat = append(flat, a)
			continue
		}
		flat = append(flat, flatten(a.Args)...)
	}
	return flat
}

// commandJSON is the JSON form of a command.
type commandJSON struct {
	Name       string    `json:"name"`
	Syntax     string    `json:"syntax"`
	Summary    string    `json:"summary"`
	Group      string    `json:"group"`
	Since      string    `json:"since"`
	Complexity string    `json:"complexity"`
	Arity      int       `json:"arity"`
	Keys       [3]int    `json:"keys"` // first, last, step
	Flags      []string  `json:"flags"`
	Args       []argJSON `json:"args"`
	Reply      string    `json:"reply"`
	Errors     []string  `json:"errors,omitempty"`
}

type argJSON struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Unit     string    `json:"unit,omitempty"`
	Token    string    `json:"token,omitempty"`
	Optional bool      `json:"optional,omitempty"`
	Multiple bool      `json:"multiple,omitempty"`
	Summary  string    `json:"summary,omitempty"`
	Args     []argJSON `json:"args,omitempty"`
}

func commandList(all []*command.Command) []commandJSON {
	list := make([]commandJSON, 0, len(all))
	for _, c := range all {
		list = append(list, commandJSON{
			Name: c.Name, Syntax: c.Syntax(), Summary: c.Summary, Group: c.Group, Since: c.Since,
			Complexity: c.Complexity, Arity: c.Arity, Keys: [3]int{c.FirstKey, c.LastKey, c.KeyStep},
			Flags: slices.Clone(c.Flags), Args: argList(c.Args), Reply: c.Reply, Errors: c.Errors,
		})
	}
	return list
}

func argList(args []command.Arg) []argJSON {
	list := make([]argJSON, 0, len(args))
	for _, a := range args {
		j := argJSON{
			Name: a.Name, Type: a.Type, Unit: a.Unit, Token: a.Token, Summary: a.Summary,
			Optional: a.Use == command.Optional, Multiple: a.Use == command.Multiple,
		}
		if len(a.Args) > 0 {
			j.Args = argList(a.Args)
		}
		list = append(list, j)
	}
	return list
}
