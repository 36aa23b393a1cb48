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
	u := &User{name: name, rules: rules, root: newSelector()}
	var errs []error
	if name == "" || strings.ContainsAny(name, " \t\r\n\x00") {
		errs = append(errs, errors.New("a user's name is empty or has blanks"))
	}
	words := strings.Fields(rules)
	for i := 0; i < len(words); i++ {
		n, fault := i+1, ""
		if rule := words[i]; rule[0] == '(' {
			for !strings.HasSuffix(words[i], ")") && i+1 < len(words) {
				i++
				rule += " " + words[i]
			}
			fault = u.selector(rule)
		} else {
			fault = u.follow(rule)
		}
		if fault != "" {
			errs = append(errs, fmt.Errorf("rule %d %s", n, fault))
		}
	}
	return u, errors.Join(errs...)
}

func newSelector() selector { return selector{allowed: make([]uint64, count/64+1)} }

// selector adds a selector. rule has its rules in parentheses.
func (u *User) selector(rule string) (fault string) {
	inner, closed := strings.CutSuffix(rule[1:], ")")
	if !closed {
		return "begins a selector that has no end; want rules in parentheses, like (%R~pattern +get)"
	}
	s := newSelector()
	for i, rule := range strings.Fields(inner) {
		if fault := s.follow(rule); fault != "" {
			return fmt.Sprintf("is a selector whose rule %d %s", i+1, fault)
		}
	}
	u.selectors = append(u.selectors, &s)
	return ""
}

const allRules = "on, off, >password, <password, #sha256, !sha256, nopass, resetpass, reset, " +
	"+command, -command, +command|subcommand, -command|subcommand, +@category, -@category, allcommands, nocommands, " +
	"~pattern, %R~pattern, %W~pattern, %RW~pattern, allkeys, resetkeys, &pattern, allchannels, resetchannels, (rules), clearselectors"

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
	case "clearselectors":
		u.selectors = nil
	case "reset":
		*u = User{name: u.name, rules: u.rules, root: newSelector()}
	case "sanitize-payload", "skip-sanitize-payload":
		// Only a server knows what RESTORE takes.
	default:
		return u.followSigil(rule)
	}
	return ""
}

// followSigil is for rules about passwords, and about the rights outside of selectors.
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
	}
	return u.root.follow(rule)
}

// follow changes s as one rule says, or says what is wrong with it.
func (s *selector) follow(rule string) (fault string) {
	switch strings.ToLower(rule) {
	case "allcommands", "+@all":
		s.every(true)
	case "nocommands", "-@all":
		s.every(false)
	case "allkeys", "~*":
		s.anyKey, s.keys = true, nil
	case "resetkeys":
		s.anyKey, s.keys = false, nil
	case "allchannels", "&*":
		s.anyChannel, s.channels = true, nil
	case "resetchannels":
		s.anyChannel, s.channels = false, nil
	default:
		return s.followSigil(rule)
	}
	return ""
}

// followSigil is for rules that begin with a character which says what they are.
func (s *selector) followSigil(rule string) (fault string) {
	switch sigil, rest := rule[0], rule[1:]; sigil {
	case '+', '-':
		return s.command(rule, rest, sigil == '+')
	case '~':
		return s.key(rule, rediscmd.Reads|rediscmd.Writes, rest)
	case '%':
		flags, pattern, ok := strings.Cut(rest, "~")
		a, known := keyFlags[strings.ToUpper(flags)]
		if !ok || !known {
			return fmt.Sprintf("is %q; want %%R~pattern, %%W~pattern or %%RW~pattern", rule)
		}
		return s.key(rule, a, pattern)
	case '&':
		if s.anyChannel {
			return fmt.Sprintf("is %q, and all channels are allowed before it; put resetchannels between", rule)
		}
		if same := func(c []byte) bool { return string(c) == rest }; !slices.ContainsFunc(s.channels, same) {
			s.channels = append(s.channels, []byte(rest))
		}
		return ""
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

func (s *selector) key(rule string, a rediscmd.Access, pattern string) (fault string) {
	if s.anyKey {
		return fmt.Sprintf("is %q, and all keys are allowed before it; put resetkeys between", rule)
	}
	same := func(k keyPattern) bool { return string(k.pattern) == pattern }
	if at := slices.IndexFunc(s.keys, same); at >= 0 {
		s.keys[at].access |= a
		return ""
	}
	s.keys = append(s.keys, keyPattern{a, []byte(pattern)})
	return ""
}

// every allows or forbids every command.
func (s *selector) every(yes bool) { //nolint:revive // the parameter is the state
	s.anyCommand = yes
	if s.change("-@all"); yes {
		s.change("+@all")
	}
	s.firsts = nil
	for i := range s.allowed {
		s.allowed[i] = 0
		if yes {
			s.allowed[i] = ^uint64(0)
		}
	}
}

// command allows or forbids a command, with its subcommands, or a category.
func (s *selector) command(rule, name string, yes bool) (fault string) { //nolint:revive // the parameter is the state
	if category, ok := strings.CutPrefix(strings.ToLower(name), "@"); ok {
		if !slices.Contains(categories, category) {
			return fmt.Sprintf("is %q, and there is no such category; want one of all, %s", rule, strings.Join(categories, ", "))
		}
		s.change(rule)
		for _, c := range commands {
			if slices.Contains(c.categories, category) {
				s.set(c, yes)
			}
		}
		for _, c := range commands { // after the others: a command brings its subcommands
			for _, sub := range c.subs {
				if slices.Contains(sub.categories, category) {
					s.set(sub, yes)
				}
			}
		}
		return ""
	}
	c := Lookup(name)
	if c == nil {
		top, first, isSub := strings.Cut(name, "|")
		if parent := Lookup(top); isSub && parent != nil && parent.subs == nil {
			return s.first(rule, parent, first, yes)
		}
		return fmt.Sprintf("is %q, and there is no such command", rule)
	}
	s.change(rule)
	s.set(c, yes)
	return ""
}

// first allows a command that has no subcommands, like select, with a first argument.
func (s *selector) first(rule string, c *Command, argument string, yes bool) (fault string) { //nolint:revive // the parameter is the state
	switch {
	case !yes:
		return fmt.Sprintf("is %q, and %s has no subcommands; a first argument can only be allowed", rule, c.name)
	case argument == "" || strings.Contains(argument, "|"):
		return fmt.Sprintf("is %q; want +command|argument", rule)
	}
	s.change(rule)
	if s.firsts == nil {
		s.firsts = make(map[int][]string)
	}
	s.firsts[c.id] = append(s.firsts[c.id], argument)
	return ""
}

func (s *selector) set(c *Command, yes bool) { //nolint:revive // the parameter is the state
	if yes {
		s.allowed[c.id/64] |= 1 << (c.id % 64)
	} else {
		s.allowed[c.id/64] &^= 1 << (c.id % 64)
		s.anyCommand = false
	}
	delete(s.firsts, c.id)
	for _, sub := range c.subs {
		s.set(sub, yes)
	}
}
