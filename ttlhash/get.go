package ttlhash

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// Get returns the value of a field. ok is false when the hash does not have the field or
// its deadline has passed. It is one HGET: the client compares the deadline with what it
// knows of the server's clock. It never denies a field before its deadline, and may return
// it for a round trip after it.
func (h *Hashes) Get(ctx context.Context, name, field string) (value string, ok bool, err error) {
	i, ok, err := h.GetItem(ctx, name, field)
	return i.Value, ok, err
}

// GetItem is [Hashes.Get] with the remaining time of the field.
func (h *Hashes) GetItem(ctx context.Context, name, field string) (item Item, ok bool, err error) {
	keys, err := h.keysFor(name, []string{field})
	if err != nil {
		return Item{}, false, err
	}
	r, now := h.read(ctx, keys, redoubt.Cmd{Name: "HGET", Keys: keys[:1], Args: []string{field}, Flags: redoubt.ReadOnly})
	if r.Err != nil || r.IsNil() {
		return Item{}, false, r.Err
	}
	return h.item(name, field, r.Val, now)
}

// GetMany returns the fields that the hash has, by field, in one round trip for each
// 4,096.
func (h *Hashes) GetMany(ctx context.Context, name string, fields []string) (map[string]Item, error) {
	keys, err := h.keys(name)
	for _, f := range fields {
		if e := checkField(f); err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, err
	}
	items := make(map[string]Item, len(fields))
	for len(fields) > 0 {
		some := fields[:min(len(fields), 4096)]
		fields = fields[len(some):]
		r, now := h.read(ctx, keys, redoubt.Cmd{Name: "HMGET", Keys: keys[:1], Args: some, Flags: redoubt.ReadOnly})
		values, err := r.Array()
		if err == nil && len(values) != len(some) {
			err = fmt.Errorf("ttlhash: reply of HMGET has %d elements, want %d", len(values), len(some))
		}
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			if v == nil {
				continue
			}
			item, ok, err := h.item(name, some[i], v, now)
			if err != nil {
				return nil, err
			}
			if ok {
				items[some[i]] = item
			}
		}
	}
	return items, nil
}

// TTL returns the remaining time of a field, [Never] without a deadline. ok is false when
// the hash does not have the field.
func (h *Hashes) TTL(ctx context.Context, name, field string) (ttl time.Duration, ok bool, err error) {
	keys, err := h.keysFor(name, []string{field})
	if err != nil {
		return 0, false, err
	}
	items, err := wire.ReadGot(h.client.Do(ctx, wire.GetCmd(keys, false, []string{field})))
	if err != nil || items[0] == nil {
		return 0, false, err
	}
	return items[0].TTL, true, nil
}

// All iterates over the items of a hash whose fields match, a pattern like that of Redis'
// KEYS; an empty one matches all. It reads about 500 fields in a round trip by HSCAN and
// has the guarantees of HSCAN: it returns every field that is there during the whole loop,
// may miss fields that come or go meanwhile, and may return one twice. An error ends the
// loop.
func (h *Hashes) All(ctx context.Context, name, match string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		keys, err := h.keys(name)
		if match == "" {
			match = "*"
		}
		for cursor := ""; err == nil && cursor != "0"; {
			if cursor == "" {
				cursor = "0"
			}
			var page []any
			r, now := h.read(ctx, keys, redoubt.Cmd{
				Name: "HSCAN", Keys: keys[:1], Args: []string{cursor, "MATCH", match, "COUNT", "500"}, Flags: redoubt.ReadOnly,
			})
			cursor, page, err = wire.ReadScanned(r)
			for i := 0; err == nil && i+1 < len(page); i += 2 {
				field, _ := page[i].(string)
				var item Item
				var ok bool
				if item, ok, err = h.item(name, field, page[i+1], now); ok && !yield(item, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Item{}, err)
		}
	}
}

// List iterates over the names of hashes that match, a pattern like that of Redis' KEYS;
// an empty one matches all. An error ends the loop. It scans every key of the server, or
// of all primaries of a cluster, in one round trip for about 1,000 keys: see
// [redoubt.Client.Names].
func (h *Hashes) List(ctx context.Context, match string) iter.Seq2[string, error] {
	return h.client.Names(ctx, wire.Part, "hash", match)
}

// item decodes a stored value. now is the server's time in µs.
func (h *Hashes) item(name, field string, value any, now int64) (Item, bool, error) {
	text, _ := value.(string)
	payload, ttl, ok, err := wire.Open(text, now)
	if err != nil {
		return Item{}, false, fmt.Errorf("%w: %q of %q", err, field, name)
	}
	if !ok {
		return Item{}, false, nil
	}
	if ttl != Never {
		ttl = max(ttl.Truncate(time.Millisecond), time.Millisecond)
	}
	return Item{Field: field, Value: payload, TTL: ttl}, true, nil
}

// read runs a command that reads. It also returns a lower bound of the server's time at
// which the command ran; if no recent one is known, it sends time.lua with the command.
func (h *Hashes) read(ctx context.Context, keys wire.Keys, cmd redoubt.Cmd) (redoubt.Reply, int64) {
	c := h.clock(keys)
	sent := time.Now()
	now, age, ok := c.least(sent)
	if ok && (age < syncEvery || age < 10*syncEvery && !c.syncing.CompareAndSwap(false, true)) {
		return h.client.Do(ctx, cmd), now
	}
	defer c.syncing.Store(false)
	replies := h.client.Pipeline(ctx, []redoubt.Cmd{wire.TimeCmd(keys), cmd})
	var t [1]int64
	if err := replies[0].Ints(t[:]); err != nil {
		return redoubt.Reply{Err: err}, 0
	}
	now = t[0]
	c.set(sent, time.Now(), now)
	return replies[1], now
}
