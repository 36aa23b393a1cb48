package acl

import (
	"encoding/hex"
	"strings"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A Description has the fields of ACL GETUSER.
type Description struct {
	Flags     []string
	Passwords []string // SHA-256, in hexadecimal
	// Commands, Keys and Channels are rules, separated by blanks.
	Commands, Keys, Channels string
}

// Describe returns what ACL GETUSER says of the user.
func (u *User) Describe() Description {
	d := Description{Flags: []string{"off"}, Commands: u.commandRules(), Keys: "~*", Channels: "&*"}
	if u.on {
		d.Flags[0] = "on"
	}
	if u.nopass {
		d.Flags = append(d.Flags, "nopass")
	}
	d.Flags = append(d.Flags, "sanitize-payload")
	for _, sum := range u.passwords {
		d.Passwords = append(d.Passwords, hex.EncodeToString(sum[:]))
	}
	if !u.anyKey {
		var keys []string
		for _, k := range u.keys {
			keys = append(keys, sigils[k.access]+string(k.pattern))
		}
		d.Keys = strings.Join(keys, " ")
	}
	if !u.anyChannel {
		var channels []string
		for _, c := range u.channels {
			channels = append(channels, "&"+string(c))
		}
		d.Channels = strings.Join(channels, " ")
	}
	return d
}

var sigils = map[rediscmd.Access]string{rediscmd.Reads: "%R~", rediscmd.Writes: "%W~", rediscmd.Reads | rediscmd.Writes: "~"}

// Line returns the user as ACL LIST shows it, which is a line of an ACL file too.
func (u *User) Line() string {
	d := u.Describe()
	words := append([]string{"user", u.name}, d.Flags...)
	for _, p := range d.Passwords {
		words = append(words, "#"+p)
	}
	if d.Keys != "" {
		words = append(words, d.Keys)
	}
	if !u.anyChannel {
		words = append(words, "resetchannels")
	}
	if d.Channels != "" {
		words = append(words, d.Channels)
	}
	return strings.Join(append(words, d.Commands), " ")
}

// commandRules returns the rules that say which commands the user may run.
func (u *User) commandRules() string {
	if len(u.changes) > 0 && (u.changes[0] == "+@all" || u.changes[0] == "-@all") {
		return strings.Join(u.changes, " ")
	}
	return strings.Join(append([]string{"-@all"}, u.changes...), " ")
}

// change notes a rule about a command or a category. It replaces earlier rules about the same command, category
// or a subcommand.
func (u *User) change(rule string) {
	rule = strings.ToLower(rule)
	if rule == "+@all" || rule == "-@all" {
		u.changes = []string{rule}
		return
	}
	var kept []string
	for _, r := range u.changes {
		if r[1:] != rule[1:] && !strings.HasPrefix(r[1:], rule[1:]+"|") {
			kept = append(kept, r)
		}
	}
	u.changes = append(kept, rule)
}
