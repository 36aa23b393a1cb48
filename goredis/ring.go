package goredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

// ringPatience is how long Subscribe waits for shards that don't answer. A later subscription is told as a
// loss.
const ringPatience = time.Second

// A ring is the shards of a *redis.Ring, and where keys are. A key has its place by the Ring's own hash over all
// shards. The Ring hashes over the shards that are up, so that a key of a shard that is down moves: a lock
// would be free there.
type ring struct {
	rdb    *redis.Ring
	hash   redis.ConsistentHash
	shards map[string]*Conn // by the names of the Ring's options
	names  []string         // of the shards, ordered by address
}

// newRing returns the shards of rdb, which all must be up, since the Ring gives no access to the others.
func newRing(rdb *redis.Ring) (*ring, error) {
	r := &ring{rdb: rdb, shards: make(map[string]*Conn)}
	opts := rdb.Options()
	at := make(map[string][]string) // the names by address
	for name, addr := range opts.Addrs {
		at[addr] = append(at[addr], name)
	}
	var mu sync.Mutex
	strangers := 0
	_ = rdb.ForEachShard(context.Background(), func(_ context.Context, c *redis.Client) error { // sends nothing
		mu.Lock()
		defer mu.Unlock()
		names := at[c.Options().Addr]
		if len(names) == 0 {
			strangers++
			return nil
		}
		r.shards[names[0]] = newConn()
		r.shards[names[0]].single = c
		at[c.Options().Addr] = names[1:]
		return nil
	})
	switch {
	case len(opts.Addrs) == 0:
		return nil, fmt.Errorf("%w: the Ring has no shards", ErrUnsupportedClient)
	case strangers > 0:
		return nil, fmt.Errorf("%w: the shards of the Ring are not the ones of its options: SetAddrs moved keys", ErrUnsupportedClient)
	}
	for name, addr := range opts.Addrs {
		if r.shards[name] == nil {
			return nil, fmt.Errorf("%w: the Ring has found shard %q at %s to be down, and keeps it back", ErrUnsupportedClient, name, addr)
		}
	}
	r.names = slices.SortedFunc(maps.Keys(r.shards), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.addr(a), r.addr(b)), cmp.Compare(a, b))
	})
	r.hash = opts.NewConsistentHash(slices.Clone(r.names))
	return r, nil
}

func (r *ring) addr(name string) string { return r.shards[name].single.Options().Addr }

// place returns the name of the shard of key. As with the Ring, only the {tag} of a key counts, if it has one.
func (r *ring) place(key string) string {
	if _, behind, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(behind, "}"); ok && tag != "" {
			key = tag
		}
	}
	return r.hash.Get(key)
}

// pick returns the shard that a command is for, or an error for keys of several.
func (r *ring) pick(cmd *redoubt.Cmd) (*Conn, error) {
	if len(cmd.Keys) == 0 {
		if cmd.At == "" {
			return r.anyShard(), nil
		}
		return r.shards[r.place(cmd.At)], nil
	}
	name := r.place(cmd.Keys[0])
	for _, key := range cmd.Keys[1:] {
		if r.place(key) != name {
			return nil, redoubt.ServerError("CROSSSLOT goredis: the keys of the command are on several shards of the Ring")
		}
	}
	return r.shards[name], nil
}

// anyShard returns a shard for a command that any will do for: one that is up, if the Ring knows one.
func (r *ring) anyShard() *Conn {
	var mu sync.Mutex
	up := make(map[*redis.Client]bool, len(r.names))
	_ = r.rdb.ForEachShard(context.Background(), func(_ context.Context, c *redis.Client) error { // sends nothing
		mu.Lock()
		defer mu.Unlock()
		up[c] = true
		return nil
	})
	first := rand.IntN(len(r.names)) //nolint:gosec // no secret
	for i := range r.names {
		if shard := r.shards[r.names[(first+i)%len(r.names)]]; up[shard.single] {
			return shard
		}
	}
	return r.shards[r.names[first]]
}

func (r *ring) do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	shard, err := r.pick(&cmd)
	if err != nil {
		return redoubt.Reply{Err: err}
	}
	return shard.Do(ctx, cmd)
}

// each runs commands on all shards at once. send sends the commands of one shard and calls back with each
// reply; calls of each don't overlap.
func (r *ring) each(cmds []redoubt.Cmd, each func(i int, r redoubt.Reply), send func(shard *Conn, part []redoubt.Cmd, each func(i int, r redoubt.Reply))) {
	var mu sync.Mutex
	places := make(map[*Conn][]int)
	for i := range cmds {
		shard, err := r.pick(&cmds[i])
		if err != nil {
			each(i, redoubt.Reply{Err: err})
			continue
		}
		places[shard] = append(places[shard], i)
	}
	var wg sync.WaitGroup
	for shard, at := range places {
		part := make([]redoubt.Cmd, len(at))
		for j, i := range at {
			part[j] = cmds[i]
		}
		wg.Go(func() {
			send(shard, part, func(j int, reply redoubt.Reply) {
				mu.Lock()
				defer mu.Unlock()
				each(at[j], reply)
			})
		})
	}
	wg.Wait()
}

func (r *ring) pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	set := func(i int, r redoubt.Reply) { replies[i] = r }
	r.each(cmds, set, func(shard *Conn, part []redoubt.Cmd, each func(int, redoubt.Reply)) {
		for j, reply := range shard.Pipeline(ctx, part) {
			each(j, reply)
		}
	})
	return replies
}

func (r *ring) pipelineEach(ctx context.Context, cmds []redoubt.Cmd, each func(i int, r redoubt.Reply)) {
	r.each(cmds, each, func(shard *Conn, part []redoubt.Cmd, each func(int, redoubt.Reply)) {
		shard.PipelineEach(ctx, part, each)
	})
}

// subscribe listens on the shard of a sharded channel, and on all shards for another: a script publishes on the
// shard of its keys.
func (r *ring) subscribe(ctx context.Context, channel string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	if sharded {
		return r.shards[r.place(channel)].Subscribe(ctx, channel, true, on)
	}
	var mu sync.Mutex // one call at a time
	var stopped, early atomic.Bool
	one := func(payload string, lost bool) {
		mu.Lock()
		defer mu.Unlock()
		if !stopped.Load() {
			on(payload, lost)
		}
	}
	life, end := context.WithCancel(context.Background())
	first := make(chan error, len(r.shards))
	for _, shard := range r.shards {
		go func() {
			p := conn.Pauses{Endless: true} // life ends it
			for late := false; life.Err() == nil; late = true {
				stop, err := shard.Subscribe(life, channel, false, one)
				if !late {
					first <- err
				}
				if err == nil {
					if late || early.Load() {
						one("", true)
					}
					<-life.Done()
					stop()
					return
				}
				if errors.Is(err, redis.ErrClosed) {
					return
				}
				_ = p.Wait(life)
			}
		}()
	}
	stop = func() {
		stopped.Store(true)
		end()
	}
	patience := time.NewTimer(ringPatience)
	defer patience.Stop()
	confirmed := 0
	for confirmed < len(r.shards) && (confirmed == 0 || !early.Load()) {
		select {
		case err := <-first:
			if err != nil {
				stop()
				return nil, err
			}
			confirmed++
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		case <-patience.C:
			early.Store(true)
		}
	}
	return stop, nil
}
