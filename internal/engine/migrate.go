package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// migrations keep the connections of MIGRATE for the next one, as Redis does.
type migrations struct {
	life  context.Context //nolint:containedctx // of the engine: when it ends, so do connections in use
	end   context.CancelFunc
	mu    sync.Mutex
	idle  map[string]*target // by address and credentials
	timer Timer
}

const (
	mostTargets = 64
	targetIdle  = 10 * time.Second
	leastWait   = time.Second // for a timeout of 0
)

// A target is a server that gets keys.
type target struct {
	conn  net.Conn
	in    *bufio.Reader
	db    string // the selected database
	used  time.Time
	fresh bool // it was opened for this MIGRATE
}

// take returns a connection for o, which is the caller's.
func (m *migrations) take(e *Engine, o *migration) (*target, error) {
	m.mu.Lock()
	t := m.idle[o.place()]
	delete(m.idle, o.place())
	m.mu.Unlock()
	if t != nil {
		t.fresh = false
		return t, nil
	}
	conn, err := e.dial(m.life, o.host, o.port, o.timeout)
	if err != nil {
		return nil, err
	}
	return &target{conn: conn, in: bufio.NewReader(conn), db: "0", fresh: true}, nil
}

// put keeps the connection of o for the next MIGRATE.
func (m *migrations) put(e *Engine, o *migration, t *target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle[o.place()] != nil || len(m.idle) >= mostTargets || e.closed.Load() {
		_ = t.conn.Close()
		return
	}
	if m.idle == nil {
		m.idle = make(map[string]*target)
	}
	t.used = time.Now()
	m.idle[o.place()] = t
	if m.timer == nil {
		m.timer = e.clock.AfterFunc(targetIdle, func() { m.sweep(e) })
	}
}

// sweep closes the connections that were not used for some time.
func (m *migrations) sweep(e *Engine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, t := range m.idle {
		if time.Since(t.used) >= targetIdle/2 {
			_ = t.conn.Close()
			delete(m.idle, at)
		}
	}
	if m.timer = nil; len(m.idle) > 0 {
		m.timer = e.clock.AfterFunc(targetIdle/2, func() { m.sweep(e) })
	}
}

func (m *migrations) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.idle)
}

// close closes all connections. The engine is closed.
func (m *migrations) close() {
	m.end()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
	for at, t := range m.idle {
		_ = t.conn.Close()
		delete(m.idle, at)
	}
}

// A migration is what MIGRATE asks for.
type migration struct {
	host, port    string
	db            string
	timeout       time.Duration
	copies        bool
	replaces      bool
	credentials   []string
	keys          [][]byte // that there are
	payloads, ttl [][]byte // of keys
}

// place is where the connection is kept: it is logged in, so the same credentials have to be given to use it again.
func (m *migration) place() string {
	return fmt.Sprintf("%q", append([]string{m.host, m.port}, m.credentials...))
}

// cmdMigrate answers MIGRATE. The keys' shards stay locked until the other server has answered: the keys must not change
// meanwhile. Redis stands still as a whole.
func cmdMigrate(c *call) {
	m, ok := c.parseMigrate()
	if !ok {
		return
	}
	if len(m.keys) == 0 {
		c.status("NOKEY")
		return
	}
	for {
		t, err := c.e.migrations.take(c.e, &m)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED): // Redis notices it when it writes
			c.err(migrateWrites)
			return
		case err != nil:
			c.err("IOERR error or timeout connecting to the client")
			return
		}
		stop := context.AfterFunc(c.e.migrations.life, func() { _ = t.conn.Close() })
		moved, fault, err := m.send(t)
		stop()
		if err == nil {
			c.e.migrations.put(c.e, &m, t)
		} else {
			_ = t.conn.Close()
			if !t.fresh && len(moved) == 0 && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errRefused) && c.e.migrations.life.Err() == nil {
				continue // the other server had closed the connection
			}
		}
		if !m.copies {
			c.giveAway(moved)
		}
		if fault != "" {
			c.err(fault)
		} else {
			c.ok()
		}
		return
	}
}

