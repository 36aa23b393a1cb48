package command

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // SHA-1 is how Redis names scripts; nothing is secured by it.
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	bloomwire "github.com/redoubt-go/redoubt/internal/wire/bloom"
	fencewire "github.com/redoubt-go/redoubt/internal/wire/fence"
	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
	ratelimitwire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	ttlhashwire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
	"github.com/redoubt-go/redoubt/lock"
)

// A Command describes one command and knows how to run it.
type Command struct {
	// Name as people write it, like LOCK.ACQUIRE. Case does not matter on the
	// wire.
	Name string
	// Summary says in one sentence what the command does.
	Summary string
	// Since is the release of Redoubt that the command came with.
	Since string
	// Group is lock, ratelimit, ….
	Group string
	// Complexity is the cost, as in Redis' documentation.
	Complexity string
	// Arity counts the arguments with the name. A negative one is a minimum.
	Arity int
	// FirstKey, LastKey and KeyStep are the positions of keys among the
	// arguments, as COMMAND gives them.
	FirstKey, LastKey, KeyStep int
	// Flags are flags of COMMAND INFO: write, readonly, denyoom, fast,
	// blocking, ….
	Flags []string
	// Args are the arguments in order.
	Args []Arg
	// Reply says what comes back, and Errors which errors.
	Reply  string
	Errors []string
	// Before has calls that prepare the examples, each with its reply on further lines where the examples
	// use it. Readers don't see them.
	Before []string
	// Examples are calls and what redis-cli prints for them. A test runs the examples of a page in order.
	Examples []Example
	// Module says that the command is one of a Redis module: a back end that
	// has it runs it itself.
	Module bool
	// Notes follow the table in the documentation.
	Notes []string

	// Plan says how to run the command with args, its name first. Arity has
	// been checked. The bytes of args are valid only during the call.
	Plan func(env *Env, args [][]byte) Plan
}

// An Arg describes an argument, or an option with its argument.
type Arg struct {
	Name string
	// Type is key, string, integer, pure-token, oneof or block, as in COMMAND DOCS.
	Type string
	// Unit of an integer, like ms.
	Unit string
	// Token is the word that precedes the argument.
	Token string
	// Use says how often the argument may come.
	Use Use
	// Summary says what it means, its bounds and its default.
	Summary string
	// Args are the alternatives of a oneof, or the parts of a block.
	Args []Arg
}

// Use says how often an argument may come.
type Use uint8

const (
	// Required exactly once.
	Required Use = iota
	// Optional: once or not at all.
	Optional
	// Multiple: once or more.
	Multiple
	// Any number of times, also none.
	Any
)

// An Example is a call and what redis-cli prints for it.
type Example struct{ Call, Reply string }

// An Env is what commands work with. Make one with [NewEnv] for a server.
type Env struct {
	// Client reaches the same server and database as rewrites do.
	Client *redoubt.Client

	// For commands that wait.
	locks      *lock.RWMutex
	fair       *lock.Mutex
	semaphores *lock.Semaphore
	wakers     queueWakers
	takers     takers
	// Of limits that are kept on the server.
	stored *ratelimitwire.Limiter
	quotas quotas
	// Of all limits.
	decisions *decisions
	// Of hashes whose fields expire.
	hashes *ttlhashwire.Servers
	counts counts
	// Of positions.
	indexes geoIndexes
	// Of filters with many items a command.
	chains *bloomwire.Chains
	// filters count the calls of BF commands by key: 0 adds items, 1 looks.
	filters *tally
}

// A Plan says how to run one command. One of Err, Cmd and Wait is set.
type Plan struct {
	// Err is the error to answer at once, with its code, like "ERR syntax
	// error".
	Err string
	// Cmd runs a script in the command's place, and Translate appends the
	// reply to the command.
	Cmd       *redoubt.Cmd
	Translate Translate
	// Undo, if not nil, takes back what Cmd did, given its reply. It is called
	// when the client has gone before that came, and may wait until ctx ends.
	Undo func(ctx context.Context, r redoubt.Reply)
	// Wait holds the client until it returns. Its ctx ends when the client
	// goes away or the server shuts down.
	Wait func(ctx context.Context) Outcome
	// Instead is the rewrite that takes the place of Wait inside a
	// transaction, where nothing waits.
	Instead func() Plan
	// Whole says that Wait is made of steps that the rewrite does in one, or refuses
	// when they are too many. It takes the place of Wait in another database too.
	Whole bool
}

