package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// Almighty returns a user with a password who may do all.
func Almighty(name, password string) *User { return must(New(name, AlmightyRules(password))) }

// AlmightyRules returns the rules of a user with a password, which may have blanks, who may
// do all.
func AlmightyRules(password string) string {
	sum := sha256.Sum256([]byte(password))
	return "on #" + hex.EncodeToString(sum[:]) + " ~* &* +@all"
}

// Anybody returns a user without a password who may do all.
func Anybody(name string) *User { return must(New(name, "on nopass ~* &* +@all")) }

// Nobody returns a user that admits no password. The check takes as long as for other users.
func Nobody() *User { return must(New("nobody", "off >x")) }

func must(u *User, err error) *User {
	if err != nil {
		panic("acl: " + err.Error())
	}
	return u
}

// New returns a user with a name and with rules, which blanks separate. It applies the rules in order, as
// ACL SETUSER does. Without rules the user is off and has no rights. New joins the errors of all wrong
// rules. An error never shows a rule that may be a password.
func New(name, rules string) (*User, error) {
	u := &User{name: name, rules: rules, allowed: make([]uint64, count/64+1)}
	var errs []error
	if name == "" || strings.ContainsAny(name, " \t\r\n\x00") {
		errs = append(errs, errors.New("a user's name is empty or has blanks"))
	}
	for i, rule := range strings.Fields(rules) {
		if fault := u.follow(rule); fault != "" {
			errs = append(errs, fmt.Errorf("rule %d %s", i+1, fault))
		}
	}
	return u, errors.Join(errs...)
}

const allRules = "on, off, >password, <password, #sha256, !sha256, nopass, resetpass, reset, " +
	"+command, -command, +command|subcommand, -command|subcommand, +@category, -@category, allcommands, nocommands, " +
	"~pattern, %R~pattern, %W~pattern, %RW~pattern, allkeys, resetkeys, &pattern, allchannels, resetchannels"

// follow changes u as one rule says, or says what is wrong with it.
func (u *User) follow(rule string) (fault string) {
	switch strings.ToLower(rule) {
	case "on":
		u.on = true
	case "off":
		u.on = false
	case "nopass":
		u.nopass, u.passwords = true, nil
	case "resetpass":
		u.nopass, u.passwords = false, nil
	case "allcommands", "+@all":
		u.all(true)
	case "nocommands", "-@all":
		u.all(false)
	case "allkeys", "~*":
		u.anyKey, u.keys = true, nil
	case "resetkeys":
		u.anyKey, u.keys = false, nil
	case "allchannels", "&*":
		u.anyChannel, u.channels = true, nil
	case "resetchannels":
		u.anyChannel, u.channels = false, nil
	case "reset":
		*u = User{name: u.name, rules: u.rules, allowed: make([]uint64, len(u.allowed))}
	case "sanitize-payload", "skip-sanitize-payload", "clearselectors":
		// Only a server knows what RESTORE takes. There are no selectors.
	default:
		return u.followSigil(rule)
	}
	return ""
}

// followSigil is for rules that begin with a character which says what they are.
func (u *User) followSigil(rule string) (fault string) {
	switch sigil, rest := rule[0], rule[1:]; sigil {
	case '>', '<':
		return u.password(sha256.Sum256([]byte(rest)), sigil == '>')
	case '#', '!':
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(rest)); err != nil || n != len(sum) || strings.ToLower(rest) != rest {
			return "has an invalid hash of a password; want 64 hexadecimal digits in lower case"
		}
		return u.password(sum, sigil == '#')
	case '+', '-':
		return u.command(rule, rest, sigil == '+')
	case '~':
		return u.key(rule, rediscmd.Reads|rediscmd.Writes, rest)
	case '%':
		flags, pattern, ok := strings.Cut(rest, "~")
		a, known := keyFlags[strings.ToUpper(flags)]
		if !ok || !known {
			return fmt.Sprintf("is %q; want %%R~pattern, %%W~pattern or %%RW~pattern", rule)
		}
		return u.key(rule, a, pattern)
	case '&':
		if u.anyChannel {
			return fmt.Sprintf("is %q, and all channels are allowed before it; put resetchannels between", rule)
		}
		u.channels = append(u.channels, []byte(rest))
		return ""
	case '(':
		return "is a selector; they are not supported: want one list of rules for each user"
	}
	return "is unknown; want one of " + allRules
}

var keyFlags = map[string]rediscmd.Access{
	"R": rediscmd.Reads, "W": rediscmd.Writes, "RW": rediscmd.Reads | rediscmd.Writes, "WR": rediscmd.Reads | rediscmd.Writes,
}

func (u *User) password(sum [sha256.Size]byte, add bool) (fault string) { //nolint:revive // or remove it
	at := slices.Index(u.passwords, sum)
	switch {
	case add:
		u.nopass = false
		if at < 0 {
			u.passwords = append(u.passwords, sum)
		}
	case at < 0:
		return "removes a password that the user doesn't have"
	default:
		u.passwords = slices.Delete(u.passwords, at, at+1)
	}
	return ""
}

func (u *User) key(rule string, a rediscmd.Access, pattern string) (fault string) {
	if u.anyKey {
		return fmt.Sprintf("is %q, and all keys are allowed before it; put resetkeys between", rule)
	}
	same := func(k keyPattern) bool { return string(k.pattern) == pattern }
	if at := slices.IndexFunc(u.keys, same); at >= 0 {
		u.keys[at].access |= a
		return ""
	}
	u.keys = append(u.keys, keyPattern{a, []byte(pattern)})
	return ""
}

// all allows or forbids every command.
func (u *User) all(yes bool) { //nolint:revive // the parameter is the state
	u.anyCommand = yes
	if u.change("-@all"); yes {
		u.change("+@all")
	}
	for i := range u.allowed {
		u.allowed[i] = 0
		if yes {
			u.allowed[i] = ^uint64(0)
		}
	}
}

// command allows or forbids a command, with its subcommands, or a category.
func (u *User) command(rule, name string, yes bool) (fault string) { //nolint:revive // the parameter is the state
	if category, ok := strings.CutPrefix(strings.ToLower(name), "@"); ok {
		if !slices.Contains(categories, category) {
			return fmt.Sprintf("is %q, and there is no such category; want one of all, %s", rule, strings.Join(categories, ", "))
		}
		u.change(rule)
		for _, c := range commands {
			if slices.Contains(c.categories, category) {
				u.set(c, yes)
			}
		}
		for _, c := range commands { // after the others: a command brings its subcommands
			for _, s := range c.subs {
				if slices.Contains(s.categories, category) {
					u.set(s, yes)
				}
			}
		}
		return ""
	}
	c := Lookup(name)
	if c == nil {
		top, _, isSub := strings.Cut(name, "|")
		if parent := Lookup(top); isSub && parent != nil && parent.subs == nil {
			return fmt.Sprintf("is %q, and %s has no subcommands; first arguments are not supported", rule, parent.name)
		}
		return fmt.Sprintf("is %q, and there is no such command", rule)
	}
	u.change(rule)
	u.set(c, yes)
	return ""
}

func (u *User) set(c *Command, yes bool) { //nolint:revive // the parameter is the state
	if yes {
		u.allowed[c.id/64] |= 1 << (c.id % 64)
	} else {
		u.allowed[c.id/64] &^= 1 << (c.id % 64)
		u.anyCommand = false
	}
	for _, s := range c.subs {
		u.set(s, yes)
	}
}
