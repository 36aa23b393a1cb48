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

// Servers knows which servers of a client expire fields themselves.
type Servers struct {
	client  *redoubt.Client
	emulate bool
	nodes   sync.Map // name of a node → *node
}

// NewServers returns the Servers of client. With emulate it treats all as servers that don't expire fields.
func NewServers(client *redoubt.Client, emulate bool) *Servers {
	return &Servers{client: client, emulate: emulate}
}

type node struct {
	is    atomic.Int32
	asked atomic.Bool // a goroutine is asking the server
}

// The kinds of a node.
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

// KnownNative is [Servers.Native] for callers that can't wait. For an unknown server it returns false
// and asks in the background; emulation works on every server.
func (s *Servers) KnownNative(keys Keys) bool {
	n := s.node(keys)
	if !s.emulate && n.is.Load() == unknown && !n.asked.Swap(true) {
		s.client.Go(func() {
			defer n.asked.Store(false)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			_, _ = s.Native(ctx, keys) // after an error the next call asks again
		})
	}
	return n.is.Load() == native
}

// Emulates records that the server that owns the keys does not expire fields: an older one has taken
// over.
func (s *Servers) Emulates(keys Keys) { s.node(keys).is.Store(emulated) }

// UnknownCommand reports whether err is a server's error for an unknown command, also inside a
// script.
func UnknownCommand(err error) bool {
	refused, ok := errors.AsType[redoubt.ServerError](err)
	return ok && strings.Contains(strings.ToLower(string(refused)), "unknown") && strings.Contains(strings.ToLower(string(refused)), "command")
}
