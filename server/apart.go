package server

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// Large commands, and commands with large replies, travel apart from the connection that all
// clients share: see [proxy.Timed.SendApart]. The session sends such a command once all earlier
// commands have their replies. The next commands wait for its reply. So the client's order is
// kept.

// largeReply is the typical size of a client's replies above which its commands go apart.
// On the shared connection other clients would wait behind such replies.
const largeReply = 1 << 20

// goesApart reports whether a command is to travel apart on its way to c.upstream.
func (c *session) goesApart(command []byte) bool {
	if len(command) > proxy.LargeCommand || c.crowdedOut() {
		return true
	}
	wary := c.upstream.Limited() || c.wary(0, argsOf(command))
	return wary && !hasSmallReply(command)
}

// scriptGoesApart is goesApart for the script that stands for a command of ours. Such a script has a
// bound on its reply, so it is not rationed.
func (c *session) scriptGoesApart(cmd *redoubt.Cmd) bool {
	return c.crowdedOut() || c.upstream.Limited() || lengthOf(cmd) > proxy.LargeCommand
}

// crowdedOut reports whether the next command goes apart whatever it is: the client's replies would
// hold up others on the shared connection, or somebody else's hold it up now.
func (c *session) crowdedOut() bool { return c.heavy || c.upstream.Congested() }

// lengthOf returns about how long a command is.
func lengthOf(cmd *redoubt.Cmd) (length int) {
	for _, a := range cmd.Args {
		length += len(a)
	}
	return length
}

// inOrder waits for the replies to earlier commands that travel another way than the command
// with the tag first. It reports false when the client is gone: then nothing more is sent.
func (c *session) inOrder(first uint64, apart bool) bool { //nolint:revive // the parameter is what the command does
	before := first
	if !apart {
		if before = c.apart; before > first { // another part of the same command went apart
			return true
		}
		c.apart = 0
	}
	if c.out.head.Load() < before {
		c.stepAside()
		u := c.upstream
		c.flush()
		if !c.out.await(noDeadline, func() bool { return c.out.head.Load() >= before }) {
			c.lost, c.quit = true, true // and flush has taken the upstream
			return false
		}
		if c.srv.inPool() {
			c.touch(u)
		}
	}
	if apart {
		c.stepAside() // a connection may have to be made
		c.apart = c.next
	}
	return true
}

// send is [proxy.Upstream.Send] to the upstream. first is the place of the commands in the
// client's order.
func (c *session) send(first uint64, apart bool, to proxy.Caller, tag uint64, n int, commands []byte) error { //nolint:revive // the parameter is how it travels
	if c.lost {
		return errGone
	}
	if apart || c.apart != 0 {
		if !c.inOrder(first, apart) {
			return errGone
		}
		if apart {
			return c.sendInTurn(func(wait func() context.Context) error {
				return c.aside(commands, 0, argsOf(commands)).SendApart(wait, to, tag, n, commands)
			})
		}
	}
	if c.polled() {
		err := c.upstream.Within(c.timeout).TrySend(to, tag, n, commands)
		if !errors.Is(err, proxy.ErrBusy) {
			return err
		}
		c.makeWay(err)
	}
	return c.upstream.Within(c.timeout).Send(to, tag, n, commands)
}

// aside returns a Timed for commands that go apart: one with so many words, or a transaction of so
// many. It rations commands that may read much. queued is how many replies only said QUEUED.
func (c *session) aside(commands []byte, queued uint64, elements int) proxy.Timed {
	u := c.upstream.Within(c.timeout)
	if (!c.trusted(queued) || elements > fewElements && c.upstream.Alarmed()) && !hasSmallReply(commands) {
		u = u.Rationed()
	}
	return u
}

const (
	trustedAfter = 16       // replies
	trustedSmall = 64 << 10 // bytes: the typical reply of a trusted client
	fewElements  = 32       // words of a command, or commands of a transaction
)

// trusted reports whether the client has had enough replies, beside so many that said QUEUED, and
// all of them small, so that the next one is likely to be small too.
func (c *session) trusted(queued uint64) bool {
	return c.out.head.Load() >= trustedAfter+queued && c.out.typical.Load() <= trustedSmall
}

// wary reports whether a command of so many words, or a transaction of so many commands, goes apart
// because it may read much.
func (c *session) wary(queued uint64, elements int) bool {
	many := elements > fewElements
	if c.trusted(queued) {
		return many && c.upstream.Alarmed()
	}
	return many || c.upstream.Swamped() || c.upstream.Full()
}

// argsOf returns how many words a command has, from its first line.
func argsOf(command []byte) int {
	head, _, _ := bytes.Cut(command, []byte("\r\n"))
	n, _ := resp.ParseInt(bytes.TrimPrefix(head, []byte("*")))
	return int(n)
}

// sendInTurn has send pass wait to [proxy.Timed.SendApart]. If the client is gone before its turn comes,
// nothing more is sent for it.
func (c *session) sendInTurn(send func(wait func() context.Context) error) error {
	var ctx context.Context
	stop := func() {}
	err := send(func() context.Context {
		if ctx == nil {
			c.leave()
			ctx, stop = c.attended(0) // nothing of it has run yet
		}
		return ctx
	})
	stop()
	if errors.Is(err, errGone) {
		c.lost, c.quit = true, true
	}
	return err
}

// makeWay takes a client that has to wait to send out of the poller: for good, or only this
// once when the connection is not made yet.
func (c *session) makeWay(busy error) {
	if errors.Is(busy, proxy.ErrConnecting) {
		c.stepAside()
	} else {
		c.leave()
	}
}

// sendScript is [proxy.Upstream.SendScript], as send is Send.
func (c *session) sendScript(tag uint64, cmd *redoubt.Cmd) error {
	if c.lost {
		return errGone
	}
	apart := c.scriptGoesApart(cmd)
	if apart || c.apart != 0 {
		if !c.inOrder(tag, apart) {
			return errGone
		}
		if apart {
			return c.sendInTurn(func(wait func() context.Context) error {
				return c.upstream.Within(c.timeout).SendScriptApart(wait, &c.out, tag, cmd)
			})
		}
	}
	if c.polled() {
		err := c.upstream.Within(c.timeout).TrySendScript(&c.out, tag, cmd)
		if !errors.Is(err, proxy.ErrBusy) {
			return err
		}
		c.makeWay(err)
	}
	return c.upstream.Within(c.timeout).SendScript(&c.out, tag, cmd)
}

// smallReplies are the commands whose replies are short, whatever the arguments and the data
// are. Those to ECHO and PING are as long as the command.
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
