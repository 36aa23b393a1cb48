package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// Recovered returns how much Open found in the directory, and how much it cut off.
func (e *Engine) Recovered() aof.Found { return e.found }

// SaveErr returns why changes can't be saved now, and so are refused: the disk is
// full, or fails. It is nil while all is well, and without a directory.
func (e *Engine) SaveErr() error {
	if e.log == nil {
		return nil
	}
	return e.log.Err()
}

// logNotice logs trouble with the directory.
func (e *Engine) logNotice(err error) {
	switch log := e.opts.Logger; {
	case log == nil:
	case err != nil:
		log.Error("trouble with the directory", slog.Any("error", err))
	default:
		log.Info("the directory can be written to again")
	}
}

// Compact rewrites the log to the changes that still matter. The engine does so by itself as the
// log grows. Commands go on meanwhile. Until Compact returns it takes the memory of a second copy
// of the data, or a quarter of MaxMemory if that is set.
func (e *Engine) Compact(ctx context.Context) error {
	if e.log == nil {
		return fmt.Errorf("engine: nothing is saved by this engine: it has no directory")
	}
	return e.log.Compact(ctx)
}

// startLoading stops time at its beginning. A key expires only when the log deletes it: commands in
// the log that used the key before must find it.
func (e *Engine) startLoading() {
	e.loading = true
	e.sweeper.off.Store(true)
}

func (e *Engine) endLoading() {
	e.loading = false
	e.stats.dirty.Store(0)
	e.stats.commands.Store(0)
	for i := range e.shards {
		e.shards[i].counters = counters{}
	}
	e.sweeper.off.Store(false)
	e.sweeper.wake(e, e.nowMS())
	if e.memory.over() {
		e.evictLater()
	}
}

// replayer returns a function that repeats records. It fails on an error reply, which means that
// the log does not belong to this state.
func (e *Engine) replayer() func(aof.Record) error {
	s := e.unlisted()
	var out []byte
	return func(r aof.Record) (err error) {
		s.db = r.DB
		for _, args := range r.Commands {
			if out, err = s.repeat(out, s.db, args); err != nil {
				return err
			}
		}
		return nil
	}
}

// cmdBgrewriteaof starts a compaction and does not wait for it. INFO shows its result.
func cmdBgrewriteaof(c *call) {
	switch {
	case c.e.log == nil:
		c.err("ERR nothing is saved by this engine: it has no directory")
	case !c.e.log.StartCompaction():
		c.err("ERR Background append only file rewriting already in progress")
	default:
		c.status("Background append only file rewriting started")
	}
}

// infoLog writes the log's part of INFO.
func (e *Engine) infoLog(b *strings.Builder) {
	if e.log == nil {
		b.WriteString("aof_enabled:0\r\naof_rewrite_in_progress:0\r\n")
		return
	}
	running := 0
	if e.log.Compacting() {
		running = 1
	}
	status := func(err error) string {
		if err != nil {
			return "err"
		}
		return "ok"
	}
	base, logs := e.log.Size()
	fmt.Fprintf(b, "aof_enabled:1\r\naof_fsync:%s\r\naof_rewrite_in_progress:%d\r\naof_last_bgrewrite_status:%s\r\naof_last_write_status:%s\r\naof_current_size:%d\r\naof_base_size:%d\r\n",
		e.opts.Fsync, running, status(e.log.CompactErr()), status(e.log.Err()), base+logs, base)
	torn := int64(0)
	if t := e.found.Torn; t != nil {
		torn = t.Bytes
	}
	synced := int64(-1)
	if at := e.log.Synced(); !at.IsZero() {
		synced = time.Since(at).Milliseconds()
	}
	fmt.Fprintf(b, "aof_torn_bytes:%d\r\naof_rewrites:%d\r\naof_last_sync_age_ms:%d\r\n", torn, e.log.Compactions(), synced)
}

// misconf is the reply to a write that can't be saved.
func misconf(err error) string {
	return "MISCONF The engine can't save changes, so commands that may modify the data are refused: " + err.Error()
}

// misconfWait is the reply to a command that ran, but whose change could not be saved.
func misconfWait(err error) []byte {
	return resp.AppendError(nil, lost(err).Error())
}

func lost(err error) error {
	return fmt.Errorf("MISCONF What this reply depends on could not be saved, and may be lost: %w", err)
}

