package engine

import (
	"strings"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A command is an entry of the table of rediscmd, with the engine's handler and flags.
type command struct {
	rediscmd.Command // a copy: the command at hand costs no further load
	flags            flag
	handler          func(*call)
	subs             []*command
	subIndex         rediscmd.Index[*command]
	number           int // counts from 0
}

// A flag has the bits of the table of rediscmd in its lower half.
type flag uint64

const (
	flagWrite     = flag(rediscmd.Write)
	flagReadonly  = flag(rediscmd.Readonly)
	flagNoScript  = flag(rediscmd.NoScript)
	flagAllowBusy = flag(rediscmd.AllowBusy) // runs although a script is slow
	flagDenyOOM   = flag(rediscmd.DenyOOM)   // may need more memory: refused when there is too little
	flagNoMulti   = flag(rediscmd.NoMulti)   // not allowed inside MULTI
)

const (
	flagControl      flag = 1 << (32 + iota) // runs inside MULTI instead of being queued
	flagNoLock                               // needs no shard, or locks by itself
	flagAllShards                            // needs every shard
	flagSubscribed                           // allowed while subscribed in RESP2
	flagEveryShard                           // locks shards one after the other, all at once in a transaction
	flagEachKey                              // blocks, and is served from any one of its keys
	flagMayReplicate                         // refused to read-only scripts although it is no write
	flagScript                               // runs a script
	flagFunction                             // that is a function of a library
	flagTakes                                // replies with data that it removes
	flagQuick                                // takes microseconds, or waits without holding anything
	flagQuickIfShort                         // takes microseconds when it has few arguments
	flagQuickAlone                           // takes microseconds when it has one argument
	flagPops                                 // takes as many elements as its second argument says
	flagOneKey                               // has the key args[1] and no other
	flagReads                                // replies with as many entries of streams as COUNT says
)

// commands is filled by init, because handlers refer to it.
var commands rediscmd.Index[*command]

func init() { commands = bindAll() }

func bindAll() rediscmd.Index[*command] {
	t := make(rediscmd.Index[*command])
	for i, b := range bindings {
		r := rediscmd.Lookup(b.name)
		if r == nil {
			panic("engine: package rediscmd has no command " + b.name)
		}
		cmd := b.bind(*r)
		cmd.number = i
		top, sub, isSub := strings.Cut(b.name, "|")
		if !isSub {
			t[top] = cmd
			continue
		}
		parent := t[top]
		if parent.subIndex == nil {
			parent.subIndex = make(rediscmd.Index[*command])
		}
		cmd.flags |= parent.flags
		parent.subs, parent.subIndex[sub] = append(parent.subs, cmd), cmd
	}
	return t
}

// bind gives a command of the table its handler.
func (b *binding) bind(r rediscmd.Command) *command {
	cmd := &command{Command: r, handler: b.handler, flags: b.flags | flag(r.Flags)}
	if r.Has(rediscmd.Fast|rediscmd.Blocking) && cmd.flags&flagReads == 0 {
		cmd.flags |= flagQuick
	}
	if r.OneKey() && cmd.flags&flagAllShards == 0 {
		cmd.flags |= flagOneKey
	}
	return cmd
}

// find returns the command called name in any case, or nil.
func find(name []byte) *command { return commands.Find(name) }

// keys appends the positions of the keys in args to at, as far as args has them.
func (cmd *command) keys(at []int, args [][]byte) []int {
	at, _ = cmd.Keys(at, args)
	return at
}

// resolve returns the subcommand that args name, cmd itself when it has none,
// or nil.
func (cmd *command) resolve(args [][]byte) *command {
	if cmd.subIndex == nil || len(args) < 2 {
		return cmd
	}
	return cmd.subIndex.Find(args[1])
}

// is compares an argument with a keyword in lower case.
func is(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, b := range arg {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		if b != word[i] {
			return false
		}
	}
	return true
}
