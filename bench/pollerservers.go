package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/cloudwego/netpoll"
	"github.com/panjf2000/gnet/v2"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// workerPoller is the environment variable that makes a process a server of the suite "pollers",
// together with [workerAddr].
const workerPoller = "BENCH_WORKER_POLLER"

// pollerServers are the small servers, all with the same parser and the same map. Ours is first: it
// has the loop of internal/server without the parts of a real server, such as goroutines for
// commands that wait and for clients that read slowly.
var pollerServers = []struct {
	name  string
	serve func(ctx context.Context, addr string, values *valueMap) error
}{
	{"internal/socket", serveReady},
	{"net, goroutines", serveGoroutines},
	{"netpoll", serveNetpoll},
	{"gnet", func(_ context.Context, addr string, values *valueMap) error { return serveGnet(addr, values, false) }},
	{"gnet, Multicore", func(_ context.Context, addr string, values *valueMap) error { return serveGnet(addr, values, true) }},
}

// runPollerServer is the main function of a server's process.
func runPollerServer(ctx context.Context) error {
	values := &valueMap{all: make(map[string]string, pollerKeys)}
	for n := range pollerKeys {
		values.all[pollerKey(n)] = pollerValue(n)
	}
	for _, s := range pollerServers {
		if s.name == os.Getenv(workerPoller) {
			return s.serve(ctx, os.Getenv(workerAddr), values)
		}
	}
	return fmt.Errorf("no server %q", os.Getenv(workerPoller))
}

// A valueMap has the values of a server. It has a lock, as a map with writers would need one.
type valueMap struct {
	mu  sync.RWMutex
	all map[string]string
}

// A respClient is a client of a small server.
type respClient struct {
	values  *valueMap
	scanner resp.CommandScanner
	out     []byte // replies
	n       int    // the number of replies in out
}

// answer appends the replies to the whole commands in buf to out, and returns how many
// bytes those are.
func (c *respClient) answer(buf []byte) (used int, err error) {
	for {
		n, err := c.scanner.Next(buf[used:])
		if err != nil || n == 0 {
			return used, err
		}
		used += n
		c.n++
		switch args := c.scanner.Args(); {
		case len(args) == 1 && isWord(args[0], "ping"):
			c.out = resp.AppendSimple(c.out, "PONG")
		case len(args) == 2 && isWord(args[0], "get"):
			c.values.mu.RLock()
			v, ok := c.values.all[string(args[1])]
			c.values.mu.RUnlock()
			if ok {
				c.out = resp.AppendBulk(c.out, v)
			} else {
				c.out = resp.AppendNull(c.out, resp.RESP2)
			}
		default:
			c.out = resp.AppendError(c.out, "ERR unknown command")
		}
	}
}

// isWord reports whether b is a word of lower-case letters, in any case.
func isWord(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range b {
		if b[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}

// pollerRead is how many bytes a read takes, as in internal/server.
const pollerRead = 16 << 10

// serveGoroutines has a goroutine for each client, on package net.
func serveGoroutines(ctx context.Context, addr string, values *valueMap) error {
	return acceptAll(ctx, addr, func(conn net.Conn) error {
		go func() {
			defer conn.Close()
			c := &respClient{values: values}
			buf, have := make([]byte, pollerRead), 0
			for {
				n, err := conn.Read(buf[have:])
				if err != nil {
					return
				}
				have += n
				used, err := c.answer(buf[:have])
				if err != nil {
					return
				}
				have = copy(buf, buf[used:have])
				if have == len(buf) {
					buf = slices.Grow(buf, len(buf))[:2*len(buf)]
				}
				if _, err := conn.Write(c.out); err != nil {
					return
				}
				c.out = c.out[:0]
			}
		}()
		return nil
	})
}

// acceptAll calls f for each client.
func acceptAll(ctx context.Context, addr string, f func(net.Conn) error) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		if err := f(conn); err != nil {
			return err
		}
	}
}

// A readyClient is a client of serveReady.
type readyClient struct {
	respClient
	id   uint64
	conn *socket.Conn
	rest []byte // the beginning of a command
	last bool   // the client sends nothing more
	done bool
}

// serveReady has one goroutine for all clients, on our loop. As in internal/server, it writes
// the replies after every client with input has had a turn, or when many replies wait.
func serveReady(ctx context.Context, addr string, values *valueMap) error {
	ready, err := socket.NewReadyQueue[*readyClient]()
	if err != nil {
		return err
	}
	var leader sync.WaitGroup
	leader.Go(func() { lead(ready) })
	defer func() {
		_ = ready.Close()
		leader.Wait()
	}()
	var id uint64
	return acceptAll(ctx, addr, func(conn net.Conn) error {
		detached, err := socket.Detach(conn)
		if err != nil {
			return err
		}
		id++
		return ready.Add(id, &readyClient{respClient: respClient{values: values}, id: id, conn: detached}, detached)
	})
}