// Translate appends to dst the reply to a command, given the one of its
// script.
type Translate func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte

// An Outcome is what a Wait ended with.
type Outcome struct {
	// Append appends the reply.
	Append func(dst []byte, p resp.Protocol) []byte
	// Undo, if not nil, takes back what was done. It is called when the
	// client turns out to have gone before it got the reply, with or without
	// a call of Append before.
	Undo func()
}

// All returns the commands in the order of the documentation.
func All() []*Command { return slices.Clone(table) }

// Lookup returns the command with this name in any case, or nil.
func Lookup(name string) *Command {
	for _, c := range table {
		if strings.EqualFold(c.Name, name) {
			return c
		}
	}
	return nil
}

var table = explained(slices.Concat(throttleCommands, limitCommands, lockCommands, lockAdminCommands, semaphoreCommands, semaphoreAdminCommands, fenceCommands, queueCommands, queueAdminCommands, queueScheduleCommands, stockCommands, bloomCommands, hashCommands, geoCommands))

// CheckArity returns the error for a wrong number of arguments, or "".
func (c *Command) CheckArity(n int) string {
	if n == c.Arity || c.Arity < 0 && n >= -c.Arity {
		return ""
	}
	return "ERR wrong number of arguments for '" + strings.ToLower(c.Name) + "' command"
}

// Scripts returns every script that commands may run, for connections that
// load them ahead of use.
func Scripts() []*redoubt.Script {
	var all []*redoubt.Script
	for _, g := range scripts {
		all = append(all, g.of...)
	}
	return all
}

// scripts are the scripts that commands run, by the group of the command.
var scripts = []struct {
	group string
	of    []*redoubt.Script
}{
	{"ratelimit", throttleScripts()}, {"lock", lockScripts()}, {"fence", fenceScripts()}, {"queue", queuewire.Scripts()},
	{"stock", stockScripts()}, {"bloom", bloomScripts()}, {"ttlhash", hashScripts()}, {"geo", geoScripts()},
}

// A ScriptInfo describes a script of Redoubt that commands run, or the library in their place.
type ScriptInfo struct {
	// Name is that of the script, like lock.acquire, and Group that of the commands.
	Name, Group string
}

var scriptInfos = sync.OnceValue(func() map[string]ScriptInfo {
	m := make(map[string]ScriptInfo)
	for _, g := range scripts {
		for _, s := range g.of {
			m[s.Digest()] = ScriptInfo{s.Name(), g.group}
		}
	}
	return m
})

// LookupScript returns the script of Redoubt that has a digest, in hexadecimal digits of any case.
func LookupScript(digest []byte) (s ScriptInfo, ok bool) {
	s, ok = scriptInfos()[string(bytes.ToLower(digest))]
	return s, ok
}

// LookupScriptSource is LookupScript by the text of the script. It also knows the scripts that a
// fence.Guard makes from its callers' scripts.
func LookupScriptSource(source []byte) (s ScriptInfo, ok bool) {
	if fencewire.Guards(source) {
		return ScriptInfo{"a fence.Guard", "fence"}, true
	}
	sum := sha1.Sum(source) //nolint:gosec // SHA-1 is how Redis names scripts; nothing is secured by it.
	return LookupScript(hex.AppendEncode(nil, sum[:]))
}

// Keys returns the positions of the keys in args, its name first.
func (c *Command) Keys(n int) []int {
	var at []int
	if c.FirstKey == 0 {
		return nil
	}
	last := c.LastKey
	if last < 0 {
		last += n
	}
	for i := c.FirstKey; i <= last && i < n; i += c.KeyStep {
		at = append(at, i)
	}
	return at
}
