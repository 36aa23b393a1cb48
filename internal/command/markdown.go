package command

import (
	"fmt"
	"strings"
)

// Markdown returns the documentation of all commands: docs/commands.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Commands\n\n")
	b.WriteString("<!-- Generated from the table in internal/command/ by `go generate ./internal/command`. Do not edit. -->\n\n")
	b.WriteString("A Redoubt server adds these commands to the commands of its back end, which pass through unchanged. Case does not matter in names and tokens. Words in `[]` are optional. Durations are whole milliseconds.\n\n")
	group := ""
	for _, c := range table {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&b, "- **%s**\n", group)
		}
		fmt.Fprintf(&b, "  - [%s](#%s): %s\n", c.Name, anchor(c.Name), c.Summary)
	}
	for _, c := range table {
		c.markdown(&b)
	}
	return b.String()
}

// anchor is what Markdown renderers make of a heading.
func anchor(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), ".", "")
}

// Syntax is the command with its arguments on one line.
func (c *Command) Syntax() string {
	return c.Name + syntax(c.Args)
}

func syntax(args []Arg) string {
	var b strings.Builder
	for _, a := range args {
		s := a.syntax()
		switch a.Use {
		case Required:
			if a.Type == "oneof" {
				s = "<" + s + ">"
			}
		case Optional:
			s = "[" + s + "]"
		case Multiple:
			s += " [" + s + " …]"
		case Any:
			s = "[" + s + " …]"
		}
		b.WriteString(" " + s)
	}
	return b.String()
}

func (a Arg) syntax() string {
	switch {
	case a.Type == "oneof":
		alternatives := make([]string, len(a.Args))
		for i, alt := range a.Args {
			alternatives[i] = alt.syntax()
		}
		return strings.Join(alternatives, " | ")
	case a.Type == "block":
		return strings.TrimPrefix(a.Token+syntax(a.Args), " ")
	case a.Type == "pure-token":
		return a.Token
	case a.Token != "":
		return a.Token + " " + a.wireName()
	}
	return a.wireName()
}

func (c *Command) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", c.Name, c.Summary)
	fmt.Fprintf(b, "```\n%s\n```\n\n", c.Syntax())
	fmt.Fprintf(b, "Since %s. Complexity: %s. Flags: %s.\n\n", c.Since, c.Complexity, strings.Join(c.Flags, ", "))
	if len(c.Args) > 0 {
		b.WriteString("| Argument | Type | Meaning |\n|---|---|---|\n")
		argRows(b, c.Args)
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "**Reply.** %s\n", c.Reply)
	if len(c.Errors) > 0 {
		b.WriteString("\n**Errors**\n\n")
		for _, e := range c.Errors {
			fmt.Fprintf(b, "- %s\n", e)
		}
	}
	for _, e := range c.Examples {
		fmt.Fprintf(b, "\n```\n> %s\n%s\n```\n", e.Call, e.Reply)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(b, "\n%s\n", n)
	}
}

func argRows(b *strings.Builder, args []Arg) {
	for _, a := range args {
		if len(a.Args) > 0 {
			argRows(b, a.Args)
			continue
		}
		typ := a.Type
		if a.Unit != "" {
			typ += ", " + a.Unit
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", a.syntax(), typ, a.Summary)
	}
}
