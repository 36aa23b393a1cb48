package faults

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// owner is the server that has one of the keys in use.
func (s *Site) owner(t *testing.T, rng *rand.Rand) *redistest.Server {
	t.Helper()
	return s.primaryOf(t, s.Prefix+":{"+s.Tags[rng.IntN(len(s.Tags))]+"}:")
}

// primaryOf is the server that has key.
func (s *Site) primaryOf(t *testing.T, key string) *redistest.Server {
	t.Helper()
	if s.Kind == Redis {
		return s.at(*s.primary.Load())
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); pause(t.Context(), 5*time.Millisecond) {
		for _, server := range s.servers {
			if server.CLI("GET", key) == "" { // the others say that it has MOVED
				return server
			}
		}
	}
	t.Fatalf("no server has %q", key)
	return nil
}

// at is the server at addr.
func (d *Deployment) at(addr string) *redistest.Server {
	return d.servers[slices.IndexFunc(d.servers, func(s *redistest.Server) bool { return s.Addr() == addr })]
}

// migrate moves the slots of the keys in use to other nodes, one after the other.
func migrate(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
	for ctx.Err() == nil {
		key := s.Prefix + ":{" + s.Tags[rng.IntN(len(s.Tags))] + "}:"
		from := s.primaryOf(t, key)
		to := s.servers[rng.IntN(3)] // a primary, until a failover
		if to == from {
			continue
		}
		slot, id := from.CLI("CLUSTER", "KEYSLOT", key), to.CLI("CLUSTER", "MYID")
		host, port, _ := net.SplitHostPort(to.Addr())
		ok := func(reply string) {
			t.Helper()
			if reply != "OK" && reply != "NOKEY" {
				t.Fatalf("moving slot %s: %s", slot, reply)
			}
		}
		ok(to.CLI("CLUSTER", "SETSLOT", slot, "IMPORTING", from.CLI("CLUSTER", "MYID")))
		ok(from.CLI("CLUSTER", "SETSLOT", slot, "MIGRATING", id))
		for {
			pause(ctx, upTo(rng, s.TTL/4)) // some keys are here, some there
			keys := strings.Fields(from.CLI("CLUSTER", "GETKEYSINSLOT", slot, "1"))
			if len(keys) == 0 {
				break
			}
			ok(from.CLI("MIGRATE", host, port, keys[0], "0", "5000"))
		}
		for _, server := range []*redistest.Server{to, from, s.servers[0], s.servers[1], s.servers[2]} {
			ok(server.CLI("CLUSTER", "SETSLOT", slot, "NODE", id))
		}
	}
}

// failover kills a primary whose replica has not heard from it for a moment,
// promotes that, and makes the old primary its replica.
func failover(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
	pause(ctx, s.TTL+upTo(rng, s.TTL))
	primary := s.owner(t, rng)
	var replica *redistest.Server
	_, port, _ := net.SplitHostPort(primary.Addr())
	for _, server := range s.servers {
		if role := server.CLI("ROLE"); strings.HasPrefix(role, "slave") && strings.Contains(role, "\n"+port+"\n") {
			replica = server
		}
	}
	// The link breaks: replication is asynchronous.
	replica.CLI("CONFIG", "SET", "masteruser", "nobody", "masterauth", "x")
	primary.CLI("CLIENT", "KILL", "TYPE", "replica")
	pause(ctx, s.TTL)
	primary.Kill()
	if s.Kind == Cluster {
		if reply := replica.CLI("CLUSTER", "FAILOVER", "TAKEOVER"); reply != "OK" {
			t.Fatalf("failover: %s", reply)
		}
	} else {
		replica.CLI("REPLICAOF", "NO", "ONE")
		addr := replica.Addr()
		s.primary.Store(&addr)
	}
	replica.CLI("CONFIG", "SET", "masteruser", "", "masterauth", "")
	pause(ctx, s.rest(ctx)-500*time.Millisecond)
	primary.Restart()
	if s.Kind == Redis {
		host, port, _ := net.SplitHostPort(replica.Addr())
		primary.CLI("REPLICAOF", host, port)
	}
	<-ctx.Done()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(primary.CLI("INFO", "replication"), "master_link_status:up"); {
		if time.Now().After(deadline) {
			t.Fatalf("the old primary, %s, does not follow the new one, %s:\n%s\n%s\n%s\n%s", primary.Addr(), replica.Addr(),
				primary.CLI("INFO", "replication"), primary.CLI("CLUSTER", "NODES"),
				replica.CLI("INFO", "replication"), replica.CLI("CLUSTER", "NODES"))
		}
	}
}
