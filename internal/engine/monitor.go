package engine

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// monitors are the sessions that are shown all commands. While there are none
// a command pays one load.
type monitors struct {
	n   atomic.Int32
	mu  sync.RWMutex
	all map[*Session]struct{}
}

func cmdMonitor(c *call) {
	if c.noBlock {
		c.err("ERR MONITOR isn't allowed for DENY BLOCKING client")
		return
	}
	c.e.monitors.add(c.s)
	c.ok()
}

func (m *monitors) add(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[*Session]struct{}{}
	}
	m.all[s] = struct{}{}
	m.n.Store(int32(len(m.all))) //nolint:gosec // counts sessions
	s.monitoring.Store(true)
}

func (m *monitors) remove(s *Session) {
	if !s.monitoring.Swap(false) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, s)
	m.n.Store(int32(len(m.all))) //nolint:gosec // counts sessions
}

// monitor shows the command to clients in MONITOR. Commands for administrators only, and commands
// that may hold a password, are not shown.
func (c *call) monitor(args [][]byte) {
	if c.e.monitors.n.Load() == 0 || c.cmd.Has(rediscmd.Admin) || c.cmd.Name == "auth" || c.cmd.Name == "hello" {
		return
	}
	from := "lua"
	if !c.scripted {
		c.s.client.mu.Lock()
		from = c.s.client.addr
		c.s.client.mu.Unlock()
	}
	now := c.e.clock.Now().UnixMicro()
	line := fmt.Appendf(nil, "+%d.%06d [%d %s]", now/1e6, now%1e6, c.db, from)
	hidden := secrets(c.cmd, args)
	for i, a := range args {
		line = append(line, ' ')
		if i < slowArgs && hidden[i] {
			a = []byte("(redacted)")
		}
		line = appendQuoted(line, a)
	}
	line = append(line, '\r', '\n')
	m := &c.e.monitors
	m.mu.RLock()
	defer m.mu.RUnlock()
	for s := range m.all {
		s.deliver(line)
	}
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes b as Redis shows strings (sdscatrepr).
func appendQuoted(dst, b []byte) []byte {
	dst = append(dst, '"')
	for _, c := range b {
		switch c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\a':
			dst = append(dst, '\\', 'a')
		case '\b':
			dst = append(dst, '\\', 'b')
		default:
			if c >= ' ' && c <= '~' {
				dst = append(dst, c)
			} else {
				dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			}
		}
	}
	return append(dst, '"')
}