// giveAway deletes keys that another server has now.
func (c *call) giveAway(keys [][]byte) {
	for _, key := range keys {
		if c.lookup(key) == nil { // named twice
			continue
		}
		c.remove(key)
		c.changed(key)
		c.notify(eventGeneric, "del", key)
	}
	if len(keys) > 0 {
		c.instead(append([][]byte{[]byte("DEL")}, keys...)...)
	}
}

func (c *call) parseMigrate() (m migration, ok bool) {
	m.host, m.port = string(c.args[1]), string(c.args[2])
	keys := c.args[3:4]
	for i := 6; i < len(c.args); i++ {
		left := len(c.args) - 1 - i
		switch a := c.args[i]; {
		case is(a, "copy"):
			m.copies = true
		case is(a, "replace"):
			m.replaces = true
		case is(a, "auth") && left >= 1:
			m.credentials = []string{string(c.args[i+1])}
			i++
		case is(a, "auth2") && left >= 2:
			m.credentials = []string{string(c.args[i+1]), string(c.args[i+2])}
			i += 2
		case is(a, "keys"):
			if len(c.args[3]) != 0 {
				c.err("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string")
				return m, false
			}
			keys = c.args[i+1:]
			i = len(c.args)
		default:
			c.syntax()
			return m, false
		}
	}
	timeout, ok := c.argInt(c.args[5])
	if !ok {
		return m, false
	}
	db, ok := c.argInt(c.args[4])
	if !ok {
		return m, false
	}
	m.db, m.timeout = strconv.FormatInt(db, 10), time.Duration(min(timeout, int64(maxPause/time.Millisecond)))*time.Millisecond
	if timeout <= 0 {
		m.timeout = leastWait
	}
	for _, key := range keys {
		it := c.read(key)
		if it == nil {
			continue
		}
		ttl := int64(0)
		if it.val.expire != 0 {
			ttl = max(1, it.val.expire-c.time())
		}
		m.keys = append(m.keys, key)
		m.ttl = append(m.ttl, appendInt(nil, ttl))
		m.payloads = append(m.payloads, rdb.PayloadWith(nil, it.val.export(c.work), c.workBytes))
	}
	return m, true
}

// send sends the keys, and returns the keys that the target has taken. fault is the error for the client. With err, the
// connection is of no more use.
func (m *migration) send(t *target) (moved [][]byte, fault string, err error) {
	_ = t.conn.SetDeadline(time.Now().Add(m.timeout))
	// Redis sends the keys along. If SELECT is refused there, they come into the database that was selected before.
	if t.fresh && len(m.credentials) > 0 {
		if fault, err = t.prepare(append([]string{"AUTH"}, m.credentials...)...); err != nil {
			return nil, fault, err
		}
	}
	if t.db != m.db {
		if fault, err = t.prepare("SELECT", m.db); err != nil {
			return nil, fault, err
		}
		t.db = m.db
	}
	out := bufio.NewWriterSize(t.conn, 64<<10)
	var buf []byte
	for i, key := range m.keys {
		args := [][]byte{[]byte("RESTORE"), key, m.ttl[i], m.payloads[i]}
		if m.replaces {
			args = append(args, []byte("REPLACE"))
		}
		buf = resp.AppendCommand(buf[:0], args...)
		_, _ = out.Write(buf) // Flush has the error
	}
	if err := out.Flush(); err != nil {
		return nil, migrateWrites, err
	}
	for _, key := range m.keys {
		line, err := readLine(t.in)
		switch {
		case err != nil && fault != "":
			return moved, fault, err
		case err != nil:
			return moved, migrateReads, err
		case line[0] == '+':
			moved = append(moved, key)
		case line[0] != '-':
			return moved, migrateReads, errRefused
		case fault == "":
			fault = migrateRefused + line[1:]
		}
	}
	return moved, fault, nil
}

const (
	migrateWrites  = "IOERR error or timeout writing to target instance"
	migrateReads   = "IOERR error or timeout reading from target instance"
	migrateRefused = "ERR Target instance replied with error: "
)

// prepare runs a command that has to succeed before the keys are sent.
func (t *target) prepare(args ...string) (fault string, err error) {
	line, err := ask(t.conn, t.in, args...)
	switch {
	case err != nil:
		return migrateReads, err
	case line[0] == '-':
		return migrateRefused + line[1:], errRefused
	}
	return "", nil
}

var errRefused = errors.New("engine: the target of MIGRATE refused")
