package geo_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt"
)

var errDied = redoubt.UnknownOutcome(context.DeadlineExceeded)

// A mortal is the Conn of a process that dies after some commands, in the middle of a
// pipeline too, before a command or after it: nothing of it reaches the server any
// more.
type mortal struct {
	redoubt.Conn

	mu    sync.Mutex
	rng   *rand.Rand
	lives int    // commands until it dies; < 0: it does not
	after string // a script after which it dies
	dead  bool
}

// take reports whether the next command is run, and whether its reply comes back.
func (m *mortal) take(cmd redoubt.Cmd) (runs, answers bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return false, false
	}
	m.lives--
	if m.after != "" && cmd.Script != nil && cmd.Script.Name() == m.after {
		m.dead = true
		return true, false
	}
	if m.lives == 0 {
		m.dead = true
		return m.rng.IntN(2) == 0, false
	}
	return true, true
}

func (m *mortal) died() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return m.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (m *mortal) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	run, answered := 0, 0
	for _, c := range cmds {
		runs, answers := m.take(c)
		if runs {
			run++
		}
		if !answers {
			break
		}
		answered++
	}
	replies := make([]redoubt.Reply, len(cmds))
	if run > 0 {
		copy(replies, m.Conn.Pipeline(ctx, cmds[:run]))
	}
	for i := answered; i < len(replies); i++ {
		replies[i] = redoubt.Reply{Err: errDied}
	}
	return replies
}

// A held is the Conn of a process that stands still before its first call of a script,
// while others do something.
type held struct {
	redoubt.Conn
	before    string // the script
	meanwhile func()
	once      sync.Once
}

// hold fails the test in which it never comes to that.
func hold(t *testing.T, conn redoubt.Conn, before string, meanwhile func()) *held {
	return &held{Conn: conn, before: before, meanwhile: surely(t, meanwhile)}
}

func surely(t *testing.T, f func()) func() {
	t.Helper()
	done := false
	t.Cleanup(func() {
		if !done && !t.Failed() {
			t.Error("what was to happen meanwhile did not")
		}
	})
	return func() { done = true; f() }
}

func (h *held) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return h.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (h *held) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	for _, c := range cmds {
		if c.Script != nil && c.Script.Name() == h.before {
			h.once.Do(h.meanwhile)
		}
	}
	return h.Conn.Pipeline(ctx, cmds)
}

// A halting Conn does something between the first commands of its first long pipeline and
// the others.
type halting struct {
	redoubt.Conn
	first   int // so many
	between func()
	once    sync.Once
}

// halt fails the test in which there is none.
func halt(t *testing.T, conn redoubt.Conn, first int, between func()) *halting {
	return &halting{Conn: conn, first: first, between: surely(t, between)}
}

func (h *halting) Pipeline(ctx context.Context, cmds []redoubt.Cmd) (replies []redoubt.Reply) {
	if len(cmds) > h.first {
		h.once.Do(func() {
			replies = h.Conn.Pipeline(ctx, cmds[:h.first])
			h.between()
			cmds = cmds[h.first:]
		})
	}
	return append(replies, h.Conn.Pipeline(ctx, cmds)...)
}
