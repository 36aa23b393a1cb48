package transfer

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

const (
	pageKeys   = 1000    // COUNT of SCAN
	batchBytes = 4 << 20 // of values in flight
	batchKeys  = 500
)

// databases returns the databases to copy, and the number of keys in each.
func (s *Server) databases() map[int]int64 {
	if s.only == AnyDatabase {
		return s.dbs
	}
	return map[int]int64{s.only: s.dbs[s.only]}
}

func (s *Server) total() (n int64) {
	for _, keys := range s.databases() {
		n += keys
	}
	return n
}

// scan calls f with the keys of all databases, page by page. SCAN may return a key twice.
func (s *Server) scan(ctx context.Context, f func(db int, keys []string) error) error {
	for _, db := range slices.Sorted(maps.Keys(s.databases())) {
		for cursor, more := "0", true; more; more = cursor != "0" {
			if err := s.selectDB(ctx, db); err != nil {
				return err
			}
			reply, err := s.c.do(ctx, "SCAN", cursor, "COUNT", strconv.Itoa(pageKeys))
			if err != nil {
				return err
			}
			page, _ := reply.([]any)
			if len(page) != 2 {
				return fmt.Errorf("%s: SCAN answers %.100q", s.c.name, reply)
			}
			list, _ := page[1].([]any)
			keys := make([]string, 0, len(list))
			for _, k := range list {
				if k, ok := k.(string); ok {
					keys = append(keys, k)
				}
			}
			cursor, _ = page[0].(string)
			if err := f(db, keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// survey implements [Source].
func (s *Server) survey(ctx context.Context, types bool, progress func(done, total int64), f func([]item) error) error {
	var done int64
	return s.scan(ctx, func(db int, keys []string) error {
		items := make([]item, len(keys))
		for i, k := range keys {
			items[i].DB, items[i].Key = db, []byte(k)
			if types {
				add(s.c, "TYPE", k)
			}
		}
		err := s.c.flush(ctx, func(i int, reply any) error {
			switch reply {
			case "string", "list", "set", "zset", "hash", "stream", "none":
			default:
				if err, ok := reply.(resp.Error); ok {
					return fmt.Errorf("%s: TYPE: %w", s.c.name, err)
				}
				items[i].what = "value of a module"
			}
			return nil
		})
		if err != nil {
			return err
		}
		done += int64(len(keys))
		progress(done, max(done, s.total()))
		return f(items)
	})
}

var seed = maphash.MakeSeed()

// unseen drops keys that were returned before. It compares 64-bit hashes, some 20 bytes of memory per key. Of
// a billion keys two may have the same hash, and one is then not copied: less than once in 37 such moves.
func (s *Server) unseen(db int, keys []string) []string {
	if s.seen == nil {
		s.seen = map[uint64]struct{}{}
	}
	return slices.DeleteFunc(keys, func(k string) bool {
		h := maphash.String(seed, k) ^ uint64(db)*0x9e3779b97f4a7c15 //nolint:gosec // a database number
		_, there := s.seen[h]
		s.seen[h] = struct{}{}
		return there
	})
}

// each implements [Source].
func (s *Server) each(ctx context.Context, gone *int64, f func([]rdb.Entry) error) error {
	return s.scan(ctx, func(db int, keys []string) error {
		keys = s.unseen(db, keys)
		sizes, err := s.sizes(ctx, keys)
		for err == nil && len(keys) > 0 {
			asked := 1
			for bytes := sizes[0]; asked < min(len(keys), batchKeys); asked++ {
				if bytes += sizes[asked]; bytes > batchBytes {
					break
				}
			}
			var batch []rdb.Entry
			if batch, err = s.values(ctx, db, keys[:asked]); err != nil {
				return err
			}
			keys, sizes = keys[asked:], sizes[asked:]
			*gone += int64(asked - len(batch))
			if len(batch) > 0 {
				err = f(batch)
			}
		}
		return err
	})
}

// sizes returns the approximate sizes of values, so that not too many large ones are in flight.
func (s *Server) sizes(ctx context.Context, keys []string) ([]int64, error) {
	sizes := make([]int64, len(keys))
	for _, k := range keys {
		add(s.c, "MEMORY", "USAGE", k)
	}
	err := s.c.flush(ctx, func(i int, reply any) error {
		switch v := reply.(type) {
		case int64:
			sizes[i] = v
		case nil: // the key is gone
		default:
			sizes[i] = batchBytes / 16 // unknown: the server is old, or refuses the command
		}
		return nil
	})
	return sizes, err
}

// values reads values with their expiry times, and leaves out keys that are gone. Each key has its own
// transaction: between two commands it could get another value and another expiry time.
func (s *Server) values(ctx context.Context, db int, keys []string) (batch []rdb.Entry, err error) {
	deadline := "PTTL"
	if s.times {
		deadline = "PEXPIRETIME"
	}
	for _, k := range keys {
		add(s.c, "MULTI")
		add(s.c, deadline, k)
		add(s.c, "DUMP", k)
		add(s.c, "EXEC")
	}
	now := time.Now().UnixMilli() // before PTTL is sent, so that no key lives too long
	all := make([]rdb.Entry, len(keys))
	err = s.c.flush(ctx, func(i int, reply any) error {
		const commands = 4
		k := i / commands
		if err, failed := reply.(resp.Error); failed {
			return fmt.Errorf("%s: key %.100q in database %d: %w", s.c.name, keys[k], db, err)
		}
		if i%commands != commands-1 {
			return nil // OK or QUEUED
		}
		both, _ := reply.([]any)
		if len(both) != 2 {
			return fmt.Errorf("%s: key %.100q in database %d: EXEC answers %.100q", s.c.name, keys[k], db, reply)
		}
		for _, r := range both {
			if err, failed := r.(resp.Error); failed {
				return fmt.Errorf("%s: key %.100q in database %d: %w", s.c.name, keys[k], db, err)
			}
		}
		payload, there := both[1].(string)
		if !there {
			return nil
		}
		e := &all[k]
		e.DB, e.Key, e.Payload = db, []byte(keys[k]), []byte(payload)
		if v, ok := both[0].(int64); ok && v >= 0 {
			e.Deadline = max(1, v)
			if !s.times {
				e.Deadline = now + v
			}
		}
		return nil
	})
	for _, e := range all {
		if e.Payload != nil {
			batch = append(batch, e)
		}
	}
	return batch, err
}
