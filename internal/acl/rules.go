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
	u := &User{name: name, root: newSelector()}
	var errs []error
	if !ValidName(name) {
		errs = append(errs, errors.New("a user's name is empty or has blanks"))
	}
	words := strings.FieldsFunc(rules, isBlank)
	for i := 0; i < len(words); {
		rule, n := merge(words[i:])
		if f := u.follow(rule); f != nil {
			errs = append(errs, fmt.Errorf("rule %d %s", i+1, f.text))
		}
		i += n
	}
	u.almighty = u.mayAll()
	return u, errors.Join(errs...)
}

// ValidName reports whether a user may have this name.
func ValidName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r == 0 || isBlank(r) })
}

// isBlank is for what separates rules. Other blanks of Unicode may be part of them, as in Redis.
func isBlank(r rune) bool { return r == ' ' || '\t' <= r && r <= '\r' }

// With returns u with more rules, or the error of ACL SETUSER in Redis 7.0. One rule is one argument, so a password
// may have blanks here. The error may show a password.
func (u *User) With(rules []string) (*User, error) {
	more := *u
	more.passwords = slices.Clone(u.passwords)
	more.selectors = slices.Clone(u.selectors)
	more.root = u.root.clone()
	for i := 0; i < len(rules); {
		rule, n := merge(rules[i:])
		if rule != "" && rule[0] == '(' && !strings.HasSuffix(rule, ")") {
			return nil, fmt.Errorf("ERR Unmatched parenthesis in acl selector starting at '%s'.", rules[i]) //nolint:staticcheck // as Redis
		}
		if f := more.follow(rule); f != nil {
			return nil, fmt.Errorf("ERR Error in ACL SETUSER modifier '%s': %s", rule, f.kind)
		}
		i += n
	}
	more.almighty = more.mayAll()
	return &more, nil
}

// merge returns the first rule and of how many words it is: a selector may have several.
func merge(words []string) (rule string, n int) {
	rule, n = words[0], 1
	if strings.HasPrefix(rule, "(") {
		for !strings.HasSuffix(rule, ")") && n < len(words) {
			rule += " " + words[n]
			n++
		}
	}
	return rule, n
}

// A fault is why a rule is refused.
type fault struct {
	kind string // what Redis says
	text string // what New says, after "rule 1"
}

// The words of Redis 7.0 for faults.
const (
	unknownName   = "Unknown command or category name in ACL"
	syntaxError   = "Syntax error"
	afterAllKeys  = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
	afterChannels = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
	noPassword    = "The password you are trying to remove from the user does not exist" //nolint:gosec // it is none
	badHash       = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
	ofSubcommand  = "Allowing first-arg of a subcommand is not supported"
)

func wrong(kind, format string, args ...any) *fault {
	return &fault{kind, fmt.Sprintf(format, args...)}
}

func newSelector() selector { return selector{allowed: make([]uint64, count/64+1)} }

func (s *selector) clone() selector {
	c := *s
	c.allowed, c.changes = slices.Clone(s.allowed), slices.Clone(s.changes)
	c.keys, c.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	c.firsts = make(map[int][]string, len(s.firsts))
	for id, all := range s.firsts {
		c.firsts[id] = slices.Clone(all)
	}
	return c
}

// selector adds a selector. rule has its rules in parentheses.
func (u *User) selector(rule string) *fault {
	inner, closed := strings.CutSuffix(rule[1:], ")")
	if !closed {
		return wrong(syntaxError, "begins a selector that has no end; want rules in parentheses, like (%%R~pattern +get)")
	}
	s := newSelector()
	for i, rule := range strings.FieldsFunc(inner, isBlank) {
		if f := s.follow(rule); f != nil {
			return wrong(f.kind, "is a selector whose rule %d %s", i+1, f.text)
		}
	}
	u.selectors = append(u.selectors, &s)
	return nil
}

const allRules = "on, off, >password, <password, #sha256, !sha256, nopass, resetpass, reset, " +
	"+command, -command, +command|subcommand, -command|subcommand, +@category, -@category, allcommands, nocommands, " +
	"~pattern, %R~pattern, %W~pattern, %RW~pattern, allkeys, resetkeys, &pattern, allchannels, resetchannels, (rules), clearselectors"

// follow changes u as one rule says, or says what is wrong with it.
func (u *User) follow(rule string) *fault {
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
		*u = User{name: u.name, sanitize: "sanitize-payload", root: newSelector()}
	case "sanitize-payload", "skip-sanitize-payload":
		u.sanitize = strings.ToLower(rule)
	default:
		return u.followSigil(rule)
	}
	return nil
}

// followSigil is for rules about passwords, and about the rights outside of selectors.
func (u *User) followSigil(rule string) *fault {
	if rule == "" { // as in Redis
		return nil
	}
	switch sigil, rest := rule[0], rule[1:]; sigil {
	case '(':
		return u.selector(rule)
	case '>', '<':
		return u.password(sha256.Sum256([]byte(rest)), sigil == '>')
	case '#', '!':
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(rest)); err != nil || n != len(sum) || strings.ToLower(rest) != rest {
			return wrong(badHash, "has an invalid hash of a password; want 64 hexadecimal digits in lower case")
		}
		return u.password(sum, sigil == '#')
	}
	return u.root.follow(rule)
}

