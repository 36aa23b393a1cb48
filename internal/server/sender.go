package server

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A sender sends a client's commands to shared connections, in the client's order. The routes
// single and pooled have one.
//
// Large commands, and commands with large replies, are isolated: they don't use the connection that all
// clients share. See [proxy.Sender.SendIsolated]. The sender sends such a command once all earlier
// commands have their replies. The next commands wait for its reply. So the client's order is
// kept.
type sender struct {
	c        *session
	upstream *proxy.Upstream   // of the span, or of the command at hand
	touched  []*proxy.Upstream // sent to since the last flush
	timeout  time.Duration     // of the command at hand, as proxy.Upstream.WithTimeout takes it
	isolated uint64            // a command with a lower tag was isolated, and may not have its reply; 0: none
	lost     bool              // the client went while a command waited for its turn: nothing more is sent

	// span is commands that pass through: they lie one behind the other in the session's buffer.
	span struct {
		from, to int
		tag      uint64
		n        int
		isolated bool
	}
}

// touch makes u the upstream of what comes next.
func (s *sender) touch(u *proxy.Upstream) {
	if u == s.upstream {
		return
	}
	s.sendSpan()
	s.upstream = u
	if !slices.Contains(s.touched, u) {
		s.touched = append(s.touched, u)
	}
}

// pass adds a command that passes through to the span.
func (s *sender) pass(raw []byte) {
	c := s.c
	if isolated := s.isolates(raw); isolated != s.span.isolated || c.from != s.span.to { // a blank line lies between
		s.sendSpan()
		s.span.isolated = isolated
	}
	if s.span.n == 0 {
		s.span.from, s.span.tag = c.from, c.next
	}
	s.span.to = c.from + len(raw)
	s.span.n++
	c.next++
}

// sendSpan sends the commands that pass through and have not been sent yet.
func (s *sender) sendSpan() {
	if s.span.n == 0 {
		return
	}
	n := s.span.n
	s.span.n = 0
	b := batch{to: &s.c.out, tag: s.span.tag, n: n, commands: s.c.buf[s.span.from:s.span.to]}
	if err := s.send(b.tag, s.span.isolated, &b); err != nil {
		for i := range n {
			s.unreachable(b.tag+uint64(i), err) //nolint:gosec // positive
		}
	}
}

// forward sends one command. Its reply is changed by change unless that is nil.
func (s *sender) forward(raw []byte, change translate) {
	t := s.c.prepare(slot{change: change})
	if err := s.send(t, s.isolates(raw), &batch{to: &s.c.out, tag: t, n: 1, commands: raw}); err != nil {
		s.unsent(t, err)
	}
}

// script sends the script of an extension command.
func (s *sender) script(p command.Plan) {
	t := s.c.prepareScript(p)
	if err := s.send(t, s.isolatesScript(p.Cmd), &batch{to: &s.c.out, tag: t, n: 1, script: p.Cmd}); err != nil {
		s.unsent(t, err)
	}
}

// flush sends what was appended for the upstreams. The next key chooses another.
func (s *sender) flush() {
	s.sendSpan()
	for i, u := range s.touched {
		u.Flush()
		s.touched[i] = nil
	}
	s.touched, s.upstream = s.touched[:0], nil
}

// endTurn sends the span, which lies in the buffer.
func (s *sender) endTurn() int {
	s.sendSpan()
	return 0
}

// unsent answers a command that could not be sent, untranslated.
func (s *sender) unsent(tag uint64, cause error) {
	s.c.out.prepare(tag, slot{mute: s.c.muted})
	s.unreachable(tag, cause)
}

// unreachable answers a command that could not be sent.
func (s *sender) unreachable(tag uint64, cause error) {
	name := s.c.srv.target.name()
	if s.upstream != nil {
		name = s.upstream.Name()
	}
	s.c.unreachable(tag, name, cause)
}

// largeReply is the typical size of a client's replies above which its commands are isolated.
// On the shared connection other clients would wait behind such replies.
const largeReply = 1 << 20

// isolates reports whether a command to s.upstream is isolated.
func (s *sender) isolates(command []byte) bool {
	if len(command) > proxy.LargeCommand || s.mustIsolate() {
		return true
	}
	large := s.upstream.Limited() || s.mayReadMuch(0, argsOf(command))
	return large && !hasSmallReply(command)
}

