package ratelimit

import (
	"fmt"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

// Scope says who shares a limit.
type Scope uint8

const (
	// Overall shares the limit of a name among all clients of the server. This is the
	// default.
	Overall Scope = iota
	// PerClient gives each redoubt.Client, usually each process, a limit of its own
	// under the name, with the same settings. Its keys expire as others do.
	PerClient
)

// keyspace makes the keys of a primitive.
type keyspace struct {
	client *redoubt.Client
	suffix string // of each part that has taken tokens
}

// clientID is the key under which a Client shares its id in this package.
type clientID struct{}

func newKeyspace(client *redoubt.Client, scope Scope) (keyspace, error) {
	switch scope {
	case Overall:
		return keyspace{client: client}, nil
	case PerClient:
		if client == nil {
			return keyspace{}, nil // which New refuses
		}
		id := client.Shared(clientID{}, func() any { return randid.Hex(8) }).(string)
		return keyspace{client: client, suffix: ":" + id}, nil
	}
	return keyspace{}, fmt.Errorf("ratelimit: scope is %d; want Overall or PerClient", scope)
}

// taken returns the key of the tokens taken under name. The error matches
// redoubt.ErrInvalidName.
func (k keyspace) taken(name, part string) (string, error) {
	return k.client.Key(name, part+k.suffix)
}
