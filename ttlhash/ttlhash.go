package ttlhash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

var (
	// ErrForeign is matched when another program wrote a field of the hash.
	ErrForeign = wire.ErrForeign

	// ErrNotNative is matched by the error of [Hashes.Migrate] for a server that does not
	// expire fields: one before Redis 7.4 or Valkey 9.
	ErrNotNative = errors.New("ttlhash: the server does not expire fields")

	// ErrTooLarge is matched when the values of several fields of one call, new or
	// present, have more than [MaxBytes] together. Name fewer.
	ErrTooLarge = fmt.Errorf("ttlhash: the fields have more than %d bytes together", MaxBytes)
)

const (
	// Never is the TTL of a field without a deadline: the longest duration.
	Never = wire.Never
	// MinTTL and MaxTTL bound a TTL, which is a whole number of milliseconds.
	MinTTL = time.Millisecond
	MaxTTL = 100 * 365 * 24 * time.Hour
	// MaxField is the longest field, in bytes.
	MaxField = 1024
	// MaxValue is the longest value, in bytes. It occupies the server for 6 ms.
	MaxValue = 1 << 20
	// MaxTogether is how many fields one atomic call takes.
	MaxTogether = 128
	// MaxBytes is how many bytes the values may have together that one atomic call sets,
	// replaces, removes or prolongs. A single field may have [MaxValue].
	MaxBytes = 1 << 20
)

// Options configure [Hashes]. The zero value is ready to use.
type Options struct {
	// Events makes an event of each field that is set and later expires: see
	// [Hashes.Expired]. Such fields are in the index even on a server that expires
	// fields, because the server does not tell which field expired.
	Events bool
	// Emulate treats the server as one that does not expire fields. Set it while
	// replicas, or a server that may take over, are older.
	Emulate bool
}

// Hashes works on named hashes whose fields expire. Make one and use it for all names.
// All methods may be called by many goroutines at once. It need not be closed.
//
// A method costs one round trip unless it says otherwise. A call that writes is sent
// once: after an error that matches redoubt.ErrUnknownOutcome it may have had its effect,
// and you may repeat it.
type Hashes struct {
	client  *redoubt.Client
	opts    Options
	clocks  sync.Map // by the name of a node: *clock
	servers *wire.Servers
}

// New returns a Hashes on client. It sends nothing.
func New(client *redoubt.Client, opts Options) (*Hashes, error) {
	if client == nil {
		return nil, errors.New("ttlhash: client is nil")
	}
	return &Hashes{client: client, opts: opts, servers: wire.NewServers(client, opts.Emulate)}, nil
}

// An Item is a field with its value and its remaining time.
type Item struct {
	Field, Value string
	// TTL is in whole milliseconds from [MinTTL] to [MaxTTL], or [Never].
	TTL time.Duration
}

func (i Item) check() error {
	return errors.Join(checkField(i.Field), checkValue(i.Value), checkTTL(i.TTL))
}

func wireItems(items []Item) []wire.Item {
	to := make([]wire.Item, len(items))
	for i := range items {
		to[i] = wire.Item(items[i])
	}
	return to
}

// Set sets a field for ttl, or for ever if ttl is [Never], and replaces its value and its
// deadline.
func (h *Hashes) Set(ctx context.Context, name, field, value string, ttl time.Duration) error {
	_, err := h.set(ctx, name, wire.InAnyCase, []Item{{field, value, ttl}})
	return err
}

// SetMany sets items. If a field occurs twice, the last item wins. Up to [MaxTogether]
// items are set atomically, unless their values or the values that they replace have more
// than [MaxBytes] together. Larger batches are set in parts, in one round trip for each
// 4,096 items or 32 MiB; after an error some may be set.
func (h *Hashes) SetMany(ctx context.Context, name string, items []Item) error {
	keys, err := h.keys(name)
	for _, i := range items {
		err = errors.Join(err, i.check())
	}
	if err != nil || len(items) == 0 {
		return err
	}
	parts := partsOf(lastOfEach(items))
	if len(parts) == 1 {
		if _, err = h.set(ctx, name, wire.InAnyCase, parts[0]); !errors.Is(err, ErrTooLarge) {
			return err
		}
		parts = slices.Collect(slices.Chunk(parts[0], 1)) // the values that they replace are too large
	}
	native, err := h.servers.Native(ctx, keys)
	for err == nil && len(parts) > 0 {
		var cmds []redoubt.Cmd
		some := parts[:min(32, len(parts))]
		parts = parts[len(some):]
		for _, part := range some {
			cmds = append(cmds, wire.SetCmd(keys, h.mode(native), wire.InAnyCase, wireItems(part)))
		}
		for i, r := range h.client.Pipeline(ctx, cmds) {
			_, _, e := wire.ReadSet(r)
			if e = fault(e); errors.Is(e, ErrTooLarge) && len(some[i]) > 1 {
				parts = append(slices.Collect(slices.Chunk(some[i], 1)), parts...)
				continue
			}
			err = errors.Join(err, e)
		}
	}
	return err
}

// partsOf splits items into parts that one script can set.
func partsOf(items []Item) (parts [][]Item) {
	from, bytes := 0, 0
	for i, item := range items {
		if i > from && (i-from == MaxTogether || bytes+len(item.Value) > MaxBytes) {
			parts, from, bytes = append(parts, items[from:i]), i, 0
		}
		bytes += len(item.Value)
	}
	return append(parts, items[from:])
}

