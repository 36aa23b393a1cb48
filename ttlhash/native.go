package ttlhash

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A node is what is known of a server.
type node struct {
	clock clock
	is    atomic.Int32
	asked atomic.Bool // somebody is finding out what it is
}

// What a node is.
const (
	unknown = iota
	native
	emulated
)

// node returns what is known of the server that owns the keys.
func (h *Hashes) node(keys Keys) *node {
	name := h.client.Node(keys[0])
	if n, ok := h.nodes.Load(name); ok {
		return n.(*node)
	}
	n, _ := h.nodes.LoadOrStore(name, &node{})
	return n.(*node)
}

// native reports whether the server expires fields. It asks once, one round trip.
func (h *Hashes) native(ctx context.Context, keys Keys) (bool, error) {
	if h.opts.Emulate {
		return false, nil
	}
	n := h.node(keys)
	if is := n.is.Load(); is != unknown {
		return is == native, nil
	}
	err := h.client.Do(ctx, redoubt.Cmd{Name: "HPEXPIRETIME", Keys: keys[:1], Args: []string{"FIELDS", "1", "f"}, Flags: redoubt.ReadOnly}).Err
	switch refused, answered := errors.AsType[redoubt.ServerError](err); {
	case err == nil, errors.Is(err, redoubt.ErrWrongType):
		n.is.Store(native)
	case answered && (unknownCommand(err) || refused.Code() == "NOPERM"):
		n.is.Store(emulated)
	default:
		return false, err
	}
	return n.is.Load() == native, nil
}

// How returns how to write to the hash with these keys, as far as it is known: for who
// can't wait. What is not known is found out aside, and taken for the emulation
// meanwhile, which every server understands.
func (h *Hashes) How(keys Keys) How {
	n := h.node(keys)
	if !h.opts.Emulate && n.is.Load() == unknown && !n.asked.Swap(true) {
		h.client.Go(func() {
			defer n.asked.Store(false)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			_, _ = h.native(ctx, keys) // or the next command asks again
		})
	}
	return h.how(n.is.Load() == native)
}

// unknownCommand recognizes the error of a server that has no such command, from
// inside a script too.
func unknownCommand(err error) bool {
	refused, ok := errors.AsType[redoubt.ServerError](err)
	return ok && strings.Contains(strings.ToLower(string(refused)), "unknown") && strings.Contains(strings.ToLower(string(refused)), "command")
}

// Migrate leaves the fields of a hash to the server, after it became one that expires
// fields: from then on they cost no index. It returns how many it moved. Fields whose
// end is an event stay in the index.
//
// The hash stays in use all the while; what is due is swept as usual. It takes 512
// fields in a round trip, and can be ended by ctx and begun again at any time, by
// several processes too: what is left to do is what is in the index. Processes that
// still emulate may go on; what they write is migrated by the next call. A server that
// does not expire fields gives an error that matches [ErrNotNative].
func (h *Hashes) Migrate(ctx context.Context, name string) (moved int, err error) {
	keys, err := h.keys(name)
	if err != nil {
		return 0, err
	}
	is, err := h.native(ctx, keys)
	if err == nil && !is {
		err = ErrNotNative
	}
	for again := true; err == nil && again; {
		again = false
		for from, more := int64(0), true; err == nil && more; {
			var n [5]int64
			if err = h.client.Do(ctx, migrateCmd(keys, from)).Ints(n[:]); err == nil {
				moved += int(n[1])
				again = again || n[1] > 0
				more, from = n[3] == 1, n[4]
			}
		}
	}
	return moved, err
}
