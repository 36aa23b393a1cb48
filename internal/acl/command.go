package acl

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/command"
)

//go:embed commands.txt
var commandsText string

// A Command is what rules need to know of a command, or of a subcommand.
type Command struct {
	name       string // as Redis tells it, like client|kill
	id         int
	categories []string
	keyed      bool   // it has keys, not channels, where the server finds keys
	first      access // to the first key
	others     access
	subs       map[string]*Command // nil: there are none
	channels   channels
}

// access is what is done with a key.
type access uint8

const (
	reads access = 1 << iota
	writes
)

// channels says which arguments name channels.
type channels uint8

const (
	noChannels  channels = iota
	oneChannel           // the first
	allChannels          // all
	allPatterns          // all, and they are patterns
)

var channelCommands = map[string]channels{
	"publish": oneChannel, "spublish": oneChannel,
	"subscribe": allChannels, "ssubscribe": allChannels, "psubscribe": allPatterns,
}

// always are the commands that everybody may run.
var always = map[string]bool{"auth": true, "hello": true, "quit": true, "reset": true}

// commands are all by name; count is how many, with their subcommands.
var commands, count = readCommands()

// categories are those of Redis and then those of Redoubt's own commands.
var categories = readCategories()

func readCommands() (all map[string]*Command, n int) {
	all = make(map[string]*Command)
	add := func(c *Command) {
		c.id, n = n, n+1
		parent, sub, isSub := strings.Cut(c.name, "|")
		if !isSub {
			c.channels = channelCommands[c.name]
			all[c.name] = c
			return
		}
		if all[parent].subs == nil {
			all[parent].subs = make(map[string]*Command)
		}
		all[parent].subs[sub] = c
	}
	for line := range strings.Lines(commandsText) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		c := &Command{name: f[0], categories: strings.Split(f[1], ",")}
		if len(f) > 2 {
			c.keyed, c.first, c.others = true, accessOf(f[2]), accessOf(f[len(f)-1])
		}
		add(c)
	}
	for _, own := range command.All() {
		c := &Command{name: strings.ToLower(own.Name), categories: own.Categories(), keyed: true, first: reads}
		if !slices.Contains(own.Flags, "readonly") {
			c.first |= writes
		}
		c.others = c.first
		add(c)
	}
	return all, n
}

func accessOf(text string) (a access) {
	if text == "none" {
		return 0
	}
	if strings.Contains(text, "r") {
		a |= reads
	}
	if strings.Contains(text, "w") {
		a |= writes
	}
	return a
}

func readCategories() (all []string) {
	add := func(of []string) {
		for _, name := range of {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	var names []string
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(commands[name].categories)
		for _, s := range commands[name].subs {
			add(s.categories)
		}
	}
	slices.Sort(all)
	return all
}

// Categories returns the names of all categories, sorted.
func Categories() []string { return slices.Clone(categories) }

// In returns the names of the commands in a category, sorted; nil: there is no such one.
func In(category string) []string {
	if category = strings.ToLower(category); !slices.Contains(categories, category) {
		return nil
	}
	var names []string
	add := func(c *Command) {
		if slices.Contains(c.categories, category) {
			names = append(names, c.name)
		}
	}
	for _, c := range commands {
		add(c)
		for _, s := range c.subs {
			add(s)
		}
	}
	slices.Sort(names)
	return names
}

// Lookup returns the command with a name in any case, like get or client|kill, or nil.
func Lookup(name string) *Command {
	top, sub, isSub := strings.Cut(strings.ToLower(name), "|")
	c := commands[top]
	if c == nil || !isSub {
		return c
	}
	return c.subs[sub]
}

// Name returns the name as errors tell it, like client|kill.
func (c *Command) Name() string { return c.name }

const maxName = 32 // longer than the name of any subcommand

// Of returns what args, which begin with the name of c, run: c itself, or its subcommand.
// It returns nil for a subcommand that is not known. It doesn't allocate.
func (c *Command) Of(args [][]byte) *Command {
	if c.subs == nil || len(args) < 2 {
		return c
	}
	var low [maxName]byte
	name := args[1]
	if len(name) > maxName {
		return nil
	}
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		low[i] = b
	}
	return c.subs[string(low[:len(name)])]
}

// keyAccess returns what is done with the first key among args, and with the others.
func (c *Command) keyAccess(args [][]byte) (first, others access) {
	switch c.name {
	case "set":
		if !slices.ContainsFunc(args[3:], func(a []byte) bool { return is(a, "GET") }) {
			return writes, writes
		}
	case "bitfield":
		if onlyGets(args[2:]) {
			return reads, reads
		}
	}
	return c.first, c.others
}

// onlyGets reports whether the operations of BITFIELD only read.
func onlyGets(ops [][]byte) bool {
	for len(ops) > 0 {
		switch {
		case is(ops[0], "GET") && len(ops) > 2:
			ops = ops[3:]
		case is(ops[0], "OVERFLOW") && len(ops) > 1:
			ops = ops[2:]
		default:
			return false
		}
	}
	return true
}

func is(word []byte, keyword string) bool { return bytes.EqualFold(word, []byte(keyword)) }
