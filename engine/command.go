package engine

import "strings"

// A command is a line of the command table: everything there is to know about
// a command except what it does, which its handler knows.
type command struct {
	name      string
	arity     int    // arguments with the name; negative: at least so many
	flagNames string // as COMMAND INFO tells them
	cats      string // ACL categories
	first     int    // position of the first key, 0 for none
	last      int    // of the last, negative from the end
	step      int
	flags     flag
	movable   func(at []int, args [][]byte) []int // finds keys that have no fixed position
	handler   func(*call)
	subs      []command
	subIndex  map[string]*command
}

type flag uint32

const (
	flagControl    flag = 1 << iota // runs inside MULTI instead of being queued
	flagNoLock                      // needs no shard, or locks by itself
	flagAllShards                   // needs every shard
	flagSubscribed                  // allowed while subscribed in RESP2
	flagEveryShard                  // locks shards one after the other, all at once in a transaction
	flagEachKey                     // blocks, and is served from any one of its keys
	flagNoMulti                     // not allowed inside MULTI
	flagWrite
	flagReadonly
	flagNoScript
	flagMayReplicate // refused to read-only scripts although it is no write
	flagAllowBusy    // runs although a script is slow
	flagScript       // runs a script
	flagTakes        // replies with what it takes out
	flagDenyOOM      // may need more memory: refused when there is too little
	flagQuick        // takes microseconds, or waits without holding anything
	flagQuickIfShort // takes microseconds when it has few arguments
	flagPops         // takes as many elements as its second argument says
)

func commandTable() map[string]*command {
	t := map[string]*command{}
	for _, part := range [][]command{stringTable, collectionTable, zsetTable, keyTable, connectionTable, otherTable} {
		for i := range part {
			index(t, &part[i])
		}
	}
	return t
}

// commands is filled by init, because handlers refer to it.
var commands map[string]*command

func init() { commands = commandTable() }

func index(t map[string]*command, cmd *command) {
	for f := range strings.SplitSeq(cmd.flagNames, "|") {
		switch f {
		case "write":
			cmd.flags |= flagWrite
		case "readonly":
			cmd.flags |= flagReadonly
		case "denyoom":
			cmd.flags |= flagDenyOOM
		case "noscript":
			cmd.flags |= flagNoScript
		case "allow_busy":
			cmd.flags |= flagAllowBusy
		case "no_multi":
			cmd.flags |= flagNoMulti
		case "fast", "blocking":
			cmd.flags |= flagQuick
		}
	}
	name := cmd.name
	if i := strings.IndexByte(name, '|'); i >= 0 {
		name = name[i+1:]
	}
	switch name { // what Redis does not call fast, because it frees the old value at once
	case "set", "del", "setex", "psetex", "getset", "publish":
		cmd.flags |= flagQuick
	case "mset", "msetnx":
		cmd.flags |= flagQuickIfShort
	}
	switch name {
	case "lpop", "rpop", "spop", "zpopmin", "zpopmax":
		cmd.flags |= flagPops
	}
	switch name {
	case "lpop", "rpop", "lmpop", "blmpop", "blpop", "brpop", "spop", "zpopmin", "zpopmax", "zmpop", "bzmpop", "bzpopmin", "bzpopmax", "getdel", "getset", "hgetdel":
		cmd.flags |= flagTakes
	case "publish", "spublish", "pfcount":
		cmd.flags |= flagMayReplicate
	case "eval", "eval_ro", "evalsha", "evalsha_ro":
		cmd.flags |= flagScript
	}
	t[name] = cmd
	if len(cmd.subs) > 0 {
		cmd.subIndex = map[string]*command{}
		for i := range cmd.subs {
			sub := &cmd.subs[i]
			sub.flags |= cmd.flags
			index(cmd.subIndex, sub)
		}
	}
}

const longestName = 32

// find returns the command called name in any case, or nil.
func find(name []byte) *command { return findIn(commands, name) }

func findIn(t map[string]*command, name []byte) *command {
	var buf [longestName]byte
	if len(name) > len(buf) {
		return nil
	}
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		buf[i] = b
	}
	return t[string(buf[:len(name)])]
}

// keys appends the positions of the keys in args to at.
func (cmd *command) keys(at []int, args [][]byte) []int {
	if cmd.first > 0 {
		last := cmd.last
		if last < 0 {
			last += len(args)
		}
		for i := cmd.first; i <= last && i < len(args); i += cmd.step {
			at = append(at, i)
		}
	}
	if cmd.movable != nil {
		at = cmd.movable(at, args)
	}
	return at
}

// resolve returns the subcommand that args name, cmd itself when it has none,
// or nil.
func (cmd *command) resolve(args [][]byte) *command {
	if cmd.subIndex == nil || len(args) < 2 {
		return cmd
	}
	return findIn(cmd.subIndex, args[1])
}

// counted appends the positions of as many keys as the number at args[n] says,
// which begin behind it. It appends none when the number is not right.
func counted(at []int, args [][]byte, n int) []int {
	if n >= len(args) {
		return at
	}
	count, ok := parseInt(args[n])
	if !ok || count <= 0 || count > int64(len(args)-n-1) {
		return at
	}
	for i := range int(count) {
		at = append(at, n+1+i)
	}
	return at
}

func keysNum1(at []int, args [][]byte) []int { return counted(at, args, 1) }
func keysNum2(at []int, args [][]byte) []int { return counted(at, args, 2) }

// keysStore is for ZUNIONSTORE and the like, whose first key the table has.
func keysStore(at []int, args [][]byte) []int { return counted(at, args, 2) }

// keysGeoRadius finds the destination of GEORADIUS, which is the last given.
func keysGeoRadius(at []int, args [][]byte) []int {
	from := 5
	if len(args) > 0 && strings.EqualFold(string(args[0]), "georadius") {
		from = 6
	}
	store := 0
	for i := from; i+1 < len(args); i++ {
		if is(args[i], "store") || is(args[i], "storedist") {
			store = i + 1
			i++
		}
	}
	if store > 0 {
		at = append(at, store)
	}
	return at
}

// keysSort finds the destination of SORT, which is the last given.
func keysSort(at []int, args [][]byte) []int {
	store := 0
	for i := 2; i < len(args); i++ {
		switch {
		case is(args[i], "limit"):
			i += 2
		case is(args[i], "get"), is(args[i], "by"):
			i++
		case is(args[i], "store") && i+1 < len(args):
			store = i + 1
		}
	}
	if store > 0 {
		at = append(at, store)
	}
	return at
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
