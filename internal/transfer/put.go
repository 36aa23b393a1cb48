package transfer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// picky implements [Target]: an engine stores no values of modules. The types of other
// servers are unknown.
func (s *Server) picky() bool { return s.engine }

func (s *Server) empty() bool {
	if !s.listed {
		return false
	}
	for _, n := range s.dbs {
		if n > 0 {
			return false
		}
	}
	return true
}

// to returns the target's database for keys of database db.
func (s *Server) to(db int) int {
	if s.only != AnyDatabase {
		return s.only
	}
	return db
}

// prepare implements [Target].
func (s *Server) prepare(ctx context.Context, dbs []int) error {
	if s.only != AnyDatabase && len(dbs) > 1 {
		return fmt.Errorf("keys of %d databases (%d, %d, …) would be mixed in database %d of %s: "+
			"leave the database out of its address, or copy one database at a time", len(dbs), dbs[0], dbs[1], s.only, s.c.name)
	}
	for _, db := range dbs {
		if err := s.selectDB(ctx, s.to(db)); err != nil {
			return err
		}
	}
	return nil
}

// runs calls f for each part of a batch whose keys are in one database.
func runs[T any](batch []T, db func(*T) int, f func(db int, part []T) error) error {
	for len(batch) > 0 {
		n, first := 1, db(&batch[0])
		for n < len(batch) && db(&batch[n]) == first {
			n++
		}
		if err := f(first, batch[:n]); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// taken implements [Target].
func (s *Server) taken(ctx context.Context, items []item, found *TakenError) error {
	return runs(items, func(it *item) int { return it.DB }, func(db int, part []item) error {
		if err := s.selectDB(ctx, s.to(db)); err != nil {
			return err
		}
		for i := range part {
			add(s.c, []byte("EXISTS"), part[i].Key)
		}
		return s.c.flush(ctx, func(i int, reply any) error {
			switch v := reply.(type) {
			case resp.Error:
				return fmt.Errorf("%s: EXISTS: %w", s.c.name, v)
			case int64:
				if v > 0 {
					found.add(s.to(db), part[i].Key)
				}
			}
			return nil
		})
	})
}

func (e *TakenError) add(db int, key []byte) {
	if e.Count++; e.Count == 1 {
		e.DB, e.Key = db, key
	}
}

// put implements [Target].
func (s *Server) put(ctx context.Context, batch []rdb.Entry, replace bool, wrote func(*rdb.Entry, error)) error {
	return runs(batch, func(e *rdb.Entry) int { return e.DB }, func(db int, part []rdb.Entry) error {
		if err := s.selectDB(ctx, s.to(db)); err != nil {
			return err
		}
		sent := make([]*rdb.Entry, 0, len(part))
		for i := range part {
			e := &part[i]
			payload, err := rdb.Fit(e.Payload, s.format)
			if err != nil {
				wrote(e, s.withKey(e, err))
				continue
			}
			args := [...][]byte{[]byte("RESTORE"), e.Key, strconv.AppendInt(nil, e.Deadline, 10), payload, []byte("ABSTTL"), []byte("REPLACE")}
			if replace {
				add(s.c, args[:]...)
			} else {
				add(s.c, args[:5]...)
			}
			sent = append(sent, e)
		}
		return s.c.flush(ctx, func(i int, reply any) error {
			err, failed := reply.(resp.Error)
			switch {
			case !failed:
				wrote(sent[i], nil)
			case err.Code() == "BUSYKEY":
				taken := &TakenError{}
				taken.add(s.to(db), sent[i].Key)
				wrote(sent[i], taken)
			default:
				wrote(sent[i], s.withKey(sent[i], err))
			}
			return nil
		})
	})
}

// withKey adds the key to an error.
func (s *Server) withKey(e *rdb.Entry, err error) error {
	what := rdb.Unsupported(e.Payload)
	if what != "" && !errors.Is(err, rdb.ErrNewer) {
		what = ", a " + what
	} else {
		what = ""
	}
	return fmt.Errorf("%s: key %.100q%s, in database %d: %w", s.c.name, e.Key, what, s.to(e.DB), err)
}

// finish implements [Target]. Acknowledged keys are permanent already.
func (s *Server) finish() error { return nil }
