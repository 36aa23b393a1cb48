package proxy

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A node of a cluster refuses a command for a slot that it doesn't have, and names the node that has it:
// MOVED is for good, ASK is for this command alone, which goes there behind ASKING. The goroutine that has
// read the refusal then sends the command there. The caller notices nothing.
//
// A client's commands on one key keep their order: refusals come in the order of the commands, and the
// commands are sent on in that order. A client takes a new table of slots only once all of its commands
// have their replies.

// [Node.redirectionBy] decides. A [conn] calls it for commands on shared connections, and an [Attempt] for
// commands on a connection of their own.

const (
	// MaxRedirects bounds how often a command is redirected.
	MaxRedirects = 16
	// RedirectPause is the pause before each further redirection, from the fifth on: the nodes
	// don't agree yet.
	RedirectPause = 20 * time.Millisecond

	redirectsAtOnce = 4

	// downPause is the pause before a command goes again to a node that says that the cluster is down, for
	// [PoolOptions].Patience at most.
	downPause = 100 * time.Millisecond
)

// unlimited is for commands that were read within a client's limits.
var unlimited = resp.Limits{MaxBulk: math.MaxInt32, MaxArgs: math.MaxInt32, MaxCommand: math.MaxInt}

// moves is the state of a request that a cluster may redirect, or that is sent again after a lost connection.
type moves struct {
	commands []byte // the answered commands that done counts, and then the unanswered ones
	done     int
	hops     hops
	whole    bool   // they are a transaction, from MULTI to EXEC: all move or none
	n        int    // how many a transaction has
	cause    []byte // why one of it was refused
}

// hops count how often a command was sent on.
type hops struct {
	moved int
	down  int // to the same node, because the cluster was down
	lost  int // because a connection was lost
}

var (
	movedCode       = []byte("-MOVED ")
	askCode         = []byte("-ASK ")
	execAbortCode   = []byte("-EXECABORT ")
	clusterDownCode = []byte("-CLUSTERDOWN ")

	askingRaw = resp.AppendCommand(nil, "ASKING")
)

// A redirection is a request on its way to another node.
type redirection struct {
	request

	commands []byte
	ask      bool
	due      time.Time // zero: at once
	holds    bool      // other commands for the node wait until it is sent
}

// A direction is a node's answer that names another node for a command.
type direction struct {
	cluster   *cluster
	addr      string
	ask       bool          // behind ASKING
	down      bool          // to the same node, because the cluster is down
	hops      hops          // with this one
	pause     time.Duration // before it is sent there
	disagreed bool          // it has been sent on too often
}

// node returns where to send the command; nil once the pool is closed.
func (d *direction) node() *Node { return d.cluster.at(d.addr) }

// sentTo reads the address in a redirection like MOVED 42 host:port. from is the address of the node that
// sent it, for a redirection without a host.
func sentTo(raw []byte, from string) (addr string, ask, ok bool) {
	ask = bytes.HasPrefix(raw, askCode)
	if !ask && !bytes.HasPrefix(raw, movedCode) {
		return "", false, false
	}
	words := strings.Fields(string(raw))
	if len(words) < 3 {
		return "", false, false
	}
	host, port, found := cutLastColon(words[2])
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(from)
	}
	addr, isAddress := joined(host, port)
	return addr, ask, found && isAddress
}

// joined returns host:port. It reports false for what a server would not have.
func joined(host, port string) (addr string, ok bool) {
	addr = net.JoinHostPort(host, port)
	h, _, err := net.SplitHostPort(addr)
	return addr, err == nil && h != ""
}

// cutLastColon also takes an IPv6 address without brackets.
func cutLastColon(s string) (host, port string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", false
	}
	return strings.Trim(s[:i], "[]"), s[i+1:], true
}

// An Attempt is a command on its own connection, at one node, and at the next when that one
// redirects it. It is for one goroutine.
type Attempt struct {
	node *Node
	ask  bool
	hops hops
}

// Node is the node for the command now. Asking reports whether the slot is still on its way there.
func (a *Attempt) Node() *Node  { return a.node }
func (a *Attempt) Asking() bool { return a.ask }

// Borrow is [Node.Borrow] for the command.
func (a *Attempt) Borrow(ctx context.Context, p resp.Protocol) (*Exclusive, error) {
	x, err := a.node.Borrow(ctx, p)
	for err != nil && ctx.Err() == nil {
		next := a.node.successor()
		if next == nil {
			break
		}
		a.node, a.ask = next, false
		x, err = next.Borrow(ctx, p)
	}
	if err == nil && a.ask {
		x.Asking()
	}
	return x, err
}

