// Package rediscmd is the table of Redis' commands: the arity, flags, ACL categories and keys
// of each command of Redis 7.0, and of a few later ones.
//
//	set := rediscmd.Find([]byte("SET"))
//	if set.Takes(len(args)) {
//		at, ok := set.Keys(nil, args)
//	}
//
// commands.txt is the table. It doesn't say what a command does: the engine binds its handlers to the
// table's commands. Packages server, acl and proxy read the rest from it.
package rediscmd

import (
	"bytes"
	"strings"
)

// A Command is what the table says of a command, or of a subcommand. It never changes.
type Command struct {
	// Name is in lower case. That of a subcommand is like client|kill.
	Name string
	// Arity is the number of arguments, the name included. A negative one is a minimum.
	Arity int
	Flags Flags
	// Categories are the categories of ACL rules.
	Categories Categories
	// First, Last and Step are where COMMAND says that keys, or channels with a slot, stand.
	// A negative Last counts from the end. If First is 0, there are none at fixed places.
	First, Last, Step int
	// Channels are the arguments for which a user needs rights on channels.
	Channels Channels
	// Subs are the subcommands, in the order of the table.
	Subs []*Command
	// Specs say where keys are, in the words of COMMAND. [Command.Keys] finds more of them.
	Specs []KeySpec

	keyed         bool     // keys stand at First, if that isn't 0
	find          finder   // finds the keys that have no fixed place; nil: there are none
	first, others KeyFlags // of the first key, and of the others
	subs          Index[*Command]
	sibling       *Command // the first of Subs that has keys
}

// Channels are arguments that name channels: all from First to Last, which may be -1 for the
// last argument. If First is 0, there are none.
type Channels struct {
	First, Last int
	// Patterns says that they are patterns of channels.
	Patterns bool
}

// Of returns the channels among the arguments of a command. Their number is right.
func (c Channels) Of(args [][]byte) [][]byte {
	last := c.Last
	if last < 0 {
		last += len(args)
	}
	return args[c.First : last+1]
}

// Access is what a command does with a key. 0 is neither, as with EXISTS.
type Access uint8

// A command may do both.
const (
	Reads Access = 1 << iota
	Writes
)

// Find returns the command with a name in any case, or nil. It doesn't allocate.
func Find(name []byte) *Command { return byName.Find(name) }

// Lookup is Find that also finds subcommands, by names like client|kill.
func Lookup(name string) *Command {
	top, sub, isSub := strings.Cut(name, "|")
	c := Find([]byte(top))
	if c == nil || !isSub {
		return c
	}
	return c.subs.Find([]byte(sub))
}

// All returns all commands, each with its [Command.Subs], in the order of the table. The caller
// must not change the slice.
func All() []*Command { return all }

// Has reports whether the command has a flag.
func (c *Command) Has(f Flags) bool { return c.Flags&f != 0 }

// Takes reports whether the command may have n arguments, its name included.
func (c *Command) Takes(n int) bool {
	return c.Arity >= 0 && n == c.Arity || c.Arity < 0 && n >= -c.Arity
}

// RunsScript reports whether the command runs a script or a function of its caller's.
func (c *Command) RunsScript() bool { return c.Has(NoMandatoryKeys) }

// Of returns what args, which begin with the name of c, run: c itself, or its subcommand. It
// returns nil for a subcommand that is not in the table. It doesn't allocate.
func (c *Command) Of(args [][]byte) *Command {
	if c.Subs == nil || len(args) < 2 {
		return c
	}
	return c.subs.Find(args[1])
}

// Access returns what args do with their first key, and with the others.
func (c *Command) Access(args [][]byte) (first, others Access) {
	f, o := c.KeyFlags(args)
	return f.access(), o.access()
}

// KeyFlags returns the flags of the first key among args, and of the others.
func (c *Command) KeyFlags(args [][]byte) (first, others KeyFlags) {
	switch c.Name {
	case "set":
		for _, a := range args[3:] {
			if is(a, "GET") {
				return c.first, c.others
			}
		}
		return OW | Update, OW | Update
	case "bitfield":
		if onlyGets(args[2:]) {
			return RO | AccessData, RO | AccessData
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

// An Index finds something by a name whose case doesn't matter. Its keys are in lower case.
type Index[T any] map[string]T

// MaxName is the length of the longest name that an Index finds.
const MaxName = 32

// Find returns what has a name, or the zero value of T. It doesn't allocate.
func (x Index[T]) Find(name []byte) (found T) {
	var low [MaxName]byte
	if len(name) > MaxName {
		return found
	}
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		low[i] = b
	}
	return x[string(low[:len(name)])]
}
