package engine

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A slowLog keeps the latest slow commands, for SLOWLOG. A command's time excludes its wait for locks, because
// Redis excludes the wait for earlier commands.
type slowLog struct {
	slower atomic.Int64 // ns; negative: none is kept
	exact  atomic.Bool  // slower is below quickTakes, so quick commands are timed too

	mu   sync.Mutex
	most int
	next int64
	all  []slowCommand // the latest last
}

type slowCommand struct {
	id         int64
	time       int64 // Unix s
	took       time.Duration
	args       []string
	addr, name string
}

// quickTakes is longer than any quick command takes, unless its arguments or its reply are large. Such a
// command is timed.
const quickTakes = time.Millisecond

// set applies the settings slowlog-log-slower-than, in µs, and slowlog-max-len.
func (l *slowLog) set(slower, most int64) {
	if slower > int64(24*time.Hour/time.Microsecond) {
		slower = int64(24 * time.Hour / time.Microsecond)
	}
	l.slower.Store(max(slower, -1) * 1000)
	l.exact.Store(slower >= 0 && slower < quickTakes.Microseconds())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = int(min(most, 1<<31))
	l.trim()
}

func (l *slowLog) trim() {
	if over := len(l.all) - l.most; over > 0 {
		l.all = append(l.all[:0:0], l.all[over:]...)
	}
}

func (l *slowLog) add(by *call, cmd *command, args [][]byte, took time.Duration) {
	if cmd.Has(rediscmd.SkipSlowlog) {
		return
	}
	s := by.s
	if cmd.flags&flagScript != 0 && s.asArgs != nil {
		args = s.asArgs
	}
	c := slowCommand{time: by.e.clock.Now().Unix(), took: took, args: shorten(args, secrets(cmd, args)), addr: nobody}
	if !by.scripted {
		c.addr, c.name = s.whoIs()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.id = l.next
	l.next++
	if l.most == 0 {
		return
	}
	if len(l.all) >= l.most {
		l.all = append(l.all[:0], l.all[len(l.all)-l.most+1:]...)
	}
	l.all = append(l.all, c)
}

// nobody is Redis' address of a client without a connection, like a script.
const nobody = "?:0"

// whoIs returns the address and the name of the session's client.
func (s *Session) whoIs() (addr, name string) {
	a := &s.client
	a.mu.Lock()
	defer a.mu.Unlock()
	if name = a.name; a.namer != nil {
		name = a.namer()
	}
	return cmp.Or(a.addr, nobody), name
}

// SetNamer sets the function that returns the name of the session's client, if the caller answers CLIENT
// SETNAME itself. Call it before the session runs commands.
func (s *Session) SetNamer(name func() string) { s.client.namer = name }

// As in Redis.
const (
	slowArgs     = 32
	slowArgBytes = 128
)

// secrets returns which of the first arguments the slow log and MONITOR hide.
func secrets(cmd *command, args [][]byte) (hidden [slowArgs]bool) {
	hide := func(from, n int) {
		for i := from; i < min(from+n, len(args), slowArgs); i++ {
			hidden[i] = true
		}
	}
	switch cmd.Name {
	case "acl|setuser", "acl|deluser", "acl|getuser":
		hide(2, len(args))
	case "auth":
		hide(1, len(args))
	case "config|set":
		for i := 2; i < len(args); i += 2 {
			if is(args[i], "masterauth") || is(args[i], "masteruser") || is(args[i], "requirepass") {
				hide(i+1, 1)
			}
		}
	case "hello":
		for i := 2; i < len(args); i++ {
			if is(args[i], "auth") {
				hide(i+1, 2)
				break
			}
		}
	case "migrate":
		for i := 6; i < len(args) && !is(args[i], "keys"); i++ {
			if is(args[i], "auth") {
				hide(i+1, 1)
				i++
			} else if is(args[i], "auth2") {
				hide(i+1, 2)
				i += 2
			}
		}
	}
	return hidden
}

func shorten(args [][]byte, hidden [slowArgs]bool) []string {
	short := make([]string, 0, min(len(args), slowArgs))
	for i, a := range args {
		switch {
		case i == slowArgs-1 && len(args) > slowArgs:
			return append(short, fmt.Sprintf("... (%d more arguments)", len(args)-i))
		case hidden[i]:
			short = append(short, "(redacted)")
		case len(a) > slowArgBytes:
			short = append(short, string(a[:slowArgBytes])+"... ("+strconv.Itoa(len(a)-slowArgBytes)+" more bytes)")
		default:
			short = append(short, string(a))
		}
	}
	return short
}

func cmdSlowlogGet(c *call) {
	n := int64(10)
	if len(c.args) == 3 {
		var ok bool
		if n, ok = parseInt(c.args[2]); !ok || n < -1 {
			c.err("ERR count should be greater than or equal to -1")
			return
		}
	}
	if len(c.args) > 3 {
		c.unknownForm()
		return
	}
	l := &c.e.slow
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.all)) {
		n = int64(len(l.all))
	}
	c.array(int(n))
	for i := range int(n) {
		s := &l.all[len(l.all)-1-i]
		c.array(6)
		c.int(s.id)
		c.int(s.time)
		c.int(s.took.Microseconds())
		c.array(len(s.args))
		for _, a := range s.args {
			c.str(a)
		}
		c.str(s.addr)
		c.str(s.name)
	}
}

func cmdSlowlogLen(c *call) {
	l := &c.e.slow
	l.mu.Lock()
	n := len(l.all)
	l.mu.Unlock()
	c.int(int64(n))
}

func cmdSlowlogReset(c *call) {
	l := &c.e.slow
	l.mu.Lock()
	l.all = nil
	l.mu.Unlock()
	c.ok()
}

func cmdSlowlogHelp(c *call) {
	c.helpLines("GET [<count>]",
		"    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
		"    Entries are made of:",
		"    id, timestamp, time in microseconds, arguments array, client IP and port,",
		"    client name",
		"LEN",
		"    Return the length of the slowlog.",
		"RESET",
		"    Reset the slowlog.")
}
