package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// saves are the RDB files that SAVE and BGSAVE write beside the log: copies of all keys at one moment, for backups and
// for Redis. The engine itself reads its log, and no such file.
type saves struct {
	mu      sync.Mutex
	running bool
	last    time.Time // of the last that succeeded; at first that of the start
	err     error     // of the last
	took    time.Duration
	changes int64 // of the engine, when the last that succeeded began
}

const (
	rdbFile     = "dump.rdb"
	rdbTempFile = "dump.rdb.tmp"
)

// begin reports whether no other save runs.
func (s *saves) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return false
	}
	s.running = true
	return true
}

// save writes an RDB file, after begin. The file of before stays until the new one is whole and on disk.
func (e *Engine) save() error {
	began := time.Now()
	s := &e.saves
	var changes int64
	err := e.writeFile(func() { changes = e.changes() })
	if log := e.opts.Logger; log != nil && err != nil {
		log.Error("an RDB file could not be written", slog.Any("error", err))
	}
	s.end(time.Since(began), err, changes)
	if err == nil {
		s.mu.Lock()
		s.last = e.clock.Now()
		s.mu.Unlock()
	}
	return err
}

// end notes the end of a save.
func (s *saves) end(took time.Duration, err error, changes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.err, s.took = false, err, took
	if err == nil {
		s.changes = changes
	}
}

func (e *Engine) writeFile(begin func()) (err error) {
	f, err := e.fs.Create(rdbTempFile)
	if err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			_ = f.Close()
		}
		if err != nil {
			_ = e.fs.Remove(rdbTempFile)
		}
	}()
	var w *fileCopy
	if err := e.snapshot(context.Background(), func() {
		begin()
		w = e.newCopy(io.NewOffsetWriter(f, 0))
	}, func(entries []rdb.Entry) error { return w.write(entries) }); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	open = false
	if err := f.Close(); err != nil {
		return err
	}
	if err := e.fs.Rename(rdbTempFile, rdbFile); err != nil {
		return err
	}
	return e.fs.Sync()
}

// changes counts the changes since the start.
func (e *Engine) changes() int64 {
	n := e.stats.dirty.Load()
	for i := range e.shards {
		n += e.shards[i].counters.dirty
	}
	return n
}

func cmdSave(c *call) {
	switch {
	case c.e.fs == nil:
		c.err("ERR nothing is saved by this engine: it has no directory")
	case !c.e.saves.begin():
		c.err("ERR Background save already in progress")
	default:
		if err := c.e.save(); err != nil {
			c.err("ERR " + err.Error())
			return
		}
		c.ok()
	}
}

// cmdBgsave begins a save and does not wait for it. INFO has its end.
func cmdBgsave(c *call) {
	switch {
	case len(c.args) > 2 || len(c.args) == 2 && !is(c.args[1], "schedule"):
		c.syntax()
	case c.e.fs == nil:
		c.err("ERR nothing is saved by this engine: it has no directory")
	case !c.e.saves.begin():
		c.err("ERR Background save already in progress")
	default:
		e := c.e                                          // c runs other commands meanwhile
		if !e.background.start(func() { _ = e.save() }) { // INFO has the error
			e.saves.end(0, errors.New(closed), 0)
			c.err(closed)
			return
		}
		c.status("Background saving started")
	}
}

// cmdLastsave answers with the time of the last RDB file, or of the start.
func cmdLastsave(c *call) {
	s := &c.e.saves
	s.mu.Lock()
	defer s.mu.Unlock()
	c.int(s.last.Unix())
}

// info writes the part of INFO on RDB files. dirty counts the changes since the start.
func (s *saves) info(b *strings.Builder, dirty int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running, status, took := 0, "ok", int64(-1)
	if s.running {
		running = 1
	}
	if s.err != nil {
		status = "err"
	}
	if s.took > 0 {
		took = int64(s.took.Seconds())
	}
	fmt.Fprintf(b, "rdb_changes_since_last_save:%d\r\nrdb_bgsave_in_progress:%d\r\nrdb_last_save_time:%d\r\nrdb_last_bgsave_status:%s\r\nrdb_last_bgsave_time_sec:%d\r\n",
		max(0, dirty-s.changes), running, s.last.Unix(), status, took)
}