// isolatesScript is isolates for the script that stands for a command of ours. Such a script has a
// bound on its reply, so it is not rationed.
func (s *sender) isolatesScript(cmd *redoubt.Cmd) bool {
	return s.mustIsolate() || s.upstream.Limited() || lengthOf(cmd) > proxy.LargeCommand
}

// isolatesTransaction is isolates for a transaction.
func (s *sender) isolatesTransaction(b *batch) bool {
	return len(b.commands) > proxy.LargeCommand || s.mustIsolate() || s.upstream.Limited() || s.mayReadMuch(b.size())
}

// mustIsolate reports whether the next command is isolated whatever it is: the client's replies would
// hold up others on the shared connection, or somebody else's hold it up now.
func (s *sender) mustIsolate() bool { return s.c.heavy || s.upstream.Congested() }

// lengthOf returns about how long a command is.
func lengthOf(cmd *redoubt.Cmd) (length int) {
	for _, a := range cmd.Args {
		length += len(a)
	}
	return length
}

// inOrder waits for the replies to earlier commands that travel another way than the command
// with the tag first. It reports false when the client is gone: then nothing more is sent.
func (s *sender) inOrder(first uint64, isolated bool) bool { //nolint:revive // the parameter is what the command does
	before := first
	if !isolated {
		if before = s.isolated; before > first { // another part of the same command was isolated
			return true
		}
		s.isolated = 0
	}
	if s.c.out.head.Load() < before {
		u := s.upstream
		if !s.c.awaitReplies(before) {
			s.lost, s.c.quit = true, true // and flush has taken the upstream
			return false
		}
		s.touch(u)
	}
	if isolated {
		s.c.yieldLead() // a connection may have to be made
		s.isolated = s.c.next
	}
	return true
}

// A batch is what is sent to an upstream together: commands as on the wire, or a script.
type batch struct {
	to       proxy.ReplyHandler
	tag      uint64
	n        int
	commands []byte
	script   *redoubt.Cmd // instead of commands
	whole    bool         // a transaction, from MULTI to EXEC
}

func (b *batch) send(t proxy.Sender) error {
	if b.script != nil {
		return t.SendScript(b.to, b.tag, b.script)
	}
	return t.Send(b.to, b.tag, b.n, b.commands)
}

func (b *batch) trySend(t proxy.Sender) error {
	if b.script != nil {
		return t.TrySendScript(b.to, b.tag, b.script)
	}
	return t.TrySend(b.to, b.tag, b.n, b.commands)
}

func (b *batch) sendIsolated(t proxy.Sender, wait func() context.Context) error {
	if b.script != nil {
		return t.SendScriptIsolated(wait, b.to, b.tag, b.script)
	}
	return t.SendIsolated(wait, b.to, b.tag, b.n, b.commands)
}

// size returns how many replies only say QUEUED, and how many words or commands follow.
func (b *batch) size() (queued uint64, elements int) {
	if b.whole {
		return uint64(b.n), b.n - 2 //nolint:gosec // positive
	}
	return 0, argsOf(b.commands)
}

// send sends a batch to the upstream. first is the place of its commands in the client's order.
func (s *sender) send(first uint64, isolated bool, b *batch) error { //nolint:revive // the parameter is how it travels
	if s.lost {
		return errGone
	}
	if isolated || s.isolated != 0 {
		if !s.inOrder(first, isolated) {
			return errGone
		}
		if isolated {
			return s.sendInTurn(func(wait func() context.Context) error { return b.sendIsolated(s.rationed(b), wait) })
		}
	}
	if s.c.polled() {
		err := b.trySend(s.timed(b))
		if !errors.Is(err, proxy.ErrBusy) {
			return err
		}
		s.yieldFor(err)
	}
	return b.send(s.timed(b))
}

// timed returns the upstream with the time-out of the command at hand.
func (s *sender) timed(b *batch) proxy.Sender {
	t := s.upstream.WithTimeout(s.timeout)
	if b.whole {
		t = t.Whole()
	}
	return t
}

