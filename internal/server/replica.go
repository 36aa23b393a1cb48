package server

import (
	"bytes"
	"context"
	"net"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A replicator is a Session whose engine can be followed by replicas.
type replicator interface {
	// Replconf answers a REPLCONF in front of PSYNC, with an error reply or nil.
	Replconf(args [][]byte) error
	// Replicate serves the replica that has sent args, SYNC or PSYNC, until the connection or ctx ends. unread are
	// bytes of the client that were read already.
	Replicate(ctx context.Context, conn net.Conn, unread []byte, args [][]byte) error
}

// replicate answers REPLCONF, and serves a replica from its SYNC or PSYNC on.
func replicate(c *session, args [][]byte, _ []byte) {
	name := string(bytes.ToUpper(args[0]))
	var engine replicator
	if r, ok := c.route.(*inprocess); ok {
		engine, _ = r.engine.(replicator)
	}
	switch {
	case engine == nil:
		c.reject("ERR redoubt: " + name + " is not supported through redoubt: replicate from the back end itself")
		return
	case c.tx.active:
		c.reject("ERR Command not allowed inside a transaction")
		return
	case name == "REPLCONF":
		if err := engine.Replconf(args); err != nil {
			c.fail(err.Error())
		} else {
			c.ok()
		}
		return
	}
	if !c.quiesce() {
		return
	}
	log, addr := c.srv.opts.Logger, c.conn.RemoteAddr().String()
	log.Info("a replica has come", "client", c.id, "addr", addr)
	var again resp.CommandScanner // raw is not what was read if the command came as words in a line
	n, _ := again.Next(c.buf[c.from:c.to])
	err := engine.Replicate(c.ctx, replicaConn{c.conn, c}, bytes.Clone(c.buf[c.from+n:c.to]), args)
	log.Info("a replica has gone", "client", c.id, "addr", addr, "error", err)
	c.quit = true
	c.kill(errGone)
}

// A replicaConn counts what a replica sends as a sign that the client is there.
type replicaConn struct {
	*socket.Conn

	session *session
}

func (r replicaConn) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.session.active.Store(r.session.srv.clock.Load())
	r.session.traffic.bytesIn.Add(uint64(n)) //nolint:gosec // not negative
	return n, err
}

func (r replicaConn) Write(p []byte) (int, error) {
	n, err := r.Conn.Write(p)
	r.session.traffic.bytesOut.Add(uint64(n)) //nolint:gosec // not negative
	return n, err
}