// follow changes s as one rule says, or says what is wrong with it.
func (s *selector) follow(rule string) *fault {
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
	return nil
}

// followSigil is for rules that begin with a character which says what they are.
func (s *selector) followSigil(rule string) *fault {
	switch sigil, rest := rule[0], rule[1:]; sigil {
	case '+', '-':
		return s.command(rule, rest, sigil == '+')
	case '~':
		return s.key(rule, rediscmd.Reads|rediscmd.Writes, rest)
	case '%':
		flags, pattern, ok := strings.Cut(rest, "~")
		a, known := keyFlags[strings.ToUpper(flags)]
		if !ok || !known {
			return wrong(syntaxError, "is %q; want %%R~pattern, %%W~pattern or %%RW~pattern", rule)
		}
		return s.key(rule, a, pattern)
	case '&':
		if s.anyChannel {
			return wrong(afterChannels, "is %q, and all channels are allowed before it; put resetchannels between", rule)
		}
		if blank(rest) {
			return wrong(syntaxError, "is %q; a pattern has no blanks", rule)
		}
		if same := func(c []byte) bool { return string(c) == rest }; !slices.ContainsFunc(s.channels, same) {
			s.channels = append(s.channels, []byte(rest))
		}
		return nil
	}
	return wrong(syntaxError, "is unknown; want one of %s", allRules)
}

func blank(pattern string) bool { return pattern != "" && !ValidName(pattern) }

var keyFlags = map[string]rediscmd.Access{
	"R": rediscmd.Reads, "W": rediscmd.Writes, "RW": rediscmd.Reads | rediscmd.Writes, "WR": rediscmd.Reads | rediscmd.Writes,
}

func (u *User) password(sum [sha256.Size]byte, add bool) *fault { //nolint:revive // or remove it
	at := slices.Index(u.passwords, sum)
	switch {
	case add:
		u.nopass = false
		if at < 0 {
			u.passwords = append(u.passwords, sum)
		}
	case at < 0:
		return wrong(noPassword, "removes a password that the user doesn't have")
	default:
		u.passwords = slices.Delete(u.passwords, at, at+1)
	}
	return nil
}

func (s *selector) key(rule string, a rediscmd.Access, pattern string) *fault {
	if s.anyKey {
		return wrong(afterAllKeys, "is %q, and all keys are allowed before it; put resetkeys between", rule)
	}
	if blank(pattern) {
		return wrong(syntaxError, "is %q; a pattern has no blanks", rule)
	}
	same := func(k keyPattern) bool { return string(k.pattern) == pattern }
	if at := slices.IndexFunc(s.keys, same); at >= 0 {
		s.keys[at].access |= a
		return nil
	}
	s.keys = append(s.keys, keyPattern{a, []byte(pattern)})
	return nil
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
func (s *selector) command(rule, name string, yes bool) *fault { //nolint:revive // the parameter is the state
	if category, ok := strings.CutPrefix(strings.ToLower(name), "@"); ok {
		if !slices.Contains(categories, category) {
			return wrong(unknownName, "is %q, and there is no such category; want one of all, %s", rule, strings.Join(categories, ", "))
		}
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
		s.change(rule)
		return nil
	}
	c := Lookup(name)
	if c == nil {
		top, first, isSub := strings.Cut(name, "|")
		parent := Lookup(top)
		if at := strings.LastIndexByte(name, '|'); yes && isSub && strings.Contains(name[:at], "|") && Lookup(name[:at]) != nil {
			return wrong(ofSubcommand, "is %q, and a first argument of a subcommand can't be allowed", rule)
		}
		if isSub && parent != nil && parent.subs == nil {
			return s.first(rule, parent, first, yes)
		}
		return wrong(unknownName, "is %q, and there is no such command", rule)
	}
	s.set(c, yes)
	s.change(rule)
	return nil
}

// first allows a command that has no subcommands, like select, with a first argument.
func (s *selector) first(rule string, c *Command, argument string, yes bool) *fault { //nolint:revive // the parameter is the state
	switch {
	case !yes:
		return wrong(unknownName, "is %q, and %s has no subcommands; a first argument can only be allowed", rule, c.name)
	case strings.Contains(argument, "|"):
		return wrong(unknownName, "is %q; want +command|argument", rule)
	case argument == "", blank(argument):
		return wrong(syntaxError, "is %q; want +command|argument", rule)
	}
	if s.allowed[c.id/64]&(1<<(c.id%64)) != 0 || slices.Contains(s.firsts[c.id], argument) {
		return nil // it is allowed already
	}
	if s.firsts == nil {
		s.firsts = make(map[int][]string)
	}
	s.firsts[c.id] = append(s.firsts[c.id], argument)
	s.note(strings.ToLower(rule))
	return nil
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