// depends returns the position in the log up to which the replies since the last call depend on the
// disk, 0 for none.
func (l *callSession) depends() uint64 {
	end := l.s.seen
	l.s.seen = 0
	return end
}

// awaitSaved waits until the log is on disk up to end, or ctx ends, and then makes
// the replies errors.
func (e *Engine) awaitSaved(ctx context.Context, end uint64, cmds []redoubt.Cmd, replies []redoubt.Reply) {
	if end == 0 || e.log.Saved(end) {
		return
	}
	var err error
	if ctx.Done() == nil {
		err = e.log.Wait(end)
	} else {
		saved := make(chan error, 1)
		e.log.After(end, func(err error) { saved <- err })
		select {
		case err = <-saved:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		for i := range cmds {
			replies[i] = unsaved(&cmds[i], err)
		}
	}
}

func (e *Engine) awaitSavedOne(ctx context.Context, end uint64, cmd redoubt.Cmd, r redoubt.Reply) redoubt.Reply {
	replies := [1]redoubt.Reply{r}
	e.awaitSaved(ctx, end, []redoubt.Cmd{cmd}, replies[:])
	return replies[0]
}

// unsaved is the reply to a command that ran, but depends on a change that is not on disk.
func unsaved(cmd *redoubt.Cmd, err error) redoubt.Reply {
	if cmd.Flags&redoubt.ReadOnly == 0 {
		err = redoubt.UnknownOutcome(err)
	}
	return redoubt.Reply{Err: err}
}

// unwritable returns why the command may not be run now, "" when it may.
func (s *Session) unwritable(cmd *command) string {
	e := s.e
	if why := s.readOnly(cmd); why != "" {
		return why
	}
	if e.log == nil || cmd.flags&flagWrite == 0 {
		return ""
	}
	switch err := e.log.Err(); {
	case err == nil:
		return ""
	case errors.Is(err, ErrClosed):
		return closed
	default:
		return misconf(err)
	}
}

// mayLog reports whether the command, which may be nil, is about to change data; it then waits
// while the disk is behind. No lock is held. Reads count as no change although they may log the
// expiry of a key: that happens once for each key.
func (c *call) mayLog(cmd *command) bool {
	switch {
	case cmd == nil:
		return false
	case !c.s.inMulti:
		return cmd.writes()
	case cmd.Name != "exec":
		return false // it is queued
	}
	return slices.ContainsFunc(c.s.queue, func(q queued) bool { return q.cmd.writes() })
}

// writes says whether a command or a script may write.
func (cmd *command) writes() bool {
	return cmd.flags&flagWrite != 0 || cmd.flags&flagScript != 0 && cmd.flags&flagReadonly == 0
}

// see notes the position in the log that the reply depends on: the reply may not leave before that
// is on disk. The shards are still locked.
func (c *call) see() {
	if c.e.strict && c.s != nil {
		c.eachHeld(func(sh *shard) { c.s.seen = max(c.s.seen, sh.saved) })
	}
}

// SyncLater lets Do return before the changes that its reply depends on are on disk. The caller
// must call Sync before it hands out such a reply, so that many commands share one wait. It has no
// effect unless the policy is aof.Always.
func (s *Session) SyncLater() { s.later = true }

// Sync waits until all changes that the replies of Do so far depend on are on disk. After an error
// no reply since the last Sync may be handed out: the changes may be lost. The error's text is that
// of the error reply for the client.
func (s *Session) Sync() error {
	end := s.seen
	if end == 0 {
		return nil
	}
	s.seen = 0
	if err := s.e.log.Wait(end); err != nil {
		return lost(err)
	}
	return nil
}

// synced waits for the changes that a reply depends on, and replaces the reply when they could not
// be saved.
func (s *Session) synced(w []byte, from int) []byte {
	if s.seen == 0 || s.later {
		return w
	}
	if err := s.Sync(); err != nil {
		return resp.AppendError(w[:from], err.Error())
	}
	return w
}

// tellDurability sets the answers of CONFIG GET about the log, in Redis' words.
func (e *Engine) tellDurability() {
	fsync := e.opts.Fsync.String()
	if e.opts.Fsync == aof.Never {
		fsync = "no"
	}
	dir, err := filepath.Abs(e.opts.Dir)
	if err != nil {
		dir = e.opts.Dir
	}
	v := e.config.values
	v["appendonly"], v["appendfsync"], v["dir"] = "yes", fsync, dir
}
