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

// An Info is what the server has of one key, for people.
type Info struct {
	Cache, Key string
	// Kind is "value", "negative", or "loading" when there is only a lease.
	Kind string
	// Fresh is for how long it is fresh, less than 0 when it is stale. TTL is for how
	// long the key lives.
	Fresh, TTL time.Duration
	// Took is how long the load took that it came from.
	Took time.Duration
	// Lease is for how much longer somebody has the right to load it, 0 if nobody has.
	Lease time.Duration
	// Bytes is the size of the payload as it is stored; Payload is as it was encoded.
	Bytes   int
	Payload []byte
}

// Inspect returns what the server has of a key, by the name of the cache and the text of
// the key. found is false when it has nothing. A name that no cache can have gives an error
// that matches [redoubt.ErrInvalidName]. One round trip.
func Inspect(ctx context.Context, client *redoubt.Client, cache, key string) (info Info, found bool, err error) {
	if err := checkName(cache); err != nil {
		return Info{}, false, err
	}
	infos, err := inspect(ctx, client, []string{cache + ":" + key})
	if err != nil || len(infos) == 0 {
		return Info{}, false, err
	}
	return infos[0], true, nil
}

// checkName is for the name of a cache that New has not checked: with a colon in it, it
// would be that of another, with another key.
func checkName(cache string) error {
	if !validName(cache) {
		return fmt.Errorf("%w: the cache is %q; want %s", redoubt.ErrInvalidName, cache, names)
	}
	return nil
}

// inspect returns what there is of names. What has gone, or is none, is left out.
func inspect(ctx context.Context, client *redoubt.Client, names []string) (infos []Info, err error) {
	var cmds []redoubt.Cmd
	for _, name := range names {
		key, err := client.Key(name, entryPart)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds,
			wire.TimedReadCmd(key),
			redoubt.Cmd{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly})
	}
	replies := client.Pipeline(ctx, cmds)
	for i, name := range names {
		a, err := replies[2*i].Array()
		ttl, ttlErr := replies[2*i+1].Int()
		if err := errors.Join(err, ttlErr); err != nil {
			return nil, err
		}
		if len(a) != 2 {
			return nil, fmt.Errorf("cache: reply has %d elements, want 2", len(a))
		}
		now, err := (redoubt.Reply{Val: a[0]}).Int()
		raw, rawErr := redoubt.Reply{Val: a[1]}.Text()
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

// List goes over what the server has of a cache, or of all for an empty name. A loop over
// it ends with the first error. It looks at every key of the server, or of all primaries
// of a cluster, in steps of two round trips for about 1,000 keys: see
// [redoubt.Client.Names]. An entry that is there all the time is found, maybe twice.
func List(ctx context.Context, client *redoubt.Client, cache string) iter.Seq2[Info, error] {
	match := "*:*"
	if cache != "" {
		match = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(cache) + ":*"
	}
	if cache != "" {
		if err := checkName(cache); err != nil {
			return func(yield func(Info, error) bool) { yield(Info{}, err) }
		}
	}
	return pages.All(func(cursor string) (infos []Info, next string, err error) {
		names, next, err := client.NamesPage(ctx, entryPart, "string", match, cursor)
		if err == nil && len(names) > 0 {
			infos, err = inspect(ctx, client, names)
		}
		return infos, next, err
	})
}

// Invalidate invalidates a key of a cache by the text of the key, for who doesn't know the
// types: see [Cache.Invalidate]. there says whether there was a value. Names are held to
// what [Inspect] says.
func Invalidate(ctx context.Context, client *redoubt.Client, cache, key string) (there bool, err error) {
	if err := checkName(cache); err != nil {
		return false, err
	}
	channel, err := client.Key(cache, channelPart)
	entry, keyErr := client.Key(cache+":"+key, entryPart)
	if err := errors.Join(err, keyErr); err != nil {
		return false, err
	}
	return wire.ReadHeld(client.Do(ctx, wire.InvalidateCmd(entry, channel, wire.Nobody+key)))
}
