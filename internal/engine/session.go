package engine

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Session is one client's state: its database, protocol, transaction and subscriptions. One
// goroutine at a time may use it; other goroutines may only cause calls of the function of
// [Session.OnPush].
type Session struct {
	e     *Engine
	group *Group // nil for none
	id    int64
	c     call
	proto resp.Protocol
	db    int

	inMulti   bool
	executing bool // between EXEC and its reply
	abort     bool // a command was refused while queueing
	queue     []queued
	queued    int // bytes in queue
	account   Account
	queueHeld bufferAccount // of queue
	reply     bufferAccount // while it is made, and until it is handed over
	watching  []dbKey
	stale     atomic.Bool // a watched key was written to

	watchBytes int // in watching
	watchHeld  bufferAccount
	unwatching bool // watching is to be dropped

	subs      subscriptions
	pushMu    sync.Mutex
	push      func([]byte)
	pushProto atomic.Uint32 // proto, for publishers
	host      *scriptHost   // nil before the first script
	limits    Limits        // nil: none
	outer     OuterSettings // nil: none

	lastCommand *command // the command that lastName names, as the client writes it
	lastName    [rediscmd.MaxName]byte
	lastLen     int

	lastScript    *script // the last script of EVALSHA, valid while the number of flushes is the same
	scriptFlushes int64
	lastEval      *script // the last script of EVAL, likewise
	evalFlushes   int64

	wait atomic.Pointer[Wait]

	seen  uint64 // the position in the log that the replies depend on
	later bool   // SyncLater was called

	loaded byte // by Prefetch, so that the compiler leaves its loads

	stripe  int           // of commandStats
	as      *commandStats // of the command for which scripts run: see Begin; nil: none
	asArgs  [][]byte
	asName  string        // that of lastAs
	lastAs  *commandStats // of the latest Begin
	ran     bool          // a command has run since Begin
	asTimed bool          // Begin read the clock
	asBegan time.Duration

	replica replicaSetup // what REPLCONF has said
	replays bool         // it repeats what a master has done: nothing expires, and writes are allowed

	replies    replyMode
	quitting   bool // no command follows the one at hand
	monitoring atomic.Bool
	tracker    atomic.Pointer[tracker]
	client     clientInfo
	counted    bool // by clients, whose mu guards this
}

// Session opens a session in RESP2 and database 0.
func (e *Engine) Session() *Session {
	s := &Session{e: e}
	s.SetProtocol(resp.RESP2)
	s.client.born = e.clock.Now()
	s.client.seen, s.client.queued = s.client.born, -1
	s.id = e.clients.add(s)
	s.stripe = int(s.id % statStripes)
	e.stats.connections.Add(1)
	return s
}

// unlisted opens a session that CLIENT LIST does not show.
func (e *Engine) unlisted() *Session {
	s := &Session{e: e}
	s.SetProtocol(resp.RESP2)
	s.id = e.clients.number()
	s.stripe = int(s.id % statStripes)
	return s
}

// changed reports whether the session is not as it began.
func (s *Session) changed() bool {
	return s.inMulti || s.db != 0 || s.proto != resp.RESP2 || s.subs.count > 0 || len(s.watching) > 0 ||
		s.replies != repliesOn || s.tracker.Load() != nil || s.monitoring.Load() || s.quitting
}

// ID returns the number of the session, unique in its engine.
func (s *Session) ID() int64 { return s.id }

// Protocol returns the version in which replies are written.
func (s *Session) Protocol() resp.Protocol { return s.proto }

// SetProtocol changes the version in which replies are written, as HELLO does.
func (s *Session) SetProtocol(p resp.Protocol) {
	s.proto = p
	s.pushProto.Store(uint32(p))
}

// Limits returns what the script with this digest and these declared keys may not run. asks is for
// redis.acl_check_cmd, runs for a command that the script runs. Both return the error for a command, or "" if the
// script may run it. Both are nil if the script may run all commands.
type Limits = func(digest string, keys [][]byte) (asks, runs func(args [][]byte) string)

