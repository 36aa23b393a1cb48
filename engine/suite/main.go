// Suite serves an engine over TCP for Redis' own Tcl tests and for
// differential tests. It is no server for production: there is no limit, no
// authentication and no TLS.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/resp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:17016", "where to listen, loopback only")
	flag.Parse()
	e, err := engine.New(engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", ln.Addr())
	srv := &server{engine: e, clients: map[int64]*client{}}
	for {
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go srv.serve(conn)
	}
}

type server struct {
	engine  *engine.Engine
	mu      sync.Mutex
	clients map[int64]*client
}

// A client is written to by its own goroutine and by those of publishers.
type client struct {
	conn net.Conn
	s    *engine.Session
	name string
	mu   sync.Mutex
	wait *engine.Wait
}

func (c *client) write(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) > 0 {
		c.conn.Write(b)
	}
}

// serve reads and runs commands in one goroutine, so that what a client sent
// first is run first as far as that can be seen.
func (srv *server) serve(conn net.Conn) {
	c := &client{conn: conn, s: srv.engine.Session()}
	srv.mu.Lock()
	srv.clients[c.s.ID()] = c
	srv.mu.Unlock()
	c.s.OnPush(c.write)
	defer func() {
		conn.Close()
		c.s.Close()
		srv.mu.Lock()
		delete(srv.clients, c.s.ID())
		srv.mu.Unlock()
	}()
	var buf, w []byte
	var sc resp.CommandScanner
	chunk := make([]byte, 1<<16)
	for {
		n, err := sc.Next(buf)
		if err != nil {
			c.write(resp.AppendError(nil, "ERR "+err.Error()))
			return
		}
		if n == 0 {
			m, err := conn.Read(chunk)
			buf = append(buf, chunk[:m]...)
			if err != nil {
				return
			}
			continue
		}
		args := sc.Args()
		if len(args) > 0 {
			if out, ok := srv.own(c, args); ok {
				c.write(out)
				if strings.EqualFold(string(args[0]), "quit") {
					return
				}
			} else {
				var wait *engine.Wait
				w, wait = c.s.Do(w[:0], args)
				if wait != nil {
					var more []byte
					var alive bool
					if w, more, alive = c.waitFor(w, wait); !alive {
						return
					}
					buf = append(buf[:len(buf):len(buf)], more...)
				}
				c.write(w)
			}
		}
		buf = buf[n:]
	}
}

// waitFor waits for a blocked command. What the client sends meanwhile is
// returned too.
func (c *client) waitFor(w []byte, wait *engine.Wait) (reply, more []byte, alive bool) {
	c.write(w)
	c.mu.Lock()
	c.wait = wait
	c.mu.Unlock()
	gone := make(chan error, 1)
	go func() {
		chunk := make([]byte, 1<<14)
		for {
			n, err := c.conn.Read(chunk)
			more = append(more, chunk[:n]...)
			if err != nil {
				gone <- err
				return
			}
		}
	}()
	select {
	case <-wait.Done():
		c.conn.SetReadDeadline(time.Unix(1, 0))
		err := <-gone
		c.conn.SetReadDeadline(time.Time{})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil, false
		}
	case <-gone:
		if wait.Cancel() {
			return nil, nil, false
		}
	}
	return wait.Append(w[:0]), more, true
}

// own answers what belongs to a connection and not to the engine.
func (srv *server) own(c *client, args [][]byte) ([]byte, bool) {
	p := c.s.Protocol()
	switch strings.ToLower(string(args[0])) {
	case "quit":
		return resp.AppendSimple(nil, "OK"), true
	case "reset":
		c.s.Reset()
		return resp.AppendSimple(nil, "RESET"), true
	case "hello":
		if len(args) > 1 {
			n, ok := resp.ParseInt(args[1])
			if !ok || n != 2 && n != 3 {
				return resp.AppendError(nil, "NOPROTO unsupported protocol version"), true
			}
			c.s.SetProtocol(resp.Protocol(n))
			p = c.s.Protocol()
		}
		b := resp.AppendMap(nil, p, 7)
		for _, kv := range [][2]string{{"server", "redis"}, {"version", engine.Compatible}} {
			b = resp.AppendBulk(resp.AppendBulk(b, kv[0]), kv[1])
		}
		b = resp.AppendInt(resp.AppendBulk(b, "proto"), int64(p))
		b = resp.AppendInt(resp.AppendBulk(b, "id"), c.s.ID())
		b = resp.AppendBulk(resp.AppendBulk(b, "mode"), "standalone")
		b = resp.AppendBulk(resp.AppendBulk(b, "role"), "master")
		return resp.AppendArray(resp.AppendBulk(b, "modules"), 0), true
	case "client":
		if len(args) > 1 {
			return srv.clientCommand(c, args)
		}
	case "latency", "slowlog", "acl":
		return resp.AppendSimple(nil, "OK"), true
	}
	return nil, false
}

func (srv *server) clientCommand(c *client, args [][]byte) ([]byte, bool) {
	switch strings.ToLower(string(args[1])) {
	case "id":
		return resp.AppendInt(nil, c.s.ID()), true
	case "setname":
		c.name = string(args[2])
		return resp.AppendSimple(nil, "OK"), true
	case "getname":
		return resp.AppendBulk(nil, c.name), true
	case "list":
		return resp.AppendBulk(nil, fmt.Sprintf("id=%d addr=%s name=%s\n", c.s.ID(), c.conn.RemoteAddr(), c.name)), true
	case "unblock":
		id, ok := resp.ParseInt(args[2])
		if !ok {
			return resp.AppendError(nil, "ERR value is not an integer or out of range"), true
		}
		srv.mu.Lock()
		other := srv.clients[id]
		srv.mu.Unlock()
		n := int64(0)
		if other != nil {
			other.mu.Lock()
			wait := other.wait
			other.mu.Unlock()
			how := engine.UnblockTimeout
			if len(args) > 3 && strings.EqualFold(string(args[3]), "error") {
				how = engine.UnblockError
			}
			if wait != nil && wait.Unblock(how) {
				n = 1
			}
		}
		return resp.AppendInt(nil, n), true
	case "kill":
		killed := int64(0)
		if len(args) == 4 && strings.EqualFold(string(args[2]), "id") {
			id, _ := resp.ParseInt(args[3])
			srv.mu.Lock()
			other := srv.clients[id]
			srv.mu.Unlock()
			if other != nil {
				other.conn.Close()
				killed = 1
			}
		}
		return resp.AppendInt(nil, killed), true
	}
	return resp.AppendSimple(nil, "OK"), true
}
