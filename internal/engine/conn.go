package engine

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/resp"
)

var (
	_ redoubt.Conn       = (*Engine)(nil)
	_ redoubt.Subscriber = (*Engine)(nil)
	_ redoubt.Pipeliner  = (*Engine)(nil)
	_ redoubt.InProcess  = (*Engine)(nil)
)

// ErrClosed is returned by calls on a closed [Engine].
var ErrClosed = aof.ErrClosed

// closed is the reply to a command that Close prevents or ends. Do and Pipeline return ErrClosed for it.
const closed = "ERR the engine is closed"

// Do runs one command: see [redoubt.Conn]. Nothing is sent anywhere: a quick
// command runs in the caller's goroutine. One that may take long, like a
// script or KEYS, runs in a goroutine of its own when ctx can end, and goes on
// when the caller leaves.
//
// Each call has a session of its own: MULTI, SELECT or SUBSCRIBE have no effect
// on later calls.
func (e *Engine) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if err := e.refuse(ctx); err != nil {
		return redoubt.Reply{Err: err}
	}
	canLeave := ctx.Done() != nil
	if !canLeave || e.quick(&cmd) {
		l := e.takeSession()
		wait, ran := l.run(&cmd, canLeave)
		switch {
		case wait != nil:
			return l.await(ctx, wait)
		case ran:
			r, end := reply(l.out), l.depends()
			e.putSession(l)
			if end != 0 {
				return e.awaitSavedOne(ctx, end, cmd, r)
			}
			return r
		}
		e.putSession(l)
	}
	cmds := [1]redoubt.Cmd{cmd}
	var replies [1]redoubt.Reply
	e.runAsync(ctx, cmds[:], replies[:])
	return replies[0]
}

// Pipeline runs commands one after the other: see [redoubt.Conn]. A command
// that waits holds up no other.
func (e *Engine) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	if err := e.refuse(ctx); err != nil {
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	canLeave := ctx.Done() != nil
	var waiting []waiter
	l := e.takeSession()
	i, done, end := 0, 0, uint64(0)
	for ; i < len(cmds); i++ {
		if i%64 == 63 {
			if err := ended(ctx); err != nil {
				for j := range cmds[i:] {
					replies[i+j].Err = err
				}
				i = len(cmds)
				break
			}
		}
		if canLeave && !e.quick(&cmds[i]) {
			break
		}
		wait, ran := l.run(&cmds[i], canLeave)
		end = max(end, l.depends())
		if wait != nil {
			waiting = append(waiting, waiter{i, l, wait})
			l = e.takeSession()
		} else if ran {
			replies[i] = reply(l.out)
		} else {
			break
		}
		done++
	}
	e.putSession(l)
	if i < len(cmds) {
		e.runAsync(ctx, cmds[i:], replies[i:])
	}
	e.awaitSaved(ctx, end, cmds[:done], replies[:done])
	for _, w := range waiting {
		replies[w.i] = w.l.await(ctx, w.wait)
	}
	return replies
}

// Pipelines reports true: concurrent callers need no merging, they run at the
// same time.
func (e *Engine) Pipelines() bool { return true }

// InProcess says that there is no way on which an answer could be lost: see
// [redoubt.InProcess].
func (e *Engine) InProcess() {}

// refuse returns why nothing can be run.
func (e *Engine) refuse(ctx context.Context) error {
	if e.closed.Load() {
		return ErrClosed
	}
	return ended(ctx)
}

// ended is ctx.Err(), and also notices a deadline that has passed in a context
// that only names it.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return nil
}

// quick reports whether the caller can run a command itself: the command takes microseconds, or
// waits without holding a lock.
func (e *Engine) quick(cmd *redoubt.Cmd) bool {
	if cmd.Script != nil {
		return len(cmd.Args) <= mostQuickArgs && e.opts.Natives[cmd.Script.Digest()] != nil
	}
	c := find(view(cmd.Name))
	return c != nil && (c.flags&flagQuick != 0 || c.flags&flagQuickAlone != 0 && len(cmd.Keys) == 1 && len(cmd.Args) == 0)
}

// mostQuickArgs is how many arguments a script has that its caller runs. One with more is mostly left to Lua.
const mostQuickArgs = 64

// A callSession is a session, and the memory that a command needs on its way. A call
// takes one and gives it back.
type callSession struct {
	s    *Session
	args [][]byte
	out  []byte
}

// maxIdleReply is the largest buffer that is kept for the next call.
const maxIdleReply = 64 << 10

// manyKeys is how many keys a session keeps room for between its commands.
const manyKeys = 4096

func (e *Engine) takeSession() *callSession {
	if l, ok := e.callSessions.Get().(*callSession); ok {
		return l
	}
	l := &callSession{s: e.unlisted(), args: make([][]byte, 0, roomyArgs), out: make([]byte, 0, roomyReply)}
	l.s.c.charges = make([]charge, 0, roomyCharges)
	l.s.SyncLater()
	return l
}