// pollerReplies is how many replies are gathered before a write, as in internal/server.
const pollerReplies = 256

// lead serves the clients until ready is closed.
func lead(ready *socket.ReadyQueue[*readyClient]) {
	buf := make([]byte, pollerRead)
	var answered []*readyClient
	replies := 0
	write := func() {
		for i, c := range answered {
			if c.write(); c.done {
				ready.Remove(c.id)
				c.conn.Release()
			}
			answered[i] = nil
		}
		answered, replies = answered[:0], 0
	}
	for ready.Wait() == nil {
		for t, ok := ready.Next(); ok; t, ok = ready.Next() {
			c := t.Client
			c.last = c.last || t.Last
			if more := c.turn(buf); !c.done && (more || c.last) {
				ready.Requeue(c.id)
			}
			answered = append(answered, c)
			if replies += c.n; replies >= pollerReplies {
				write()
			}
		}
		write()
	}
}

// turn reads once, and reports whether there may be more.
func (c *readyClient) turn(buf []byte) (more bool) {
	in := buf
	have := copy(buf, c.rest)
	if have == len(buf) {
		in = slices.Concat(c.rest, buf) // the command is longer than the buffer
		have = len(c.rest)
	}
	n, err := c.conn.Read(in[have:])
	if err != nil {
		c.done = c.done || !errors.Is(err, socket.ErrWouldBlock)
		return false
	}
	more = have+n == len(in)
	used, err := c.answer(in[:have+n])
	c.done = c.done || err != nil
	c.rest = append(c.rest[:0], in[used:have+n]...)
	return more
}

// write writes the replies. It drops a client whose socket doesn't take them: a real server
// gives it a goroutine, but the load here always reads.
func (c *readyClient) write() {
	n, err := c.conn.TryWrite(c.out)
	if err == nil && n < len(c.out) {
		err = io.ErrShortWrite
	}
	c.done = c.done || err != nil
	c.out, c.n = c.out[:0], 0
}

// respClientKey is the key of the client in the context of netpoll's connection.
type respClientKey struct{}

// serveNetpoll serves on netpoll with its defaults: one poller, and a goroutine of its pool for each
// client with input.
func serveNetpoll(ctx context.Context, addr string, values *valueMap) error {
	l, err := netpoll.CreateListener("tcp", addr)
	if err != nil {
		return err
	}
	loop, err := netpoll.NewEventLoop(func(ctx context.Context, conn netpoll.Connection) error {
		c, _ := ctx.Value(respClientKey{}).(*respClient)
		err := c.serveNetpoll(conn)
		if err != nil {
			_ = conn.Close()
		}
		return err
	}, netpoll.WithOnPrepare(func(netpoll.Connection) context.Context {
		return context.WithValue(ctx, respClientKey{}, &respClient{values: values})
	}))
	if err != nil {
		return err
	}
	return loop.Serve(l)
}

// serveNetpoll answers what has come. netpoll calls it again and again while bytes are left, so
// it waits for the rest of a command.
func (c *respClient) serveNetpoll(conn netpoll.Connection) error {
	r := conn.Reader()
	for r.Len() > 0 {
		have := r.Len()
		buf, err := r.Peek(have)
		if err != nil {
			return err
		}
		used, err := c.answer(buf)
		if err != nil {
			return err
		}
		if err := errors.Join(r.Skip(used), r.Release()); err != nil {
			return err
		}
		if len(c.out) > 0 {
			// WriteBinary keeps long slices until Flush, which waits until all is written.
			if _, err := conn.Writer().WriteBinary(c.out); err != nil {
				return err
			}
			if err := conn.Writer().Flush(); err != nil {
				return err
			}
			c.out = c.out[:0]
		}
		if used < have {
			if _, err := r.Peek(have - used + 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// serveGnet serves on gnet: with one loop, or with one for each processor.
func serveGnet(addr string, values *valueMap, multicore bool) error {
	return gnet.Run(&gnetHandler{values: values}, "tcp://"+addr, gnet.WithMulticore(multicore))
}

type gnetHandler struct {
	gnet.BuiltinEventEngine

	values *valueMap
}

// OnOpen implements gnet.EventHandler.
func (h *gnetHandler) OnOpen(conn gnet.Conn) ([]byte, gnet.Action) {
	conn.SetContext(&respClient{values: h.values})
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (h *gnetHandler) OnTraffic(conn gnet.Conn) gnet.Action {
	c, _ := conn.Context().(*respClient)
	buf, err := conn.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	used, err := c.answer(buf)
	if err != nil {
		return gnet.Close
	}
	if _, err := conn.Discard(used); err != nil {
		return gnet.Close
	}
	_, err = conn.Write(c.out) // copies what the socket doesn't take
	c.out = c.out[:0]
	if err != nil {
		return gnet.Close
	}
	return gnet.None
}
