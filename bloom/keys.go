package bloom

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// filterPart ends the key that describes a filter.
const filterPart = "bloom"

// MaxName is the longest name of a filter, in bytes. It is shorter than the names of other
// primitives, because a shard's name is made of it.
const MaxName = redoubt.MaxName - 64

// keys has the name of a filter and the key that describes it.
type keys struct {
	client *redoubt.Client
	name   string
	filter string // the hash that describes it
}

func keysOf(client *redoubt.Client, name string) (keys, error) {
	if len(name) > MaxName {
		return keys{}, fmt.Errorf("%w: it has %d bytes; want 1 to %d", redoubt.ErrInvalidName, len(name), MaxName)
	}
	filter, err := client.Key(name, filterPart)
	return keys{client: client, name: name, filter: filter}, err
}

// shard returns the key of one shard. Each shard has a hash tag of its own, so shards are in
// different slots. The parts of the tag after its last two colons have no colon, so no other name
// has the same key.
func (k keys) shard(generation string, n int) string {
	return k.part(generation, n, "bits")
}

// log returns the key beside a shard that mirrors read.
func (k keys) log(generation string, n int) string {
	return k.part(generation, n, "log")
}

func (k keys) part(generation string, n int, part string) string {
	key, err := k.client.Key(k.name+":"+generation+":"+strconv.Itoa(n), part)
	if err != nil {
		panic("bloom: " + err.Error()) // keysOf has checked the name
	}
	return key
}

// newID returns 16 random hexadecimal digits, so that the keys of an interrupted call are never
// mistaken for the keys of another generation.
func newID() string { return randid.Hex(8) }

func decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// atOnce is how many items a pipeline asks for, which bounds the memory of the replies.
const atOnce = 4096

// anyTime is later than any clock shows. It is for the keys of a new id, which can't have been lost
// before.
const anyTime = 1 << 52

// make makes the missing shards of a generation, until a time of the server's clock. If ttl is not
// 0 they expire.
func (k keys) make(ctx context.Context, g generation, until int64, ttl time.Duration) error {
	cmds := make([]redoubt.Cmd, g.shards)
	for i := range cmds {
		cmds[i] = wire.MakeCmd(k.shard(g.id, i), g.shardLen(), until, ttl)
	}
	// One command at a time: filling megabytes with zeros holds up a server, and a pipeline of such
	// commands would hold it up for the sum of their times.
	for _, c := range cmds {
		var there [1]int64
		if err := k.client.Do(ctx, c).Ints(there[:]); err != nil {
			return err
		}
		if there[0] == 0 {
			return fmt.Errorf("bloom: making the keys of %q took longer than %v: try again", k.name, makeTime)
		}
	}
	return nil
}

// drop deletes the shards of a generation.
func (k keys) drop(ctx context.Context, g generation) error {
	var cmds []redoubt.Cmd
	for i := range g.shards {
		cmds = append(cmds, redoubt.Cmd{Name: "UNLINK", Keys: []string{k.shard(g.id, i), k.log(g.id, i)}, Flags: redoubt.Idempotent})
	}
	for _, r := range k.client.Pipeline(ctx, cmds) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