// Follow reports whether the reply redirects the command. The caller then tries again; Follow has paused
// if that was due. f is the fault of a command that was redirected too often.
func (a *Attempt) Follow(ctx context.Context, reply []byte) (again bool, f *Fault) {
	if len(reply) == 0 {
		return false, nil
	}
	d, redirects := a.node.redirectionBy(reply, a.hops)
	switch {
	case !redirects:
		return false, nil
	case d.disagreed:
		return false, Disagreed()
	}
	to := d.node()
	if to == nil {
		return false, nil // the pool is closed
	}
	if d.pause > 0 {
		t := time.NewTimer(d.pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	a.node, a.ask, a.hops = to, d.ask, d.hops
	return true, nil
}

// keep copies the commands of e, so that they can be sent on.
func (e *request) keep(commands []byte) {
	if e.moves == nil {
		e.moves = new(moves)
	}
	e.moves.n = e.n
	if e.retry == nil {
		e.moves.commands = bytes.Clone(commands)
	}
}

// cut returns the command whose reply is at hand, or the whole transaction.
func (m *moves) cut() ([]byte, error) {
	if m.whole {
		return m.commands, nil
	}
	for {
		scanner := resp.CommandScanner{Limits: unlimited}
		n, err := scanner.Next(m.commands)
		if err != nil || n == 0 {
			return nil, errors.Join(errCut, err)
		}
		command := m.commands[:n:n]
		m.commands = m.commands[n:]
		if m.done == 0 {
			return command, nil
		}
		m.done--
	}
}

var errCut = errors.New("proxy: a command is not whole")

// An owned is a handler of commands of another's client.
type owned interface{ Owner() ReplyHandler }

func ownerOf(h ReplyHandler) ReplyHandler {
	if o, ok := h.(owned); ok {
		return o.Owner()
	}
	return h
}

// onlyReads reports whether a command of a shared connection may run twice.
func onlyReads(command []byte) bool {
	scanner := resp.CommandScanner{Limits: unlimited}
	if n, err := scanner.Next(command); n == 0 || err != nil {
		return false
	}
	r := rediscmd.Find(scanner.Args()[0])
	if r != nil {
		r = r.Of(scanner.Args())
	}
	return r != nil && r.Has(rediscmd.Readonly) && !r.Has(rediscmd.Blocking)
}

// runsScript reports whether a command runs a script of a client.
func runsScript(command []byte) bool {
	_, runs := scriptOf(command)
	return runs
}

// scriptOf returns the arguments of a command that runs a script of a client; none if it can't be read.
func scriptOf(command []byte) (args [][]byte, runs bool) {
	scanner := resp.CommandScanner{Limits: unlimited}
	if n, err := scanner.Next(command); n == 0 || err != nil {
		return nil, true
	}
	args = scanner.Args()
	r := rediscmd.Find(args[0])
	return args, r != nil && r.RunsScript()
}

// forged reports whether a script made the redirection up: following it would run the script again, at an
// address of the script's choice.
func (c *cluster) forged(command, raw []byte, addr string, from *Node) bool {
	args, runs := scriptOf(command)
	if !runs {
		return false
	}
	slot, err := strconv.Atoi(strings.Fields(string(raw))[1])
	return err != nil || len(args) < 4 || slot != int(keyslot.Of(args[3])) || addr == from.server.Name || !c.knows(addr)
}

// last is the tag of the last reply, which is that of a whole transaction.
func (e *request) last() uint64 { return e.tag + uint64(e.n-1) } //nolint:gosec // positive

// redirections are those to one node that could not be sent at once, in order.
type redirections struct {
	mu    sync.Mutex
	queue []redirection                 // they wait; the first may be on its way
	busy  bool                          // somebody sends them
	held  atomic.Pointer[chan struct{}] // closed when nothing waits; nil: other commands need not wait
}

// hold waits while other commands have to.
func (q *redirections) hold() {
	if held := q.held.Load(); held != nil {
		<-*held
	}
}

// add sends r, which goes behind what waits. It doesn't wait itself.
func (q *redirections) add(u *Upstream, r redirection) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.busy {
		err := ErrBusy
		if r.due.IsZero() {
			err = u.sendRedirection(&r, false)
		}
		if !errors.Is(err, ErrBusy) && (err == nil || u.successor() == nil) {
			r.refuse(u, err)
			return
		}
		q.busy = true
		go q.run(u)
	}
	if r.holds && q.held.Load() == nil {
		held := make(chan struct{})
		q.held.Store(&held)
	}
	q.queue = append(q.queue, r)
}

// run sends what waits until nothing does.
func (q *redirections) run(u *Upstream) {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.busy, q.queue = false, nil
			if held := q.held.Swap(nil); held != nil {
				close(*held)
			}
			q.mu.Unlock()
			return
		}
		r := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		if !r.due.IsZero() {
			time.Sleep(time.Until(r.due))
		}
		if err := u.sendRedirection(&r, true); err != nil {
			if next := u.successor(); next != nil {
				r.ask, r.due = false, time.Time{}
				next.redirected.add(next, r)
				next.Flush()
				continue
			}
			r.refuse(u, err)
		}
		u.Flush()
	}
}

// refuse answers r if it could not be sent.
func (r *redirection) refuse(u *Upstream, err error) {
	if err == nil {
		return
	}
	tag, flush := r.tag, false
	if r.moves.whole {
		tag = r.last()
	}
	for ; tag <= r.last(); tag++ {
		flush = fail(r.handler, tag, Unreachable(u.Name(), err)) || flush
	}
	if flush {
		r.handler.Flush()
	}
}
