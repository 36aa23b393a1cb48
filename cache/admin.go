package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/pages"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// AdminOptions configure an [Admin]. There is nothing to choose yet.
type AdminOptions struct{}

// An Admin reads and invalidates the entries of any cache by the name of the cache and the text
// of the key. Tools use it: they don't know the types of keys and values. It keeps no state and
// need not be closed. All methods may be called by many goroutines at once.
type Admin struct {
	client *redoubt.Client
}

// NewAdmin returns an Admin on client. It sends nothing.
func NewAdmin(client *redoubt.Client, _ AdminOptions) (*Admin, error) {
	if client == nil {
		return nil, errors.New("cache: client is nil")
	}
	return &Admin{client: client}, nil
}

// An Info describes one entry on the server.
type Info struct {
	Cache, Key string
	// Kind is "value", "negative" (the source does not have the key), or "loading" (there is only a
	// lease).
	Kind string
	// Fresh is how much longer the entry is fresh; below 0 it is stale. TTL is how much longer the
	// key lives.
	Fresh, TTL time.Duration
	// Took is how long the load took that brought the value.
	Took time.Duration
	// Lease is how much longer a process has the right to load the key; 0: no process has it.
	Lease time.Duration
	// Bytes is the size of the payload as the server stores it. Payload is the encoded value,
	// decompressed.
	Bytes   int
	Payload []byte
}

// Info describes the entry of a key. found is false when the server has none. A name that no cache
// can have gives an error that matches [redoubt.ErrInvalidName]. One round trip.
func (a *Admin) Info(ctx context.Context, cache, key string) (info Info, found bool, err error) {
	if err := wire.CheckName(cache); err != nil {
		return Info{}, false, err
	}
	infos, err := a.infos(ctx, []string{cache + ":" + key})
	if err != nil || len(infos) == 0 {
		return Info{}, false, err
	}
	return infos[0], true, nil
}

// infos describes the entries of names; a name is "<cache>:<key>". It leaves out keys that are gone or
// hold no entry.
func (a *Admin) infos(ctx context.Context, names []string) (infos []Info, err error) {
	var cmds []redoubt.Cmd
	for _, name := range names {
		key, err := a.client.Key(name, entryPart)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds,
			wire.TimedReadCmd(key),
			redoubt.Cmd{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly})
	}
	replies := a.client.Pipeline(ctx, cmds)
	for i, name := range names {
		timed, err := replies[2*i].Array()
		ttl, ttlErr := replies[2*i+1].Int()
		if err := errors.Join(err, ttlErr); err != nil {
			return nil, err
		}
		if len(timed) != 2 {
			return nil, fmt.Errorf("cache: reply has %d elements, want 2", len(timed))
		}
		now, err := (redoubt.Reply{Val: timed[0]}).Int()
		raw, rawErr := redoubt.Reply{Val: timed[1]}.Text()
		if err := errors.Join(err, rawErr); err != nil {
			return nil, err
		}
		if len(raw) < headBytes || raw[0] != layoutV1 {
			continue
		}
		infos = append(infos, infoOf(name, parseEntry(raw), now, ttl))
	}
	return infos, nil
}

func infoOf(name string, e entry, now, ttl int64) Info {
	cache, key, _ := strings.Cut(name, ":")
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	i := Info{
		Cache: cache, Key: key, TTL: time.Duration(ttl) * time.Millisecond, Took: us(e.delta),
		Lease: us(max(e.lease-now, 0)), Bytes: len(e.payload), Payload: []byte(e.payload),
	}
	switch e.kind {
	case kindValue:
		i.Kind = "value"
	case kindNegative:
		i.Kind = "negative"
	default:
		i.Kind = "loading"
		return i
	}
	i.Fresh = us(e.fresh - now)
	if e.encoding == deflated {
		if data, err := inflate(e.payload, 512<<20); err == nil {
			i.Payload = data
		}
	}
	return i
}

// List iterates over the entries whose "<cache>:<key>" matches a pattern as of Redis' KEYS; the empty
// pattern matches all. The loop ends with the first error. List looks at every key of the server, or
// of all primaries of a cluster, in steps of two round trips for about 1,000 keys: see
// [redoubt.Client.Names]. It gives each entry that exists throughout, some of them twice.
func (a *Admin) List(ctx context.Context, match string) iter.Seq2[Info, error] {
	if match == "" {
		match = "*:*"
	}
	return pages.All(func(cursor string) ([]Info, string, error) {
		names, next, err := a.client.NamesPage(ctx, entryPart, "string", match, cursor)
		if err != nil || len(names) == 0 {
			return nil, next, err
		}
		infos, err := a.infos(ctx, names)
		return infos, next, err
	})
}

// Invalidate invalidates a key as [Cache.Invalidate] does. existed says whether there was a value. A
// name that no cache can have gives an error that matches [redoubt.ErrInvalidName].
func (a *Admin) Invalidate(ctx context.Context, cache, key string) (existed bool, err error) {
	if err := wire.CheckName(cache); err != nil {
		return false, err
	}
	channel, err := a.client.Key(cache, channelPart)
	entry, keyErr := a.client.Key(cache+":"+key, entryPart)
	if err := errors.Join(err, keyErr); err != nil {
		return false, err
	}
	return wire.ReadHeld(a.client.Do(ctx, wire.InvalidateCmd(entry, channel, wire.Nobody+key)))
}
