package engine

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/lua"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// A ledger is an account with a limit, which tells what is held and the most that was.
type ledger struct {
	mu                 sync.Mutex
	limit, total, peak int
}

func (l *ledger) account() func(int) bool {
	has := 0
	return func(n int) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n > has && l.total+n-has > l.limit {
			return false
		}
		l.total += n - has
		has = n
		l.peak = max(l.peak, l.total)
		return true
	}
}

func (l *ledger) held() (now, peak int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.peak
}

// TestQueuedCommandsAreCounted: what MULTI queues counts until it has run or is discarded. A
// command for which there is no room is refused, and then nothing of the transaction is kept.
func TestQueuedCommandsAreCounted(t *testing.T) {
	e := open(t, Options{})
	l := &ledger{limit: 1 << 20}
	s := e.Session()
	s.SetAccount(l.account)
	value := strings.Repeat("x", 300_000)
	for _, end := range []string{"EXEC", "DISCARD", "RESET"} {
		run(s, "MULTI")
		run(s, "SET k "+value)
		if now, _ := l.held(); now < 300_000 {
			t.Errorf("%d bytes are counted of a queue of 300,000", now)
		}
		run(s, end)
		if now, _ := l.held(); now != 0 {
			t.Errorf("%d bytes are counted after %s", now, end)
		}
	}
	run(s, "MULTI")
	for i := range 5 {
		out, _ := s.Do(nil, argv("SET", "k", value))
		switch refused := bytes.Contains(out, []byte("-ERR the command is not queued: all clients together hold more")); {
		case refused != (i == 3):
			t.Errorf("SET %d: %.100q", i, out)
		case refused:
			if now, _ := l.held(); now != 0 || s.queue != nil {
				t.Errorf("%d bytes are kept of a transaction that will fail", now)
			}
		}
	}
	if out, _ := s.Do(nil, argv("EXEC")); !bytes.HasPrefix(out, []byte("-EXECABORT")) {
		t.Errorf("EXEC: %q", out)
	}
}

