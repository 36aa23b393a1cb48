package engine

import (
	"errors"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// A Redis before 7.4 has no times to live of fields. As a replica it answers such a command with an error that no master
// reads, and drops a transaction that has one. So the first such command ends all replicas that may be older. They
// get a copy of all keys, in a file that only Redis 7.4 and later read: what has read it stays, and an older Redis
// reports the file's version.

// capaFields is how an engine says that it knows times to live of fields.
const capaFields = "redoubt-field-ttl"

var errFields = errors.New("the stream has times to live of fields, which Redis knows from 7.4 on: the replica needs a copy of all keys")

// setsFields reports whether a command of the stream is unknown to Redis 7.0.
func setsFields(args [][]byte) bool {
	switch name := args[0]; {
	case is(name, "restore"):
		return len(args) > 3 && rdb.FieldTTL(args[3])
	case len(name) < len("hsetex") || name[0]|0x20 != 'h':
		return false
	default:
		for _, other := range []string{"hexpire", "hpexpire", "hexpireat", "hpexpireat", "hpersist", "hsetex", "hgetex", "hgetdel"} {
			if is(name, other) {
				return true
			}
		}
		return false
	}
}

// noteFields is called in front of a command for which setsFields is true. mu is held.
func (r *replication) noteFields() {
	if r.fields < 0 {
		r.fields = r.end
	}
	for f := range r.feeds {
		if !f.fields {
			f.end(errFields)
		}
	}
}
