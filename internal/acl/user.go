// Package acl decides what a user may do, by the rules of Redis' ACL.
//
//	user, err := acl.New("app", "on >secret ~orders:* +@read (%R~stock:* +get)")
//	…
//	denial := user.Refuses(command, args, keys)
//
// A [User] has rules as for ACL SETUSER, with selectors. A [Denial] has Redis' own errors.
package acl

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A User has a name, passwords and rights. It is immutable, so many goroutines may use it at once.
// Make one with [New] or [Almighty].
type User struct {
	name      string
	on        bool
	nopass    bool
	sanitize  string // a flag that changes nothing: RESTORE always checks
	almighty  bool   // what mayAll says
	passwords [][sha256.Size]byte

	root      selector
	selectors []*selector // more of them: what is allowed fits one of all these as a whole
}

// A selector is a set of rights.
type selector struct {
	anyCommand, anyKey, anyChannel bool
	allowed                        []uint64         // a bit for each command, by its id
	firsts                         map[int][]string // first arguments of commands that are not in allowed, by id
	replays                        bool             // changes, to compare: nothing is noted
	changes                        []string         // the rules that made these, without the rules that no longer count
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
	return u == o || u != nil && o != nil && u.Line() == o.Line()
}

// MayAll reports whether there is nothing that the user may not do.
func (u *User) MayAll() bool { return u.almighty }

func (u *User) mayAll() bool {
	return u.root.all() || slices.ContainsFunc(u.selectors, (*selector).all)
}

func (s *selector) all() bool { return s.anyCommand && s.anyKey && s.anyChannel }

