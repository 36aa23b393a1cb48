package ttlhash

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Servers know which servers of a client expire fields by themselves.
type Servers struct {
	client  *redoubt.Client
	emulate bool
	nodes   sync.Map // name of a node → *node
}

// NewServers returns the Servers of client. With emulate none is taken to expire fields.
func NewServers(client *redoubt.Client, emulate bool) *Servers {
	return &Servers{client: client, emulate: emulate}
}

type node struct {
	is    atomic.Int32
	asked atomic.Bool // somebody is finding out what it is
}

// What a node is.
const (
	unknown = iota
	native
	emulated
)

func (s *Servers) node(keys Keys) *node {
	name := s.client.Node(keys[0])
	if n, ok := s.nodes.Load(name); ok {
		return n.(*node)
	}
	n, _ := s.nodes.LoadOrStore(name, &node{})
	return n.(*node)
}

// Native reports whether the server that owns the keys expires fields. It asks once, one round trip.
func (s *Servers) Native(ctx context.Context, keys Keys) (bool, error) {
	if s.emulate {
		return false, nil
	}
	n := s.node(keys)
	if is := n.is.Load(); is != unknown {
		return is == native, nil
	}
	err := s.client.Do(ctx, redoubt.Cmd{Name: "HPEXPIRETIME", Keys: keys[:1], Args: []string{"FIELDS", "1", "f"}, Flags: redoubt.ReadOnly}).Err
	switch refused, answered := errors.AsType[redoubt.ServerError](err); {
	case err == nil, errors.Is(err, redoubt.ErrWrongType):
		n.is.Store(native)
	case answered && (UnknownCommand(err) || refused.Code() == "NOPERM"):
		n.is.Store(emulated)
	default:
		return false, err
	}
	return n.is.Load() == native, nil
}

// KnownNative is Native for callers that can't wait: it reports what is known. What is not known is
// found out in the background, and taken for the emulation meanwhile, which every server understands.
func (s *Servers) KnownNative(keys Keys) bool {
	n := s.node(keys)
	if !s.emulate && n.is.Load() == unknown && !n.asked.Swap(true) {
		s.client.Go(func() {
			defer n.asked.Store(false)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			_, _ = s.Native(ctx, keys) // or the next command asks again
		})
	}
	return n.is.Load() == native
}

// Emulates notes that the server that owns the keys does not expire fields: an older one has taken
// over.
func (s *Servers) Emulates(keys Keys) { s.node(keys).is.Store(emulated) }

// UnknownCommand recognizes the error of a server that has no such command, from
// inside a script too.
func UnknownCommand(err error) bool {
	refused, ok := errors.AsType[redoubt.ServerError](err)
	return ok && strings.Contains(strings.ToLower(string(refused)), "unknown") && strings.Contains(strings.ToLower(string(refused)), "command")
}
