package engine

import (
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// sorted returns the names of a command table.
func sortedNames(t rediscmd.Index[*command]) []string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func cmdCommand(c *call) {
	c.array(len(commands))
	for _, name := range sortedNames(commands) {
		c.commandInfo(commands[name])
	}
}

func cmdCommandCount(c *call) { c.int(int64(len(commands))) }

// lookupFull finds a command by its name, config|get for a subcommand.
func lookupFull(name []byte) *command {
	top, sub, ok := strings.Cut(string(name), "|")
	cmd := find([]byte(top))
	if !ok || cmd == nil {
		return cmd
	}
	if cmd.subIndex == nil {
		return nil
	}
	return cmd.subIndex.Find([]byte(sub))
}

func cmdCommandInfo(c *call) {
	names := c.args[2:]
	if len(names) == 0 {
		for _, name := range sortedNames(commands) {
			names = append(names, []byte(name))
		}
	}
	c.array(len(names))
	for _, name := range names {
		if cmd := lookupFull(name); cmd != nil {
			c.commandInfo(cmd)
		} else {
			c.nullArray()
		}
	}
}

func (c *call) commandInfo(cmd *command) {
	c.array(10)
	c.str(cmd.Name)
	c.int(int64(cmd.Arity))
	flags := cmd.Flags.Names()
	c.setHead(len(flags))
	for _, f := range flags {
		c.status(f)
	}
	c.int(int64(cmd.First))
	c.int(int64(cmd.Last))
	c.int(int64(cmd.Step))
	cats := cmd.Categories.Names()
	c.setHead(len(cats))
	for _, cat := range cats {
		c.status("@" + cat)
	}
	tips := cmd.Tips()
	c.setHead(len(tips))
	for _, tip := range tips {
		c.str(tip)
	}
	c.setHead(len(cmd.Specs))
	for i := range cmd.Specs {
		c.keySpec(&cmd.Specs[i])
	}
	if len(cmd.subs) == 0 {
		c.setHead(0)
		return
	}
	c.array(len(cmd.subs))
	for _, sub := range cmd.subs {
		c.commandInfo(sub)
	}
}

// keySpec writes a key specification as COMMAND has it.
func (c *call) keySpec(s *rediscmd.KeySpec) {
	if s.Notes == "" {
		c.mapHead(3)
	} else {
		c.mapHead(4)
		c.str("notes")
		c.str(s.Notes)
	}
	c.str("flags")
	c.keyFlags(s.Flags)
	part := func(name, kind string, fields int) {
		c.str(name)
		c.mapHead(2)
		c.str("type")
		c.str(kind)
		c.str("spec")
		c.mapHead(fields)
	}
	number := func(name string, n int) {
		c.str(name)
		c.int(int64(n))
	}
	switch {
	case s.Unknown:
		part("begin_search", "unknown", 0)
		part("find_keys", "unknown", 0)
		return
	case s.Index > 0:
		part("begin_search", "index", 1)
		number("index", s.Index)
	default:
		part("begin_search", "keyword", 2)
		c.str("keyword")
		c.str(s.Keyword)
		number("startfrom", s.From)
	}
	if s.Counted {
		part("find_keys", "keynum", 3)
		number("keynumidx", 0)
		number("firstkey", 1)
		number("keystep", 1)
		return
	}
	part("find_keys", "range", 3)
	number("lastkey", s.Last)
	number("keystep", s.Step)
	number("limit", s.Limit)
}

func (c *call) keyFlags(f rediscmd.KeyFlags) {
	names := f.Names()
	c.setHead(len(names))
	for _, name := range names {
		c.status(name)
	}
}

func cmdCommandDocs(c *call) {
	var found []*command
	if len(c.args) == 2 {
		for _, name := range sortedNames(commands) {
			found = append(found, commands[name])
		}
	}
	for _, name := range c.args[2:] {
		if cmd := lookupFull(name); cmd != nil {
			found = append(found, cmd)
		}
	}
	c.mapHead(len(found))
	for _, cmd := range found {
		c.str(cmd.Name)
		c.mapHead(2)
		c.str("arity")
		c.int(int64(cmd.Arity))
		c.str("group")
		c.str(cmd.Categories.Names()[0])
	}
}

func cmdCommandList(c *call) {
	keep := func(*command) bool { return true }
	if len(c.args) > 2 {
		if len(c.args) != 5 || !is(c.args[2], "filterby") {
			c.syntax()
			return
		}
		arg := c.args[4]
		switch {
		case is(c.args[3], "aclcat"):
			keep = func(cmd *command) bool { return slices.Contains(cmd.Categories.Names(), strings.ToLower(string(arg))) }
		case is(c.args[3], "pattern"):
			keep = func(cmd *command) bool { return glob.MatchFold(arg, view(cmd.Name)) }
		case is(c.args[3], "module"):
			keep = func(*command) bool { return false }
		default:
			c.syntax()
			return
		}
	}
	start, n := c.begin(), 0
	emit := func(cmd *command) {
		if keep(cmd) {
			c.str(cmd.Name)
			n++
		}
	}
	for _, name := range sortedNames(commands) {
		cmd := commands[name]
		emit(cmd)
		for _, sub := range cmd.subs {
			emit(sub)
		}
	}
	c.end(start, n)
}

// commandKeys returns the positions of the keys of a command given as
// arguments, or writes the error.
func (c *call) commandKeys(args [][]byte) (cmd *command, at []int, ok bool) {
	cmd = find(args[0])
	if cmd != nil {
		cmd = cmd.resolve(args)
	}
	switch {
	case cmd == nil:
		c.err("ERR Invalid command specified")
		return nil, nil, false
	case !cmd.Keyed():
		c.err("ERR The command has no key arguments")
		return nil, nil, false
	case !cmd.Takes(len(args)):
		c.err("ERR Invalid number of arguments specified for command")
		return nil, nil, false
	}
	at, ok = cmd.Keys(nil, args)
	if !ok {
		at = nil
	}
	if len(at) == 0 {
		if cmd.Has(rediscmd.NoMandatoryKeys) {
			return cmd, at, true
		}
		c.err("ERR Invalid arguments specified for command")
		return nil, nil, false
	}
	return cmd, at, true
}

func cmdCommandGetkeys(c *call) {
	args := c.args[2:]
	_, at, ok := c.commandKeys(args)
	if !ok {
		return
	}
	c.array(len(at))
	for _, i := range at {
		c.bulk(args[i])
	}
}

func cmdCommandGetkeysandflags(c *call) {
	args := c.args[2:]
	cmd, at, ok := c.commandKeys(args)
	if !ok {
		return
	}
	flags, others := cmd.KeyFlags(args)
	c.array(len(at))
	for _, i := range at {
		c.array(2)
		c.bulk(args[i])
		c.keyFlags(flags)
		flags = others
	}
}
