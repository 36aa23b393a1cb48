package rediscmd

import (
	"slices"
	"strings"
)

// Flags are the flags of COMMAND.
type Flags uint32

// In the order of COMMAND.
const (
	Write Flags = 1 << iota
	Readonly
	DenyOOM
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	NoMandatoryKeys
	NoAsyncLoading
	NoMulti
	MovableKeys
	AllowBusy
)

var flagNames = []string{
	"write", "readonly", "denyoom", "admin", "pubsub", "noscript", "blocking", "loading", "stale", "skip_monitor", "skip_slowlog",
	"asking", "fast", "no_auth", "no_mandatory_keys", "no_async_loading", "no_multi", "movablekeys", "allow_busy",
}

// Names returns the flags as COMMAND tells them.
func (f Flags) Names() []string { return names(uint32(f), flagNames) }

// Categories are sets of commands that ACL rules name.
type Categories uint32

var categoryNames = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream",
	"pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
}

// Names returns the categories as COMMAND tells them, without the @.
func (c Categories) Names() []string { return names(uint32(c), categoryNames) }

// implied are the categories that follow from a command's flags and its other categories.
func implied(f Flags, groups Categories) (c Categories) {
	for _, i := range []struct {
		flag       Flags
		categories string
	}{{Write, "write"}, {Readonly, "read"}, {Admin, "admin,dangerous"}, {PubSub, "pubsub"}, {Fast, "fast"}, {Blocking, "blocking"}} {
		if f&i.flag != 0 {
			c |= category(i.categories)
		}
	}
	if f&Fast == 0 {
		c |= category("slow")
	}
	if groups&category("scripting") != 0 { // a script that only reads is in no category for that
		c &^= category("read")
	}
	return c
}

// category returns the categories with names, which are separated by commas.
func category(list string) Categories { return Categories(set(list, categoryNames)) }

// set returns the bits of names, which are separated by commas. It panics if one is unknown.
func set(list string, all []string) (bits uint32) {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(all, name)
		if i < 0 {
			panic(name + " is unknown; want some of " + strings.Join(all, ","))
		}
		bits |= 1 << i
	}
	return bits
}

// names returns the names of bits.
func names(bits uint32, all []string) (found []string) {
	for i, name := range all {
		if bits&(1<<i) != 0 {
			found = append(found, name)
		}
	}
	return found
}
