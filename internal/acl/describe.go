package acl

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A Description has the fields of ACL GETUSER.
type Description struct {
	Flags     []string
	Passwords []string // SHA-256, in hexadecimal
	Rights
	Selectors []Rights
}

// Rights are rules, which blanks separate.
type Rights struct{ Commands, Keys, Channels string }

// Describe returns what ACL GETUSER says of the user.
func (u *User) Describe() Description {
	d := Description{Flags: []string{"off"}, Rights: u.root.describe()}
	if u.on {
		d.Flags[0] = "on"
	}
	if u.nopass {
		d.Flags = append(d.Flags, "nopass")
	}
	if u.sanitize != "" {
		d.Flags = append(d.Flags, u.sanitize)
	}
	for _, sum := range u.passwords {
		d.Passwords = append(d.Passwords, hex.EncodeToString(sum[:]))
	}
	for _, s := range u.selectors {
		d.Selectors = append(d.Selectors, s.describe())
	}
	return d
}

func (s *selector) describe() Rights {
	r := Rights{Commands: s.commandRules(), Keys: "~*", Channels: "&*"}
	if !s.anyKey {
		var keys []string
		for _, k := range s.keys {
			keys = append(keys, sigils[k.access]+string(k.pattern))
		}
		r.Keys = strings.Join(keys, " ")
	}
	if !s.anyChannel {
		var channels []string
		for _, c := range s.channels {
			channels = append(channels, "&"+string(c))
		}
		r.Channels = strings.Join(channels, " ")
	}
	return r
}

var sigils = map[rediscmd.Access]string{rediscmd.Reads: "%R~", rediscmd.Writes: "%W~", rediscmd.Reads | rediscmd.Writes: "~"}

// Line returns the user as ACL LIST shows it, which is a line of an ACL file too.
func (u *User) Line() string {
	d := u.Describe()
	words := append([]string{"user", u.name}, d.Flags...)
	for _, p := range d.Passwords {
		words = append(words, "#"+p)
	}
	words = append(words, d.line())
	for _, r := range d.Selectors {
		words = append(words, "("+r.line()+")")
	}
	return strings.Join(words, " ")
}

func (r *Rights) line() string {
	var words []string
	if r.Keys != "" {
		words = append(words, r.Keys)
	}
	if r.Channels != "&*" {
		words = append(words, "resetchannels")
	}
	if r.Channels != "" {
		words = append(words, r.Channels)
	}
	return strings.Join(append(words, r.Commands), " ")
}

// commandRules returns the rules that say which commands the user may run.
func (s *selector) commandRules() string {
	if len(s.changes) > 0 && (s.changes[0] == "+@all" || s.changes[0] == "-@all") {
		return strings.Join(s.changes, " ")
	}
	return strings.Join(append([]string{"-@all"}, s.changes...), " ")
}

// change notes a rule about a command or a category, which s follows already, unless it changed nothing. An earlier
// rule about the same, or about a subcommand, no longer counts.
func (s *selector) change(rule string) {
	if s.replays {
		return
	}
	rule = strings.ToLower(rule)
	if rule == "+@all" || rule == "-@all" {
		s.changes = []string{rule}
		return
	}
	s.note(rule)
	kept := s.changes[:len(s.changes)-1]
	without := newSelector()
	without.replays = true
	for _, r := range kept {
		without.follow(r)
	}
	if without.sameCommands(s) {
		s.changes = kept
	}
}

func (s *selector) note(rule string) {
	if !s.replays {
		s.changes = append(slices.DeleteFunc(s.changes, func(r string) bool {
			return r[1:] == rule[1:] || strings.HasPrefix(r[1:], rule[1:]+"|")
		}), rule)
	}
}

func (s *selector) sameCommands(o *selector) bool {
	return s.anyCommand == o.anyCommand && slices.Equal(s.allowed, o.allowed) && maps.EqualFunc(s.firsts, o.firsts, slices.Equal)
}