// fault returns the error of this package for an error of a script.
func fault(err error) error {
	if reply, ok := errors.AsType[redoubt.ServerError](err); ok && strings.HasPrefix(string(reply), "ERR redoubt: these fields have more than ") {
		return ErrTooLarge
	}
	return err
}

// lastOfEach drops items that a later one replaces.
func lastOfEach(items []Item) []Item {
	if len(items) < 2 {
		return items
	}
	at := make(map[string]int, len(items))
	kept := make([]Item, 0, len(items))
	for _, i := range items {
		if k, there := at[i.Field]; there {
			kept[k] = i
			continue
		}
		at[i.Field] = len(kept)
		kept = append(kept, i)
	}
	return kept
}

// SetIfAbsent sets all items if the hash has none of their fields, else nothing, and
// reports whether it set them. It takes at most [MaxTogether] items and [MaxBytes].
func (h *Hashes) SetIfAbsent(ctx context.Context, name string, items ...Item) (set bool, err error) {
	return h.set(ctx, name, wire.Absent, items)
}

// SetIfPresent sets all items if the hash has all of their fields, else nothing, and
// reports whether it set them. It takes at most [MaxTogether] items and [MaxBytes].
func (h *Hashes) SetIfPresent(ctx context.Context, name string, items ...Item) (set bool, err error) {
	return h.set(ctx, name, wire.Present, items)
}

func (h *Hashes) set(ctx context.Context, name string, when wire.Presence, items []Item) (bool, error) {
	keys, err := h.keys(name)
	for _, i := range items {
		err = errors.Join(err, i.check())
	}
	if len(items) < 1 || len(items) > MaxTogether {
		err = errors.Join(err, fmt.Errorf("ttlhash: there are %d items; want 1 to %d", len(items), MaxTogether))
	}
	if err != nil {
		return false, err
	}
	if items = lastOfEach(items); len(partsOf(items)) > 1 {
		return false, ErrTooLarge
	}
	var set bool
	err = h.write(ctx, keys, func(mode wire.Mode) redoubt.Cmd { return wire.SetCmd(keys, mode, when, wireItems(items)) },
		func(r redoubt.Reply) (now int64, err error) {
			set, now, err = wire.ReadSet(r)
			return now, err
		})
	return set, err
}

// Remove deletes fields and returns how many the hash had. It takes at most [MaxTogether]
// fields and [MaxBytes].
func (h *Hashes) Remove(ctx context.Context, name string, fields ...string) (n int, err error) {
	n, _, err = h.remove(ctx, name, false, fields)
	return n, err
}

// Take removes a field and returns its value. ok is false when the hash did not have the
// field: of several callers one gets it.
func (h *Hashes) Take(ctx context.Context, name, field string) (value string, ok bool, err error) {
	_, values, err := h.remove(ctx, name, true, []string{field})
	if err != nil {
		return "", false, err
	}
	value, ok = values[0].(string)
	return value, ok, nil
}

func (h *Hashes) remove(ctx context.Context, name string, want bool, fields []string) (n int, values []any, err error) {
	keys, err := h.keysFor(name, fields)
	if err != nil {
		return 0, nil, err
	}
	err = h.write(ctx, keys, func(mode wire.Mode) redoubt.Cmd { return wire.DeleteCmd(keys, mode, want, fields) },
		func(r redoubt.Reply) (now int64, err error) {
			n, values, now, err = wire.ReadDeleted(r)
			return now, err
		})
	return n, values, err
}

// Delete deletes the whole hash, with all fields and unread events. It makes no events of
// the fields. It reports whether there was a hash.
func (h *Hashes) Delete(ctx context.Context, name string) (deleted bool, err error) {
	keys, err := h.keys(name)
	if err != nil {
		return false, err
	}
	n, err := h.client.Do(ctx, redoubt.Cmd{Name: "UNLINK", Keys: keys[:], Flags: redoubt.Idempotent}).Int()
	return n > 0, err
}

func (h *Hashes) keys(name string) (wire.Keys, error) {
	return wire.KeysOf(h.client, name)
}

// keysFor returns the keys of a hash, and an error if the fields are invalid.
func (h *Hashes) keysFor(name string, fields []string) (wire.Keys, error) {
	keys, err := h.keys(name)
	if len(fields) < 1 || len(fields) > MaxTogether {
		err = errors.Join(err, fmt.Errorf("ttlhash: there are %d fields; want 1 to %d", len(fields), MaxTogether))
	}
	for _, f := range fields {
		err = errors.Join(err, checkField(f))
	}
	return keys, err
}

func (h *Hashes) mode(native bool) wire.Mode {
	return wire.Mode{Native: native, Event: h.opts.Events}
}

// write runs a script that writes, in the mode that fits the server.
func (h *Hashes) write(ctx context.Context, keys wire.Keys, cmd func(wire.Mode) redoubt.Cmd, read func(redoubt.Reply) (now int64, err error)) error {
	native, err := h.servers.Native(ctx, keys)
	if err != nil {
		return err
	}
	c := h.clock(keys)
	sent := time.Now()
	now, err := read(h.client.Do(ctx, cmd(h.mode(native))))
	if native && wire.UnknownCommand(err) {
		// An older server has taken over. The script may have written the field
		// without its deadline, so run it again.
		h.servers.Emulates(keys)
		now, err = read(h.client.Do(ctx, cmd(h.mode(false))))
	}
	if err == nil {
		c.set(sent, time.Now(), now)
	}
	return fault(err)
}
