package rediscmd

import (
	"slices"
	"strings"
)

// KeyFlags are what COMMAND says of keys: what a command does with the values, as a whole and with the user's data in them.
type KeyFlags uint16

// In the order of COMMAND.
const (
	RO            KeyFlags = 1 << iota // the value is read, or its type, or whether it is there
	RW                                 // the value is changed
	OW                                 // the value is overwritten
	RM                                 // the key is deleted
	AccessData                         // data is returned, copied or used
	Update                             // data is changed, maybe by what it was
	Insert                             // data is added
	Delete                             // data is deleted
	NotKey                             // it is a channel with a slot, as a key has
	Incomplete                         // the specification may not find all keys
	VariableFlags                      // the flags depend on the arguments
)

var keyFlagNames = []string{"RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key", "incomplete", "variable_flags"}

// Names returns the flags as COMMAND tells them.
func (f KeyFlags) Names() []string { return names(uint32(f), keyFlagNames) }

// access is what the flags mean for ACL rules.
func (f KeyFlags) access() (a Access) {
	if f&AccessData != 0 {
		a = Reads
	}
	if f&(Update|Insert|Delete) != 0 {
		a |= Writes
	}
	return a
}

// keyFlags reads flags of the table, like RWau.
func keyFlags(text string) (f KeyFlags) {
	whole := slices.Index(keyFlagNames[:4], text[:min(2, len(text))])
	if whole < 0 {
		panic(text + " is unknown; want RO, RW, OW, RM, channel, pattern or slot")
	}
	f = 1 << whole
	for _, letter := range text[2:] {
		i := strings.IndexRune("auidv", letter)
		if i < 0 {
			panic(text + " has an unknown letter; want some of auidv")
		}
		f |= [...]KeyFlags{AccessData, Update, Insert, Delete, VariableFlags}[i]
	}
	return f
}

// A KeySpec is a key specification: where some keys of a command are.
type KeySpec struct {
	Notes string
	Flags KeyFlags
	// Unknown says that the specification doesn't tell where: there is nothing more in it.
	Unknown bool
	// Index is the argument where the search begins. If it is 0, the search begins behind Keyword, which stands at
	// argument From or later, or from the end on if From is negative.
	Index   int
	Keyword string
	From    int
	// Counted says that the keys stand behind their number, at the begin of the search. Otherwise they are from there
	// on to Last, relative to it or from the end on if it is negative, every Step; Limit 2 means that they are the
	// first half of these.
	Counted           bool
	Last, Step, Limit int
}

// specify adds the specifications of keys at a place of the table.
func (c *Command) specify(f KeyFlags, where string) {
	s := KeySpec{Flags: f, Step: 1}
	kind, arg, _ := strings.Cut(where, ":")
	switch {
	case kind == "sort", kind == "by":
		s.Unknown = true
	case kind == "KEYS":
		s.Flags, s.Keyword, s.From, s.Last = f|Incomplete, "KEYS", -2, -1
	case kind == "streams":
		s.Keyword, s.From, s.Last, s.Limit = "STREAMS", number(arg), -1, 2
	case kind == "store":
		s.Keyword, s.From = "STORE", number(arg)
		c.Specs = append(c.Specs, s)
		s.Keyword = "STOREDIST"
	case where[0] == '#':
		s.Index, s.Counted = number(where[1:]), true
	default:
		s.Index, s.Last, s.Step = parseRange(where)
		if s.Last > 0 {
			s.Last -= s.Index
		}
	}
	if notes := keyNotes[c.Name]; len(notes) > len(c.Specs) {
		s.Notes = notes[len(c.Specs)]
	}
	c.Specs = append(c.Specs, s)
}

const (
	byContent  = "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort"
	changesAll = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
	readsAll   = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
)

// keyNotes are Redis' notes, in the order of the specifications.
var keyNotes = map[string][]string{
	"bitfield": {"This command allows both access and modification of the key"},
	"eval":     {changesAll},
	"eval_ro":  {readsAll},
	"fcall":    {changesAll},
	"fcall_ro": {readsAll},
	"getex":    {"RW and UPDATE because it changes the TTL"},
	"pfcount":  {"RW because it may change the internal representation of the key, and propagate to replicas"},
	"set":      {"RW and ACCESS due to the optional `GET` argument"},
	"sort":     {"", byContent, "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array"},
	"sort_ro":  {"", byContent},
	"xadd":     {"UPDATE instead of INSERT because of the optional trimming feature"},
}