// rationed is timed for an isolated batch. It rations commands that may read much.
func (s *sender) rationed(b *batch) proxy.Sender {
	t := s.timed(b)
	if b.script != nil {
		return t // its reply has a bound
	}
	queued, elements := b.size()
	if (!s.expectsSmall(queued) || elements > fewElements && s.upstream.RecentlyHuge()) && !hasSmallReply(b.commands) {
		t = t.Rationed()
	}
	return t
}

const (
	knownAfter   = 16       // replies: then the typical one tells the size of the next
	typicalSmall = 64 << 10 // bytes: a typical reply up to this size is small
	fewElements  = 32       // words of a command, or commands of a transaction
)

// expectsSmall reports whether the next reply is likely to be small: the client has had enough replies,
// not counting the QUEUED ones, and all of them were small.
func (s *sender) expectsSmall(queued uint64) bool {
	return s.c.out.head.Load() >= knownAfter+queued && s.c.out.typical.Load() <= typicalSmall
}

// mayReadMuch reports whether a command of so many words, or a transaction of so many commands, is isolated
// because it may read much.
func (s *sender) mayReadMuch(queued uint64, elements int) bool {
	many := elements > fewElements
	if s.expectsSmall(queued) {
		return many && s.upstream.RecentlyHuge()
	}
	return many || s.upstream.RecentlyBlocked() || s.upstream.Full()
}

// argsOf returns how many words a command has, from its first line.
func argsOf(command []byte) int {
	head, _, _ := bytes.Cut(command, []byte("\r\n"))
	n, _ := resp.ParseInt(bytes.TrimPrefix(head, []byte("*")))
	return int(n)
}

// sendInTurn has send pass wait to [proxy.Sender.SendIsolated]. If the client is gone before its turn comes,
// nothing more is sent for it.
func (s *sender) sendInTurn(send func(wait func() context.Context) error) error {
	var ctx context.Context
	stop := func() {}
	err := send(func() context.Context {
		if ctx == nil {
			s.c.leavePoller()
			ctx, stop = s.c.attended(0) // nothing of it has run yet
		}
		return ctx
	})
	stop()
	if errors.Is(err, errGone) {
		s.lost, s.c.quit = true, true
	}
	return err
}

// yieldFor lets a client wait for room without holding up the others of its poller. The client leaves
// the poller for good, or only this once if the connection is not made yet.
func (s *sender) yieldFor(busy error) {
	if errors.Is(busy, proxy.ErrConnecting) {
		s.c.yieldLead()
	} else {
		s.c.leavePoller()
	}
}

// smallReplies are the commands whose replies are short, whatever the arguments and the data
// are. The replies to ECHO and PING are as long as the command.
var smallReplies = func() map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(`
		append bitcount bitop bitpos copy dbsize decr decrby del echo exists expire expireat expiretime
		geoadd geodist getbit hdel hexists hincrby hincrbyfloat hlen hmset hset hsetnx hstrlen incr incrby incrbyfloat
		linsert llen lpush lpushx lrem lset ltrim mset msetnx persist pexpire pexpireat pexpiretime pfadd pfcount pfmerge
		ping psetex pttl publish rename renamenx rpush rpushx sadd scard sdiffstore set setbit setex setnx setrange
		sinterstore sismember smove spublish srem strlen sunionstore touch ttl type unlink
		xack xadd xdel xlen xtrim zadd zcard zcount zdiffstore zincrby zinterstore zlexcount zrangestore zrank
		zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrank zscore zunionstore`) {
		m[name] = true
	}
	return m
}()

// hasSmallReply reports whether this is one command whose reply is short whatever the data is.
func hasSmallReply(command []byte) bool {
	var scanner resp.CommandScanner
	if n, err := scanner.Next(command); n != len(command) || n == 0 || err != nil || len(scanner.Args()) == 0 {
		return false
	}
	args := scanner.Args()
	name := strings.ToLower(string(args[0]))
	if name == "set" {
		for _, a := range args[min(3, len(args)):] {
			if strings.EqualFold(string(a), "get") { // the old value
				return false
			}
		}
	}
	return smallReplies[name] && (name != "echo" && name != "ping" || len(command) < smallReply)
}
