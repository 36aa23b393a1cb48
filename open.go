package redoubt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redoubt-go/redoubt/internal/scheme"
)

// An OpenConn is a [Conn] that its opener closes.
type OpenConn interface {
	Conn
	Close() error
}

// An Opener connects to the server of a URL. Its errors never show a password.
type Opener func(ctx context.Context, url string) (OpenConn, error)

var openers struct {
	mu sync.Mutex
	by map[string]Opener
}

// Register makes [Open] use open for URLs with the given schemes. A package calls it when it is
// initialized. Register panics when a scheme has an Opener already.
func Register(open Opener, schemes ...string) {
	openers.mu.Lock()
	defer openers.mu.Unlock()
	for _, s := range schemes {
		if openers.by[s] != nil {
			panic("redoubt: Register: scheme " + s + " has an Opener")
		}
		if openers.by == nil {
			openers.by = make(map[string]Opener)
		}
		openers.by[s] = open
	}
}

// Open connects to the server of url and returns a [Client]. It tries until ctx ends, for ten seconds at
// most. [Client.Close] closes the connection as well.
//
//	redis://[user:password@]host[:port][/db]          one server; rediss:// with TLS
//	unix://[user:password@]/path/to.sock[?db=n]       one server by its socket
//	redis-sentinel://[user:password@]host[:port],…/name[/db]
//	redis-cluster://[user:password@]host[:port],…
//	embedded:                                         the engine, in this process' memory
//	embedded:/path                                    the engine, saved in a directory
//
// Packages register the URLs that they open when they are imported, as with database/sql.
// So a program builds only what it uses:
//
//	import _ "github.com/redoubt-go/redoubt/goredis"       // all but embedded
//	import _ "github.com/redoubt-go/redoubt/engine" // embedded
//
// The commands of redoubt take the same URLs. To use a go-redis client of your own, or the options
// of an engine, open a [Conn] with goredis or engine and pass it to [New].
func Open(ctx context.Context, url string, opts Options) (*Client, error) {
	if err := opts.settle(); err != nil {
		return nil, err
	}
	name, err := scheme.Door{Name: "Open", Takes: scheme.All}.Check(url)
	if err != nil {
		return nil, fmt.Errorf("redoubt: %w", err)
	}
	openers.mu.Lock()
	open := openers.by[name]
	openers.mu.Unlock()
	if open == nil {
		from := "goredis"
		if name == scheme.Embedded {
			from = "engine"
		}
		return nil, fmt.Errorf("redoubt: URL scheme %s needs an import: _ \"github.com/redoubt-go/redoubt/%s\"", name, from)
	}
	conn, err := open(ctx, url)
	if err != nil {
		return nil, err
	}
	c, err := New(conn, opts)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c.closeConn = conn.Close
	return c, nil
}