// SetLimits sets the limits of scripts. The engine calls l when a script begins, in the goroutine that runs it.
func (s *Session) SetLimits(l Limits) { s.limits = l }

// SetOuter sets what has the [OuterSettings] of the session's client. Call it before the session runs commands.
func (s *Session) SetOuter(o OuterSettings) { s.outer = o }

// DB returns the number of the selected database.
func (s *Session) DB() int { return s.db }

// OnPush sets the function that gets the messages of subscriptions, as encoded frames. Publishers
// call it with locks held, so it must be quick and must not call the engine. All receivers share a
// frame: it must not be changed.
func (s *Session) OnPush(f func(frame []byte)) {
	s.pushMu.Lock()
	s.push = f
	s.pushMu.Unlock()
}

func (s *Session) pushProtocol() resp.Protocol { return resp.Protocol(s.pushProto.Load()) }

func (s *Session) deliver(frame []byte) {
	s.pushMu.Lock()
	f := s.push
	s.pushMu.Unlock()
	if f != nil {
		f(frame)
	}
}

// Close drops the session's subscriptions, watched keys, queued commands and blocked command.
func (s *Session) Close() {
	if w := s.wait.Load(); w != nil {
		w.Cancel()
	}
	s.discard()
	s.finishUnwatch()
	s.HandedOver()
	s.e.pubsub.drop(s)
	s.e.monitors.remove(s)
	s.track(nil)
	s.e.clients.remove(s)
}

// Reset brings the session back to how it began, as RESET does.
func (s *Session) Reset() {
	s.discard()
	s.e.pubsub.drop(s)
	s.e.monitors.remove(s)
	s.track(nil)
	s.db, s.replies = 0, repliesOn
	s.SetProtocol(resp.RESP2)
	s.setName(nil)
}

// Do runs a command and appends its reply to dst. It reads the arguments in place, and copies what
// it keeps.
//
// When the command has to wait, like BLPOP on an empty list, Do appends nothing and returns a
// [Wait], which has the reply later. Until then the session can run no other command.
func (s *Session) Do(dst []byte, args [][]byte) ([]byte, *Wait) {
	out, wait, _ := s.do(dst, args, false)
	return out, wait
}

// do is Do. With try, it does nothing and ran is false when other calls hold locks that the command
// needs.
func (s *Session) do(dst []byte, args [][]byte, try bool) (out []byte, wait *Wait, ran bool) {
	if len(args) == 0 {
		return dst, nil, true
	}
	c := &s.c
	c.reads, c.try, c.busy, c.confirms, c.from = false, try, false, false, len(dst)
	c.e, c.s, c.args, c.w, c.proto, c.db = s.e, s, args, dst, s.proto, s.db
	c.roomy = 0
	c.now, c.dirty, c.wait, c.only, c.noBlock = 0, 0, nil, nil, false
	c.ready, c.touched, c.logged = c.ready[:0], nil, false
	c.effects.reset()
	c.dispatch()
	return c.done()
}

// find is the function find for a session. It tries the session's last command first: clients
// repeat themselves.
func (s *Session) find(name []byte) *command {
	if string(name) == string(s.lastName[:s.lastLen]) {
		return s.lastCommand
	}
	cmd := find(name)
	if cmd != nil {
		s.lastCommand, s.lastLen = cmd, copy(s.lastName[:], name)
	}
	return cmd
}

// runnable returns the command, or the subcommand, that args name, or nil if it isn't known or takes another number of
// arguments.
func (s *Session) runnable(args [][]byte) *command {
	cmd := s.find(args[0])
	if cmd != nil {
		cmd = cmd.resolve(args)
	}
	if cmd == nil || !cmd.Takes(len(args)) {
		return nil
	}
	return cmd
}

