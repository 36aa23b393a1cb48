package ttlhash

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// Sweep deletes the fields of a hash whose deadline has passed, in one round trip for each
// 512, and returns how many. You only need it for a hash that has events and no writes, or
// to free memory early: writes sweep too.
func (h *Hashes) Sweep(ctx context.Context, name string) (n int, err error) {
	for {
		s, err := h.sweep(ctx, name)
		n += s.Swept
		if err != nil || !s.More {
			return n, err
		}
	}
}

// Len returns how many fields a hash has, after a sweep of up to 512. It also counts
// expired fields that are not yet deleted: for at most a 64th of their TTL, or 128 ms, if
// no more than 512 have expired.
func (h *Hashes) Len(ctx context.Context, name string) (int, error) {
	s, err := h.sweep(ctx, name)
	return s.Fields, err
}

func (h *Hashes) sweep(ctx context.Context, name string) (s wire.Sweep, err error) {
	keys, err := h.keys(name)
	if err != nil {
		return wire.Sweep{}, err
	}
	err = h.write(ctx, keys, func(mode wire.Mode) redoubt.Cmd { return wire.SweepCmd(keys, mode) },
		func(r redoubt.Reply) (int64, error) {
			s, err = wire.ReadSweep(r)
			return s.Now, err
		})
	return s, err
}

// An Event reports that a field has expired.
type Event struct {
	// Field and Value are the field and its last value.
	Field, Value string
	// Deadline is when it expired, by the server's clock.
	Deadline time.Time
	// ID rises from event to event of a hash.
	ID string
}

const (
	// MaxEvents is how many events of a hash are kept.
	MaxEvents = 10_000
	// EventTTL is how long the events of a hash are kept after the last one.
	EventTTL = time.Hour
	// EventGrace is how long the hash outlives its last deadline, so that a sweep can make
	// events of its fields.
	EventGrace = time.Minute
	// pollEvery is how often Expired looks for new fields and events.
	pollEvery = time.Second
)

// Expired iterates over the events of a hash whose fields were set with [Options.Events]
// and waits for more. It starts after the event with the ID after, or with future events if
// after is empty. Every loop gets all events. The end of ctx and every other error end the
// loop with the error.
//
// Expired sweeps the hash when a field is due and at least once a second, so an event comes
// within a second of the deadline. A field makes at most one event, and none if it is
// removed or replaced first. Events are lost if no client sweeps the fields within
// [EventGrace] after the last deadline of the hash, or reads them before [MaxEvents] others
// or within [EventTTL]. A client that stores the ID of the last event it has handled, and
// continues after it, misses no others.
func (h *Hashes) Expired(ctx context.Context, name, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := h.expired(ctx, name, after, func(e Event) bool { return yield(e, nil) }); err != nil {
			yield(Event{}, err)
		}
	}
}

func (h *Hashes) expired(ctx context.Context, name, after string, yield func(Event) bool) error {
	keys, err := h.keys(name)
	if err != nil {
		return err
	}
	last, err := h.position(ctx, keys, after)
	if err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		native, err := h.servers.Native(ctx, keys)
		if err != nil {
			return err
		}
		const page = 100
		replies := h.client.Pipeline(ctx, []redoubt.Cmd{wire.SweepCmd(keys, h.mode(native)), {
			Name: "ZRANGEBYSCORE", Keys: keys[2:], Args: []string{"(" + decimal(last), "+inf", "LIMIT", "0", strconv.Itoa(page)}, Flags: redoubt.ReadOnly,
		}})
		s, err := wire.ReadSweep(replies[0])
		if err != nil {
			return err
		}
		found, err := replies[1].Array()
		if err != nil {
			return err
		}
		for _, f := range found {
			e, id, err := readEvent(f)
			if err != nil {
				return err
			}
			if last = id; !yield(e) {
				return nil
			}
		}
		wait := pollEvery
		if s.Next > 0 {
			wait = min(wait, max(0, time.Duration(s.Next*1000-s.Now)*time.Microsecond+time.Millisecond))
		}
		if s.More || len(found) == page {
			wait = 0
		}
		timer.Reset(wait)
	}
}

// position returns the number of the event with the ID after, or of the last event.
func (h *Hashes) position(ctx context.Context, keys wire.Keys, after string) (int64, error) {
	if after != "" {
		n, err := strconv.ParseInt(after, 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("ttlhash: %q is not the ID of an event", after)
		}
		return n, nil
	}
	found, err := h.client.Do(ctx, redoubt.Cmd{
		Name: "ZREVRANGE", Keys: keys[2:], Args: []string{"0", "0"}, Flags: redoubt.ReadOnly,
	}).Array()
	if err != nil || len(found) == 0 {
		return 0, err
	}
	_, id, err := readEvent(found[0])
	return id, err
}

// readEvent decodes a member of the events: 7 bytes with its number, 6 with the deadline
// in ms, 2 with the length of the field, the field, the value.
func readEvent(member any) (e Event, id int64, err error) {
	m, _ := member.(string)
	if len(m) < 15 {
		return Event{}, 0, fmt.Errorf("%w: an event", ErrForeign)
	}
	var b [16]byte
	copy(b[1:8], m[:7])
	copy(b[10:], m[7:13])
	id = int64(binary.BigEndian.Uint64(b[:8]))        //nolint:gosec // below 2^53
	deadline := int64(binary.BigEndian.Uint64(b[8:])) //nolint:gosec // below 2^47
	length := int(binary.BigEndian.Uint16([]byte(m[13:15])))
	if len(m) < 15+length {
		return Event{}, 0, fmt.Errorf("%w: an event", ErrForeign)
	}
	return Event{Field: m[15 : 15+length], Value: m[15+length:], Deadline: time.UnixMilli(deadline), ID: decimal(id)}, id, nil
}