// Room to begin with, in whole cache lines. Memory that is as small as a command
// needs would come from beside that of the session made before, and two cores that use
// the sessions would take the line from each other with each command.
const (
	roomyArgs    = 8 // of 24 bytes, as a charge
	roomyCharges = 8
	roomyReply   = 2 * cacheLine
)

// putSession returns l to the pool. A session in which a command has left state is closed.
func (e *Engine) putSession(l *callSession) {
	if l.s.changed() {
		l.s.Close()
		return
	}
	clear(l.args)
	if cap(l.out) > maxIdleReply {
		l.out = make([]byte, 0, roomyReply)
	}
	e.callSessions.Put(l)
}

var (
	evalsha = []byte("EVALSHA")
	eval    = []byte("EVAL")
	noKeys  = []byte("0")
	oneKey  = []byte("1")
	twoKeys = []byte("2")
)

// prepare makes the arguments of cmd. They share the memory of its strings,
// which commands only read.
func (l *callSession) prepare(cmd *redoubt.Cmd) {
	a := l.args[:0]
	if cmd.Script != nil {
		a = append(a, evalsha, view(cmd.Script.Digest()))
		switch n := len(cmd.Keys); n {
		case 0:
			a = append(a, noKeys)
		case 1:
			a = append(a, oneKey)
		case 2:
			a = append(a, twoKeys)
		default:
			a = append(a, strconv.AppendInt(nil, int64(n), 10))
		}
	} else {
		first, second, two := strings.Cut(cmd.Name, " ")
		a = append(a, view(first))
		if two {
			a = append(a, view(second))
		}
	}
	for _, k := range cmd.Keys {
		a = append(a, view(k))
	}
	for _, v := range cmd.Args {
		a = append(a, view(v))
	}
	l.args = a
}

// maxLoads is how often a script that was flushed is loaded for one call; then
// its text is sent.
const maxLoads = 2

const noScript = "-NOSCRIPT "

// run runs a command. Its reply is in l.out, unless it has to wait. With try,
// nothing is run, and ran is false, when others hold the locks that it needs.
func (l *callSession) run(cmd *redoubt.Cmd, try bool) (wait *Wait, ran bool) {
	l.prepare(cmd)
	for loads := 0; ; loads++ {
		l.out, wait, ran = l.s.do(l.out[:0], l.args, try)
		if cmd.Script == nil || wait != nil || !ran || !strings.HasPrefix(text(l.out), noScript) || loads > maxLoads {
			return wait, ran
		}
		if loads == maxLoads {
			l.args[0], l.args[1] = eval, view(cmd.Script.Source())
			continue
		}
		l.out, _ = l.s.Do(l.out[:0], [][]byte{[]byte("SCRIPT"), []byte("LOAD"), view(cmd.Script.Source())})
	}
}

// await returns the reply to a command that waits. When ctx ends, the command is given up and has
// no effect; its caller gets ErrUnknownOutcome all the same, as from every Conn.
func (l *callSession) await(ctx context.Context, w *Wait) redoubt.Reply {
	defer l.s.e.putSession(l)
	select {
	case <-w.Done():
	case <-ctx.Done():
		if w.Cancel() {
			return redoubt.Reply{Err: redoubt.UnknownOutcome(ctx.Err())}
		}
		<-w.Done()
	}
	l.out = w.Append(l.out[:0])
	return reply(l.out)
}

// reply turns an encoded reply into a value.
func reply(b []byte) redoubt.Reply {
	if len(b) == 0 { // after CLIENT REPLY OFF
		return redoubt.Reply{}
	}
	v, _ := decode(b)
	if err, ok := v.(redoubt.ServerError); ok {
		if err == closed {
			return redoubt.Reply{Err: ErrClosed}
		}
		return redoubt.Reply{Err: err}
	}
	return redoubt.Reply{Val: v}
}

var ok any = "OK" // the reply that most writes have

// decode reads one value that a session wrote in RESP2, and returns the rest.
func decode(b []byte) (any, []byte) {
	n := 1
	for b[n] != '\r' {
		n++
	}
	line, rest := b[1:n], b[n+2:]
	switch b[0] {
	case '+':
		if string(line) == "OK" {
			return ok, rest
		}
		return string(line), rest
	case '-':
		return redoubt.ServerError(line), rest
	}
	count, _ := resp.ParseInt(line)
	switch {
	case b[0] == ':':
		return count, rest
	case count < 0:
		return nil, rest
	case b[0] == '$':
		return string(rest[:count]), rest[count+2:]
	}
	vs := make([]any, count)
	for i := range vs {
		vs[i], rest = decode(rest)
	}
	return vs, rest
}
