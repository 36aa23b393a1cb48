package engine

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// A snapshot has all keys as they were at one moment, while commands go on. One goroutine goes over all keys and
// holds one shard at a time, for some keys. A command that is about to change a key which was not visited
// yet gives the key to the snapshot first. A bit of each item says whether the snapshot needs it still;
// what the bit means changes with each snapshot, so no pass is needed to reset it.
type snapshot struct {
	mark  uint8 // the value of itemTaken in the items that the snapshot has, and in items made since
	again bool  // databases were swapped, so that the pass may have missed keys; guarded by all shards

	mu     sync.Mutex
	ready  []rdb.Entry // not handed on yet
	bytes  int         // of their payloads
	failed atomic.Bool
	err    error // why, guarded by mu
}

// snapshots is what an engine knows of its snapshots. Every shard's lock is held when the fields change, and one
// when they are read.
type snapshots struct {
	mark uint8         // the value of itemTaken in a new item
	now  *snapshot     // nil: none is taken
	turn chan struct{} // has room for one: who takes a snapshot
}

// itemTaken is the bit of an item's state that snapshots use, beside itemNoted and itemGone.
const itemTaken = 1 << 7

const (
	snapshotStep  = 64        // keys that are taken with one lock
	snapshotBytes = 256 << 10 // or bytes
	snapshotRest  = 200 * time.Microsecond
	// mostSnapshot bounds the payloads of changed keys that wait until the receiver has taken what came before.
	mostSnapshot = 256 << 20
)

var (
	errFlushed      = errors.New("keys were deleted by FLUSHALL or FLUSHDB, or databases swapped, meanwhile")
	errSlowReceiver = errors.New("more than 256 MiB of changed keys wait to be written")
)

// snapshot calls begin at the moment of the snapshot, with every shard locked, and then emit with all keys. Keys
// of a database need not follow each other. It takes one snapshot at a time: later ones wait.
func (e *Engine) snapshot(ctx context.Context, begin func(), emit func([]rdb.Entry) error) error {
	select {
	case e.snapshots.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-e.snapshots.turn }()
	s := &snapshot{}
	e.replication.repeating.Lock()
	e.stopped(func() {
		e.snapshots.mark ^= itemTaken
		s.mark = e.snapshots.mark
		e.snapshots.now = s
		begin()
	})
	e.replication.repeating.Unlock()
	hand := func() {
		if err := ctx.Err(); err != nil {
			s.fail(err)
		}
		if e.closed.Load() {
			s.fail(ErrClosed)
		}
		if s.failed.Load() {
			return
		}
		s.mu.Lock()
		ready := s.ready
		s.ready, s.bytes = nil, 0
		s.mu.Unlock()
		if err := emit(ready); err != nil {
			s.fail(err)
		}
	}
	rest := time.Duration(0)
	for pass := true; pass; { // also after a failure: the next snapshot counts on the marks
		for i := range e.shards {
			for db := range databaseCount {
				for cursor, more := uint64(0), true; more; more = cursor != 0 {
					began := time.Now()
					cursor = e.snapshotPart(s, &e.shards[i], db, cursor)
					hand()
					rest += time.Since(began)
					if rest > snapshotRest { // half of the time belongs to commands, also where there is one core
						time.Sleep(min(rest, time.Millisecond)) // a slow receiver has let them work already
						rest = 0
					}
				}
			}
		}
		e.stopped(func() {
			if pass, s.again = s.again, false; !pass {
				e.snapshots.now = nil
			}
		})
	}
	hand()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// A fileCopy writes a snapshot as an RDB file.
type fileCopy struct {
	to        io.Writer
	out       *rdb.FileWriter
	version   int
	libraries []*library
	now       time.Time
	streamDB  int // the database that the stream has selected behind this moment, -1: it will say
}

// newCopy is called at the moment of the snapshot. The file has the version that Redis 7.0 reads, unless
// there are fields with a time to live, which Redis 7.4 is the first to have.
func (e *Engine) newCopy(to io.Writer) *fileCopy {
	c := &fileCopy{to: to, version: rdb.Version, libraries: e.functions.list(), now: e.clock.Now(), streamDB: -1}
	for i := range e.shards {
		for _, ks := range e.shards[i].dbs {
			if ks != nil && ks.fields.len() > 0 {
				c.version = rdb.VersionFieldTTL
			}
		}
	}
	return c
}

func (c *fileCopy) write(entries []rdb.Entry) (err error) {
	if c.out == nil {
		if c.out, err = rdb.NewFileWriter(c.to, c.version, c.now); err != nil {
			return err
		}
		if c.streamDB >= 0 {
			if err := c.out.StreamDB(c.streamDB); err != nil {
				return err
			}
		}
		for _, l := range c.libraries {
			if err := c.out.Library(l.code); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		if err := c.out.Write(e); err != nil {
			return err
		}
	}
	return nil
}

func (c *fileCopy) close() error { return c.out.Close() }

// stopped calls f with every shard locked. It waits for slow scripts without a lock, so that commands can answer BUSY.
func (e *Engine) stopped(f func()) {
	var all shardSet
	all.fill()
	for !e.lockAll(&all, (*shard).lockUnlessSlow) {
		if e.closed.Load() {
			e.lock(&all)
			break
		}
		time.Sleep(time.Millisecond)
	}
	defer e.unlock(&all)
	f()
}

// snapshotPart takes some keys, and returns the cursor of the next ones, or 0.
func (e *Engine) snapshotPart(s *snapshot, sh *shard, db int, cursor uint64) uint64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ks := sh.dbs[db]
	if ks == nil {
		return 0
	}
	keys := 0
	for buckets := 16 * snapshotStep; buckets > 0; buckets-- {
		cursor = ks.keys.scan(cursor, func(it *item) {
			keys++
			s.take(db, it)
		})
		s.mu.Lock()
		enough := s.bytes > snapshotBytes
		s.mu.Unlock()
		if cursor == 0 || keys >= snapshotStep || enough {
			break
		}
	}
	return cursor
}

// take gives an item to the snapshot, unless it has it. The item's shard is locked.
func (s *snapshot) take(db int, it *item) {
	if it.val.state&itemTaken == s.mark {
		return
	}
	it.val.state ^= itemTaken
	if s.failed.Load() {
		return
	}
	payload := rdb.Payload(nil, it.val.export(func(int) {}))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes > mostSnapshot {
		s.ready, s.err = nil, errSlowReceiver
		s.failed.Store(true)
		return
	}
	s.bytes += len(payload) + len(it.key)
	s.ready = append(s.ready, rdb.Entry{DB: db, Key: view(it.key), Deadline: it.val.expire, Payload: payload})
}

// fail gives the snapshot up.
func (s *snapshot) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.ready = nil
	s.failed.Store(true)
}

// takeFirst gives an item to the snapshot before a call changes it.
func (c *call) takeFirst(s *snapshot, ks *keyspace, it *item) {
	db := c.db
	for i, other := range c.e.shards[shardOf(view(it.key))].dbs {
		if other == ks {
			db = i
			break
		}
	}
	s.take(db, it)
}
