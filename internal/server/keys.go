package server

import (
	"strings"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A keySpec is a command of Redis, with what a pool has to know about it.
type keySpec struct {
	*rediscmd.Command

	name string // that of Command
	// single: the one key is the first argument.
	single bool
	reads  bool // a replica can answer it
	rights *acl.Command

	fragments *fragmented // nil: it goes to one server
}

// keySpecs are all known commands by name.
var keySpecs = makeKeySpecs()

func makeKeySpecs() rediscmd.Index[*keySpec] {
	specs := make(rediscmd.Index[*keySpec])
	for _, r := range rediscmd.All() {
		specs[r.Name] = &keySpec{
			Command: r, name: r.Name, rights: acl.Lookup(r.Name), fragments: fragments[r.Name], reads: readsOnly(r),
			single: r.First == 1 && r.Last == 1 && !r.Movable() && !notInPools[r.Name],
		}
	}
	return specs
}

// readsOnly reports whether a replica can answer a command: one that only reads, except cursors,
// which are of one server; scripts, which a replica may not know; and TOUCH, which is about the
// server's memory.
func readsOnly(r *rediscmd.Command) bool {
	return r.Has(rediscmd.Readonly) && r.Keyed() && !r.RunsScript() && !strings.HasSuffix(r.Name, "scan") && r.Name != "touch"
}

// lookupKeys finds a command by its name in any case, without allocating.
func lookupKeys(name []byte) *keySpec { return keySpecs.Find(name) }

// positions appends the positions of the arguments that choose the server: the keys, or the channel of
// PUBLISH. It reports false when the arguments don't tell.
func (k *keySpec) positions(dst []int, args [][]byte) ([]int, bool) {
	if k.Channels.First == 1 && k.Channels.Last == 1 {
		return append(dst, 1), true
	}
	return k.Keys(dst, args)
}

// waits reports whether the command holds its connection until its keys have something.
func (k *keySpec) waits(args [][]byte) bool {
	return k.Has(rediscmd.Blocking) && (!strings.HasPrefix(k.name, "xread") || blocks(args[1:]))
}