// EscapesByScripts reports whether the user may run scripts, which may do more than the user.
func (u *User) EscapesByScripts() bool {
	if u.MayAll() {
		return false
	}
	for _, c := range commands {
		runs := func(s *selector) bool { return s.anyCommand || s.may(c, nil) || len(s.firsts[c.id]) > 0 }
		if c.redis != nil && c.redis.RunsScript() && (runs(&u.root) || slices.ContainsFunc(u.selectors, runs)) {
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

// AnyKey reports whether the user may use all keys, whatever the command.
func (u *User) AnyKey() bool {
	limited := func(s *selector) bool { return !s.anyKey }
	return u.root.anyKey && !slices.ContainsFunc(u.selectors, limited)
}

// HearsAllOf reports whether the patterns of channels that o may listen to are all among the patterns of u.
func (u *User) HearsAllOf(o *User) bool {
	mine := u.allSelectors()
	if slices.ContainsFunc(mine, func(s *selector) bool { return s.anyChannel }) {
		return true
	}
	for _, s := range o.allSelectors() {
		if s.anyChannel {
			return false
		}
		for _, pattern := range s.channels {
			same := func(p []byte) bool { return bytes.Equal(p, pattern) }
			if !slices.ContainsFunc(mine, func(s *selector) bool { return slices.ContainsFunc(s.channels, same) }) {
				return false
			}
		}
	}
	return true
}

func (u *User) allSelectors() []*selector { return append([]*selector{&u.root}, u.selectors...) }

// A Denial is why a user may not run a command. The zero value says that the user may.
type Denial struct {
	Reason Reason
	// Object is the command, the key or the channel that is not allowed.
	Object string
	at     int    // of the object among the arguments
	text   string // of SORT
}

// A Reason is what a user has no right to. The larger ones count more.
type Reason uint8

// The reasons, in Redis' order.
const (
	None      Reason = iota
	ByCommand        // to the command
	ByKey            // to a key
	ByLogin          // to log in
	ByChannel        // to a channel
	bySort           // to the other keys that SORT reads
)

// String is what ACL LOG calls the reason.
func (r Reason) String() string { return [...]string{"", "command", "key", "auth", "channel", ""}[r] }

// Loggable reports whether ACL LOG has the denial.
func (d *Denial) Loggable() bool { return d.Reason != None && d.Reason != bySort }

// InTransaction returns the error of EXEC for a command that was let in when it was queued.
func (d *Denial) InTransaction() string {
	reason := "no permission"
	switch d.Reason {
	case ByCommand:
		reason = "no permission to execute the command or subcommand"
	case ByKey:
		reason = "no permission to touch the specified keys"
	case ByChannel:
		reason = "no permission to access one of the channels used as arguments to the command"
	case None, ByLogin, bySort:
	}
	return "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: " + reason
}

// Message returns the error of Redis 7.0, or "" for none.
func (d *Denial) Message() string {
	switch d.Reason {
	case ByCommand:
		return "NOPERM this user has no permissions to run the '" + d.Object + "' command"
	case ByKey:
		return "NOPERM this user has no permissions to access one of the keys used as arguments"
	case ByChannel:
		return "NOPERM this user has no permissions to access one of the channels used as arguments"
	case None, ByLogin, bySort:
	}
	return d.text
}

// InScript returns the error of Redis 7.0 for a command in a script.
func (d *Denial) InScript() string {
	switch d.Reason {
	case ByCommand:
		return "ERR The user executing the script can't run this command or subcommand"
	case ByKey:
		return "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
	case ByChannel:
		return "ERR The user executing the script can't publish to the channel mentioned in the command"
	case None, ByLogin, bySort:
	}
	return d.text
}

// DryRun returns what ACL DRYRUN of Redis 7.0 says.
func (d *Denial) DryRun() string {
	switch d.Reason {
	case ByCommand:
		return "This user has no permissions to run the '" + d.Object + "' command"
	case ByKey:
		return "This user has no permissions to access the '" + d.Object + "' key"
	case ByChannel:
		return "This user has no permissions to access the '" + d.Object + "' channel"
	case None, ByLogin, bySort:
	}
	return d.text
}

// Refuses says whether the user may not run a command, and why. c is what [Command.Of] says of args, whose number
// is right, and keys are the positions of the keys in them, the first one first. It allocates only for a denial.
func (u *User) Refuses(c *Command, args [][]byte, keys []int) Denial {
	d := u.root.refuses(c, args, keys)
	if d.Reason == None {
		return Denial{}
	}
	for _, s := range u.selectors {
		more := s.refuses(c, args, keys)
		if more.Reason == None {
			return Denial{}
		}
		if more.Reason > d.Reason || more.Reason == d.Reason && more.at > d.at { // the one that Redis tells
			d = more
		}
	}
	switch d.Reason {
	case ByCommand:
		d.Object = c.name
	case ByKey, ByChannel:
		d.Object = string(args[d.at])
	case None, ByLogin, bySort:
	}
	return d
}

// refuses is Refuses without the Object.
func (s *selector) refuses(c *Command, args [][]byte, keys []int) Denial {
	if !s.anyCommand && !s.may(c, args) {
		return Denial{Reason: ByCommand}
	}
	channels := c.channels()
	switch {
	case channels.First > 0:
		if !s.anyChannel {
			if at := s.deaf(channels, args); at > 0 {
				return Denial{Reason: ByChannel, at: at}
			}
		}
	case !s.anyKey && len(keys) > 0:
		if at := s.untouchable(c, args, keys); at > 0 {
			return Denial{Reason: ByKey, at: at}
		}
		if strings.HasPrefix(c.name, "sort") && !s.readsAll() {
			if text := patternsOfSort(args); text != "" {
				return Denial{Reason: bySort, text: text}
			}
		}
	}
	return Denial{}
}

// may reports whether the command is allowed, with args if it is only with some.
func (s *selector) may(c *Command, args [][]byte) bool {
	if s.allowed[c.id/64]&(1<<(c.id%64)) != 0 || c.redis != nil && c.redis.Has(rediscmd.NoAuth) {
		return true
	}
	if len(args) > 1 {
		for _, first := range s.firsts[c.id] {
			if strings.EqualFold(first, string(args[1])) {
				return true
			}
		}
	}
	return false
}

// untouchable returns the position of a key that is not allowed, or 0.
func (s *selector) untouchable(c *Command, args [][]byte, keys []int) int {
	want, others := c.keyAccess(args)
	for _, at := range keys {
		if !s.matches(args[at], want) {
			return at
		}
		want = others
	}
	return 0
}

func (s *selector) matches(key []byte, want rediscmd.Access) bool {
	for i := range s.keys {
		if p := &s.keys[i]; p.access&want == want && glob.Match(p.pattern, key) {
			return true
		}
	}
	return false
}

// readsAll reports whether all keys may be read.
func (s *selector) readsAll() bool {
	for i := range s.keys {
		if p := &s.keys[i]; p.access&rediscmd.Reads != 0 && string(p.pattern) == "*" {
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

// deaf returns the position of a channel among args that is not allowed, or 0.
func (s *selector) deaf(channels rediscmd.Channels, args [][]byte) int {
	for i, name := range channels.Of(args) {
		if !s.hears(name, channels.Patterns) {
			return channels.First + i
		}
	}
	return 0
}

func (s *selector) hears(name []byte, literal bool) bool { //nolint:revive // a pattern is allowed when it is there as it is
	for _, p := range s.channels {
		if literal && bytes.Equal(p, name) || !literal && glob.Match(p, name) {
			return true
		}
	}
	return false
}
