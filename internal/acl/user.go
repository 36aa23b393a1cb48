// Package acl decides what a user may do, by the rules of Redis' ACL.
//
//	user, err := acl.New("app", "on >secret ~orders:* +@read")
//	…
//	refusal := user.Refuses(command, args, keys)
//
// A [User] has rules as for ACL SETUSER. Refusals are Redis' own errors. Selectors and first
// arguments, like +select|0, are not supported.
package acl

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A User has a name, passwords and rights. It is immutable, so many goroutines may use it at once.
// Make one with [New] or [Almighty].
type User struct {
	name      string
	rules     string
	on        bool
	nopass    bool
	passwords [][sha256.Size]byte

	anyCommand, anyKey, anyChannel bool
	allowed                        []uint64 // a bit for each command, by its id
	changes                        []string // the rules that made allowed, without the rules that no longer count
	keys                           []keyPattern
	channels                       [][]byte
}

// A keyPattern allows something with the keys that it matches.
type keyPattern struct {
	access  rediscmd.Access
	pattern []byte
}

// Name returns the user's name.
func (u *User) Name() string { return u.name }

// Same reports whether two users have the same name and rules. Either may be nil.
func (u *User) Same(o *User) bool {
	return u == o || u != nil && o != nil && u.name == o.name && u.rules == o.rules
}

// MayAll reports whether there is nothing that the user may not do.
func (u *User) MayAll() bool { return u.anyCommand && u.anyKey && u.anyChannel }

// EscapesByScripts reports whether the user may run scripts, which may do more than the user.
func (u *User) EscapesByScripts() bool {
	if u.MayAll() {
		return false
	}
	for _, c := range commands {
		if c.redis != nil && c.redis.RunsScript() && (u.anyCommand || u.may(c)) {
			return true
		}
	}
	return false
}

// Open reports whether the user needs no password, and is not off.
func (u *User) Open() bool { return u.on && u.nopass }

// Admits reports whether the user may log in with password. The time that it takes doesn't
// depend on where that differs from the right one.
func (u *User) Admits(password []byte) bool {
	sum, same := sha256.Sum256(password), 0
	for i := range u.passwords {
		same |= subtle.ConstantTimeCompare(sum[:], u.passwords[i][:])
	}
	return u.on && (u.nopass || same == 1)
}

// AnyKey reports whether the user may use all keys.
func (u *User) AnyKey() bool { return u.anyKey }

// InScript turns an error of [User.Refuses] into the error that Redis 7.0 has for the same command in a script.
func InScript(refusal string) string {
	switch {
	case refusal == noKey:
		return "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
	case refusal == noChannel:
		return "ERR The user executing the script can't publish to the channel mentioned in the command"
	case strings.HasPrefix(refusal, noCommand):
		return "ERR The user executing the script can't run this command or subcommand"
	}
	return refusal
}

// The errors of Redis 7.0.
const (
	noCommand = "NOPERM this user has no permissions to run the '"
	noKey     = "NOPERM this user has no permissions to access one of the keys used as arguments"
	noChannel = "NOPERM this user has no permissions to access one of the channels used as arguments"
)

// Refuses returns the error of Redis if the user may not run a command, or "". c is what
// [Command.Of] says of args, whose number is right, and keys are the positions of the keys
// in them, the first one first. It allocates only for an error.
func (u *User) Refuses(c *Command, args [][]byte, keys []int) string {
	switch channels := c.channels(); {
	case !u.anyCommand && !u.may(c):
		return noCommand + c.name + "' command"
	case channels.First > 0:
		if !u.anyChannel && !u.mayHear(channels, args) {
			return noChannel
		}
	case !u.anyKey && len(keys) > 0:
		if !u.mayTouch(c, args, keys) {
			return noKey
		}
		if strings.HasPrefix(c.name, "sort") && !u.readsAll() {
			return patternsOfSort(args)
		}
	}
	return ""
}

func (u *User) may(c *Command) bool {
	return u.allowed[c.id/64]&(1<<(c.id%64)) != 0 || c.redis != nil && c.redis.Has(rediscmd.NoAuth)
}

func (u *User) mayTouch(c *Command, args [][]byte, keys []int) bool {
	want, others := c.keyAccess(args)
	for _, at := range keys {
		if !u.matches(args[at], want) {
			return false
		}
		want = others
	}
	return true
}

func (u *User) matches(key []byte, want rediscmd.Access) bool {
	for i := range u.keys {
		if p := &u.keys[i]; p.access&want == want && glob.Match(p.pattern, key) {
			return true
		}
	}
	return false
}

// readsAll reports whether the user may read all keys.
func (u *User) readsAll() bool {
	for i := range u.keys {
		if p := &u.keys[i]; p.access&rediscmd.Reads != 0 && string(p.pattern) == "*" {
			return true
		}
	}
	return false
}

// patternsOfSort refuses SORT to read other keys, whose names depend on what is sorted.
func patternsOfSort(args [][]byte) string {
	for i := 2; i < len(args); i++ {
		switch a := args[i]; {
		case is(a, "LIMIT"):
			i += 2
		case is(a, "STORE"):
			i++
		case is(a, "GET"):
			return "ERR GET option of SORT denied due to insufficient ACL permissions."
		case is(a, "BY") && i+1 < len(args):
			if i++; bytes.IndexByte(args[i], '*') >= 0 {
				return "ERR BY option of SORT denied due to insufficient ACL permissions."
			}
		}
	}
	return ""
}

func is(word []byte, keyword string) bool { return bytes.EqualFold(word, []byte(keyword)) }

// mayHear reports whether the user may name all channels among args.
func (u *User) mayHear(channels rediscmd.Channels, args [][]byte) bool {
	for _, name := range channels.Of(args) {
		if !u.hears(name, channels.Patterns) {
			return false
		}
	}
	return true
}

func (u *User) hears(name []byte, literal bool) bool { //nolint:revive // a pattern is allowed when it is there as it is
	for _, p := range u.channels {
		if literal && bytes.Equal(p, name) || !literal && glob.Match(p, name) {
			return true
		}
	}
	return false
}
