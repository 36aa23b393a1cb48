package command

import (
	_ "embed"
	"fmt"
	"strings"
)

// notes are about the commands in general.
//
//go:embed notes.md
var notes string

const (
	generated = "<!-- Generated from the table in internal/command/ by `go generate ./internal/command`. Do not edit. -->\n\n"
	intro     = "A Redoubt server adds these commands to the commands of its back end, which pass through unchanged. Case does not matter in names and tokens. Words in `[]` are optional. Durations are whole milliseconds.\n"
)

// A family is a group of commands with a page of its own.
type family struct{ group, title, page string }

// families are in the order of the table.
var families = []family{
	{"ratelimit", "Rate limits", "[rate limits](../rate-limits.md)"},
	{"lock", "Locks and semaphores", "[locks](../locks.md)"},
	{"fence", "Fencing", "[locks](../locks.md#fencing)"},
	{"queue", "Queues", "[queues](../queues.md)"},
	{"stock", "Stock", "[stock](../stock.md)"},
	{"bloom", "Bloom filters", "[Bloom filters](../bloom-filters.md)"},
	{"ttlhash", "Hashes whose fields expire", "[expiring hashes](../expiring-hashes.md)"},
	{"geo", "Positions", "[positions](../geo.md)"},
}

// Markdown returns the documentation of all commands as one document.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Commands\n\n" + intro)
	for _, c := range table {
		c.markdown(&b)
	}
	return b.String()
}

// Pages returns the documentation of the commands by file, from docs/ on: commands.md, which lists them,
// and a page for each family.
func Pages() map[string]string {
	var list strings.Builder
	list.WriteString("# Commands\n\n[中文](zh-CN/commands.md)\n\n" + generated + intro + "\n" + notes)
	pages := make(map[string]string)
	for _, f := range families {
		file := "commands/" + f.group + ".md"
		fmt.Fprintf(&list, "\n## %s\n\n", f.title)
		var b strings.Builder
		fmt.Fprintf(&b, "# %s: commands\n\n[中文](../zh-CN/%s)\n\n%s", f.title, file, generated)
		fmt.Fprintf(&b, "[All commands](../commands.md), with the shapes of replies and notes on clients. When to use them: %s.\n", f.page)
		for _, c := range table {
			if c.Group == f.group {
				fmt.Fprintf(&list, "- [%s](%s#%s): %s\n", c.Name, file, anchor(c.Name), c.Summary)
				c.markdown(&b)
			}
		}
		pages[file] = b.String()
	}
	pages["commands.md"] = list.String()
	return pages
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
	fmt.Fprintf(b, "```text\n%s\n```\n\n", c.Syntax())
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
	if len(c.Before) > 0 {
		fmt.Fprintf(b, "\n<!-- setup\n> %s\n-->", strings.Join(c.Before, "\n> "))
	}
	for _, e := range c.Examples {
		fmt.Fprintf(b, "\n```redis\n> %s\n%s\n```\n", e.Call, e.Reply)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(b, "\n%s\n", n)
	}
}

// argRows writes a row for each argument with a summary. An argument made of others comes before these.
func argRows(b *strings.Builder, args []Arg) {
	for _, a := range args {
		if a.Summary != "" {
			name, typ := a.syntax(), a.Type
			switch {
			case a.Type == "oneof":
				name = strings.ReplaceAll(name, " | ", "`, `")
			case a.Type == "block" && a.Token != "":
				name = a.Token
			case a.Unit != "":
				typ += ", " + a.Unit
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, typ, a.Summary)
		}
		argRows(b, a.Args)
	}
}
