package rediscmd

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed commands.txt
var table string

// all are the commands in the order of the table, and byName the same.
var all, byName = parse(table)

// parse panics with the line in which something is wrong.
func parse(text string) (all []*Command, byName Index[*Command]) {
	byName = make(Index[*Command])
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := parseLine(line)
		top, sub, isSub := strings.Cut(c.Name, "|")
		if !isSub {
			all, byName[top] = append(all, c), c
			continue
		}
		parent := byName[top]
		if parent == nil {
			panic("rediscmd: there is no command for the subcommand: " + line)
		}
		if parent.subs == nil {
			parent.subs = make(Index[*Command])
		}
		parent.Subs, parent.subs[sub] = append(parent.Subs, c), c
		if c.keyed && parent.sibling == nil {
			parent.sibling = c
		}
	}
	return all, byName
}

func parseLine(line string) *Command {
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("rediscmd: %v: %s", v, line))
		}
	}()
	f := strings.Fields(line)
	if len(f) != 5 {
		panic(fmt.Sprintf("%d columns, want 5", len(f)))
	}
	c := &Command{Name: f[0], Arity: number(f[1])}
	if f[4] != "-" {
		c.Flags = Flags(set(f[4], flagNames))
	}
	if f[2] != "-" {
		c.Categories = category(f[2])
	}
	c.Categories |= implied(c.Flags, c.Categories)
	if f[3] != "-" {
		for i, item := range strings.Split(f[3], ",") {
			c.parseKeys(item, i == 0)
		}
	}
	return c
}

var finders = map[string]finder{
	"store:5": stored(5), "store:6": stored(6), "sort": sorted, "streams:1": streams, "streams:4": streams, "KEYS": migrated,
}

// parseKeys reads an item of the column of keys.
func (c *Command) parseKeys(item string, isFirst bool) { //nolint:revive // the parameter is the state
	what, where, _ := strings.Cut(item, "@")
	switch what {
	case "channel", "pattern":
		from, to, _ := parseRange(where)
		c.Channels = Channels{First: from, Last: to, Patterns: what == "pattern"}
		return
	case "slot":
		c.specify(NotKey, where)
	default:
		f := keyFlags(what)
		if c.others = f &^ VariableFlags; isFirst {
			c.first = c.others
		}
		c.keyed = true
		c.specify(f, where)
	}
	if c.find = finders[where]; c.find != nil || where == "by" {
		return
	}
	if n, ok := strings.CutPrefix(where, "#"); ok {
		c.find = counted(number(n))
		return
	}
	from, to, step := parseRange(where)
	if c.First == 0 {
		c.First, c.Step = from, step
	}
	c.Last = to
}

// parseRange reads a range like 1..-1/2.
func parseRange(text string) (from, to, step int) {
	text, every, hasStep := strings.Cut(text, "/")
	first, last, isRange := strings.Cut(text, "..")
	from, step = number(first), 1
	to = from
	if isRange {
		to = number(last)
	}
	if hasStep {
		step = number(every)
	}
	return from, to, step
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