// TestClosedSessionsCountNothing: a session that ends gives back what it held in a transaction and for a reply. Its client
// may begin another.
func TestClosedSessionsCountNothing(t *testing.T) {
	e := open(t, Options{})
	l := &ledger{limit: 1 << 20}
	s := e.sessionOf(l)
	run(s, "SET k "+strings.Repeat("x", 300_000))
	run(s, "MULTI")
	run(s, "SET other "+strings.Repeat("x", 300_000))
	s.Close()
	if now, _ := l.held(); now != 0 {
		t.Errorf("%d bytes are counted of a transaction that never runs", now)
	}
	s = e.sessionOf(l)
	run(s, "GET k")
	s.Close()
	if now, _ := l.held(); now != 0 {
		t.Errorf("%d bytes are counted of a reply that nobody takes", now)
	}
	conn, err := e.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c, _ := conn.(*clientConn)
	c.SetAccount(l.account)
	for _, line := range []string{"GET k\r\n", "BLPOP none 0\r\n" + strings.Repeat("GET k\r\n", 30_000)} { // the second waits behind BLPOP
		if _, err := conn.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if now, _ := l.held(); now < 300_000 {
		t.Errorf("%d bytes are counted of a connection with a reply of 300,000", now)
	}
	_ = conn.Close()
	if now, _ := l.held(); now != 0 {
		t.Errorf("%d bytes are counted of a closed connection", now)
	}
}

// TestRepliesBeingMadeAreCounted: a long reply counts while it is made and until it is handed
// over. One for which there is no room is an error, and the next command has its reply.
func TestRepliesBeingMadeAreCounted(t *testing.T) {
	e := open(t, Options{})
	l := &ledger{limit: 4 << 20}
	s := e.Session()
	s.SetAccount(l.account)
	run(s, "SET k "+strings.Repeat("x", 500_000))
	mget := argv("MGET", "k", "k", "k", "k", "k", "k", "k", "k", "k", "k", "k", "k", "k", "k")
	exec := func(cmd ...string) (out []byte) {
		run(s, "MULTI")
		for range 14 {
			run(s, strings.Join(cmd, " "))
		}
		out, _ = s.Do(nil, argv("EXEC"))
		return out
	}
	for name, ask := range map[string]func() []byte{
		"MGET": func() []byte { out, _ := s.Do(nil, mget); return out },
		"EXEC": func() []byte { return exec("GET", "k") },
		"EVAL": func() []byte {
			out, _ := s.Do(nil, argv("EVAL", "local s = redis.call('GET', KEYS[1]) return {s,s,s,s,s,s,s,s,s,s,s,s,s,s}", "1", "k"))
			return out
		},
	} {
		if out := ask(); !bytes.Contains(out, []byte("-ERR the reply has no room: all clients together hold more")) {
			t.Errorf("%s: %.100q", name, out)
		}
		s.HandedOver()
		out, _ := s.Do(nil, argv("GET", "k"))
		if now, peak := l.held(); len(out) < 500_000 || now < 500_000 || peak > l.limit {
			t.Errorf("GET after %s: %d bytes; %d are counted, and %d at the most", name, len(out), now, peak)
		}
		s.HandedOver()
		if now, _ := l.held(); now != 0 {
			t.Errorf("%s: %d bytes are counted of what was handed over", name, now)
		}
	}
}

// TestUnreadMessagesAreCounted: messages that wait to be read count, and where there is no room
// for them the subscriber's connection ends.
func TestUnreadMessagesAreCounted(t *testing.T) {
	e := open(t, Options{})
	l := &ledger{limit: 1 << 20}
	conn, err := e.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, _ := conn.(*clientConn)
	c.SetAccount(l.account)
	if _, err := conn.Write([]byte("SUBSCRIBE news\r\n")); err != nil {
		t.Fatal(err)
	}
	s := e.Session()
	message, heard := strings.Repeat("m", 100_000), 0
	for range 20 {
		if out, _ := s.Do(nil, argv("PUBLISH", "news", message)); string(out) == ":1\r\n" {
			heard++
		}
		if !c.isOver() {
			if now, _ := l.held(); now < heard*100_000 {
				t.Fatalf("%d bytes are counted of %d messages of 100,000", now, heard)
			}
		}
	}
	if !c.isOver() {
		t.Errorf("the connection goes on after %d messages", heard)
	}
	if now, peak := l.held(); now != 0 || peak > l.limit {
		t.Errorf("%d bytes are counted, and %d at the most", now, peak)
	}
}

// TestEffectsOfScriptsAreCounted: what a script gathers for the log counts as what scripts
// hold, until it is logged.
func TestEffectsOfScriptsAreCounted(t *testing.T) {
	e := onDisk(t, faultdisk.New(), Options{})
	var err error
	if e.lua, err = lua.NewRuntime(lua.Options{Memory: 2 << 20, TotalMemory: 4 << 20}); err != nil {
		t.Fatal(err)
	}
	s := e.Session()
	const script = "for i = 1, 100 do redis.call('SET', KEYS[1], string.rep('x', 100000)) end"
	for name, do := range map[string]func() []byte{
		"script": func() []byte { out, _ := s.Do(nil, argv("EVAL", script, "1", "k")); return out },
		"scripts of a transaction": func() []byte {
			run(s, "MULTI")
			for range 60 {
				s.Do(nil, argv("EVAL", "redis.call('SET', KEYS[1], string.rep('x', 100000))", "1", "k"))
			}
			out, _ := s.Do(nil, argv("EXEC"))
			return out
		},
	} {
		if out := do(); !bytes.Contains(out, []byte("ERR the changes of the script have no room: the scripts that run at once hold too much memory")) {
			t.Errorf("%s: %.200q", name, out)
		}
		if n := e.ScriptMemory(); n != 0 {
			t.Errorf("%s: %d bytes are counted at the end", name, n)
		}
	}
	if out, _ := s.Do(nil, argv("EVAL", "return redis.call('SET', KEYS[1], 'y')", "1", "k")); string(out) != "+OK\r\n" {
		t.Errorf("a small script: %q", out)
	}
}

// TestTiedKeysAreBounded: a compaction in parts remembers names of keys that belong together, up
// to so many bytes. Beyond that it has one part.
func TestTiedKeysAreBounded(t *testing.T) {
	e := open(t, Options{MaxMemory: 1 << 20})
	e.memory.used.Store(1 << 20)
	name := func(i int) []byte { return []byte(strings.Repeat("k", 1<<20) + strconv.Itoa(i)) }
	for pairs, parts := range map[int]int{4: 5, 12: 1} {
		f, err := e.folding(func(record func(aof.Record) error) error {
			for i := range pairs {
				err := record(aof.Record{Commands: [][][]byte{{[]byte("RENAME"), name(2 * i), name(2*i + 1)}}})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || f.parts != parts {
			t.Errorf("%d pairs of names of 1 MiB: %d parts, %v; want %d", pairs, f.parts, err, parts)
		}
	}
	e.memory.used.Store(0)
}
