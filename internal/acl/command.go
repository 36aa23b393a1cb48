package acl

import (
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A Command is what rules need to know of a command, or of a subcommand: one of Redis or one of
// Redoubt's own.
type Command struct {
	name       string // like client|kill
	id         int
	categories []string
	redis      *rediscmd.Command        // nil: it is one of Redoubt's own
	own        rediscmd.Access          // what one of those does with its keys
	subs       rediscmd.Index[*Command] // nil: there are none
}

// commands are all by name; count is how many, with their subcommands.
var commands, count = readCommands()

// categories are Redis' categories and then the categories of Redoubt's own commands.
var categories = readCategories()

func readCommands() (all rediscmd.Index[*Command], n int) {
	all = make(rediscmd.Index[*Command])
	numbered := func(c Command) *Command {
		c.id, n = n, n+1
		return &c
	}
	for _, r := range rediscmd.All() {
		c := numbered(Command{name: r.Name, categories: r.Categories.Names(), redis: r})
		if len(r.Subs) > 0 {
			c.subs = make(rediscmd.Index[*Command])
		}
		for _, s := range r.Subs {
			_, sub, _ := strings.Cut(s.Name, "|")
			c.subs[sub] = numbered(Command{name: s.Name, categories: s.Categories.Names(), redis: s})
		}
		all[c.name] = c
	}
	for _, own := range command.All() {
		c := numbered(Command{name: strings.ToLower(own.Name), categories: own.Categories(), own: rediscmd.Reads | rediscmd.Writes})
		if slices.Contains(own.Flags, "readonly") {
			c.own = rediscmd.Reads
		}
		all[c.name] = c
	}
	return all, n
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
	top, sub, isSub := strings.Cut(name, "|")
	c := commands.Find([]byte(top))
	if c == nil || !isSub {
		return c
	}
	return c.subs.Find([]byte(sub))
}

// Name returns the name as errors tell it, like client|kill.
func (c *Command) Name() string { return c.name }

// Reads reports whether the command is in the category read: it changes no key.
func (c *Command) Reads() bool { return slices.Contains(c.categories, "read") }

// Of returns what args, which begin with the name of c, run: c itself, or its subcommand.
// It returns nil for a subcommand that is not known. It doesn't allocate.
func (c *Command) Of(args [][]byte) *Command {
	if c.subs == nil || len(args) < 2 {
		return c
	}
	return c.subs.Find(args[1])
}

// keyAccess returns what is done with the first key among args, and with the others.
func (c *Command) keyAccess(args [][]byte) (first, others rediscmd.Access) {
	if c.redis == nil {
		return c.own, c.own
	}
	return c.redis.Access(args)
}

// channels returns the arguments that name channels.
func (c *Command) channels() rediscmd.Channels {
	if c.redis == nil {
		return rediscmd.Channels{}
	}
	return c.redis.Channels
}