// dispatch runs the command, queues it or refuses it.
func (c *call) dispatch() {
	defer c.recoverUnlocked(len(c.w)) // for panics while no lock is held
	s, args := c.s, c.args
	cmd := s.find(args[0])
	c.cmd, s.ran = cmd, true
	if s.e.log != nil && c.mayLog(cmd) {
		if c.try && s.e.log.Throttles() {
			c.busy = true
			return
		}
		s.e.log.Throttle()
	}
	if !c.admit(&cmd) {
		return
	}
	c.cmd = cmd
	if s.inMulti && cmd.flags&flagControl == 0 {
		if why := s.enqueue(cmd, args); why != "" {
			s.abandonQueue()
			c.err(why)
			return
		}
		c.w = append(c.w, "+QUEUED\r\n"...)
		return
	}
	if cmd.flags&flagNoLock == 0 {
		c.execute()
		return
	}
	c.handle()  // it needs no shard, or locks them itself
	c.cmd = cmd // EXEC has run others
	c.e.stats.commands.Add(1)
	if c.e.monitors.n.Load() > 0 {
		c.monitor(args)
	}
}

func (c *call) done() ([]byte, *Wait, bool) {
	w, wait := c.w, c.wait
	c.w, c.args, c.wait = nil, nil, nil
	s := c.s
	c.releaseEffects() // which a panic may have left
	if cap(c.keyBuf) > manyKeys {
		c.keyBuf = nil
	}
	if s.reply.bytes > 0 && cap(w) <= longReply {
		s.HandedOver()
	}
	if s.seen != 0 {
		w = s.synced(w, c.from)
	}
	if len(w) > c.from && w[c.from] == '-' {
		s.countError(w[c.from:])
	}
	if s.replies != repliesOn {
		w = c.silence(w, wait)
	}
	if t := s.tracker.Load(); t != nil {
		c.afterCaching(t)
	}
	return w, wait, !c.busy
}

// silence drops the reply if CLIENT REPLY asked for that.
func (c *call) silence(w []byte, wait *Wait) []byte {
	s := c.s
	switch s.replies {
	case skipNext:
		s.replies = skipThis
		return w[:c.from]
	case skipThis:
		s.replies = repliesOn
	default:
	}
	if wait != nil {
		wait.mute = true
	}
	if c.confirms {
		return w
	}
	return w[:c.from]
}

// admit refuses a command that can't run, and replaces a command by its subcommand.
func (c *call) admit(p **command) bool {
	s := c.s
	msg := ""
	cmd := *p
	if cmd == nil {
		msg = unknownCommand(c.args)
	} else if *p = cmd.resolve(c.args); *p == nil {
		msg = "ERR unknown subcommand '" + clip(c.args[1], 128) + "'. Try " + strings.ToUpper(cmd.Name) + " HELP."
	} else if cmd = *p; !cmd.Takes(len(c.args)) {
		msg = "ERR wrong number of arguments for '" + cmd.Name + "' command"
	} else if s.subs.count > 0 && s.proto == resp.RESP2 && cmd.flags&flagSubscribed == 0 {
		msg = "ERR Can't execute '" + cmd.Name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	} else if s.inMulti && cmd.flags&flagNoMulti != 0 {
		msg = "ERR Command not allowed inside a transaction"
	} else if s.e.scripts.slow.Load() > 0 && !s.replays && c.busyFor(cmd) {
		if msg = s.e.scripts.busyWith(); cmd.Name == "exec" && s.inMulti {
			msg = busyExec
			s.discard()
		}
	} else if why := s.unwritable(cmd); why != "" {
		msg = why
	} else if why := c.refusesScript(cmd); why != "" {
		msg = why
	} else if why := c.crowded(cmd); why != "" {
		msg = why
	} else {
		return true
	}
	if s.inMulti {
		s.abandonQueue()
	}
	if cmd != nil && *p != nil {
		s.e.commandStats.of(cmd).rejected.Add(1)
	}
	c.err(msg)
	return false
}

func unknownCommand(args [][]byte) string {
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= 128 {
			break
		}
		fmt.Fprintf(&b, "'%s' ", clip(a, 128-b.Len()))
	}
	return fmt.Sprintf("ERR unknown command '%s', with args beginning with: %s", clip(args[0], 128), b.String())
}

// clip returns at most n bytes of b, as C's %.*s does: up to a zero byte.
func clip(b []byte, n int) string {
	if len(b) > n {
		b = b[:n]
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

func panicText(r any) string {
	if err, ok := r.(error); ok {
		return err.Error()
	}
	return fmt.Sprint(r)
}

// clients numbers the sessions.
type clients struct {
	mu   sync.Mutex
	next int64
	byID map[int64]*Session
	n    int // how many of these are clients: not the program's own, nor another connection of a client
}

func (cl *clients) add(s *Session) int64 {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.next++
	cl.byID[cl.next] = s
	return cl.next
}

func (cl *clients) number() int64 {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.next++
	return cl.next
}

func (cl *clients) remove(s *Session) {
	cl.mu.Lock()
	delete(cl.byID, s.id)
	if s.counted {
		s.counted = false
		cl.n--
	}
	cl.mu.Unlock()
}

// count counts s as a client in INFO.
func (cl *clients) count(s *Session) {
	cl.mu.Lock()
	s.counted = true
	cl.n++
	cl.mu.Unlock()
}

// SessionFor opens a session for a client whose connection the caller reads and writes. MONITOR and
// CLIENT LIST show its addresses. The caller must call Sync as [Session.SyncLater] says, and Close
// after use.
func (e *Engine) SessionFor(client net.Conn) *Session {
	s := e.Session()
	s.SyncLater()
	s.client.set(client.RemoteAddr().String(), client.LocalAddr().String(), nil)
	e.clients.count(s)
	return s
}

// Run is [Session.Do], and waits for a command that has to wait. When ctx ends first, the command
// is given up and nothing is appended.
func (s *Session) Run(ctx context.Context, dst []byte, args [][]byte) []byte {
	out, w := s.Do(dst, args)
	if w == nil {
		return out
	}
	select {
	case <-w.Done():
	case <-ctx.Done():
		if w.Cancel() {
			return out
		}
		<-w.Done()
	}
	return w.Append(out)
}

// Quick reports whether a command takes microseconds, unless it has to wait or
// replies with a large value.
func (s *Session) Quick(args [][]byte) bool {
	if len(args) > 64 {
		return false
	}
	cmd := s.find(args[0])
	switch {
	case cmd == nil: // an error
		return true
	case cmd.flags&flagPops != 0 && len(args) > 2:
		return len(args[2]) <= 2 // digits
	case cmd.flags&flagReads != 0:
		return countsFew(args)
	case cmd.flags&(flagQuick|flagQuickIfShort) != 0:
		return true
	case cmd.flags&flagQuickAlone != 0:
		return len(args) == 2
	case cmd.flags&flagScript != 0:
		return len(args) > 1 && s.e.opts.Natives[text(args[1])] != nil
	}
	return false
}

// countsFew reports whether COUNT stands among the arguments, with a small number.
func countsFew(args [][]byte) bool {
	for i, a := range args[:len(args)-1] {
		if is(a, "count") {
			return len(args[i+1]) <= 2 // digits
		}
	}
	return false
}

// TryRun is [Session.Run] without waiting. When the command would wait, for data or for the locks
// of other calls, nothing runs, nothing is appended, and ran is false.
func (s *Session) TryRun(dst []byte, args [][]byte) (out []byte, ran bool) {
	out, w, ran := s.do(dst, args, true)
	if w == nil {
		return out, ran
	}
	if w.Cancel() {
		return out, false
	}
	<-w.Done() // it has just come
	return w.Append(out), true
}

// Synced reports whether [Session.Sync] would return at once.
func (s *Session) Synced() bool { return s.seen == 0 || s.e.log.Saved(s.seen) }
