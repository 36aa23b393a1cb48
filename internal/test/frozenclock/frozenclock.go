// Package frozenclock runs scripts with a time of the test's own.
package frozenclock

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

const (
	theTime = `redis.call('TIME')`
	prelude = "local frozen = {table.remove(ARGV, #ARGV - 1), table.remove(ARGV)} "
)

// A Conn runs scripts with a time that stands still until it is set. The server's
// own clock goes on, and lets keys expire.
type Conn struct {
	redoubt.Conn
	µs      atomic.Int64
	scripts map[*redoubt.Script]*redoubt.Script // by the original script
}

// New returns a Conn that stands at 2025-10-09 08:53:20.123456 UTC. It changes
// only the scripts that ask for the time; edit changes their sources further, and may be nil.
func New(conn redoubt.Conn, scripts []*redoubt.Script, edit func(source string) string) *Conn {
	c := &Conn{Conn: conn, scripts: map[*redoubt.Script]*redoubt.Script{}}
	c.Set(time.Unix(1_760_000_000, 123_456_000))
	for _, s := range scripts {
		source := s.Source()
		if !strings.Contains(source, theTime) {
			continue
		}
		source = prelude + strings.ReplaceAll(source, theTime, "frozen")
		if edit != nil {
			source = edit(source)
		}
		c.scripts[s] = redoubt.NewScript("frozen."+s.Name(), source)
	}
	return c
}

// Set sets the time.
func (c *Conn) Set(t time.Time) { c.µs.Store(t.UnixMicro()) }

// Advance moves the time.
func (c *Conn) Advance(d time.Duration) { c.µs.Add(d.Microseconds()) }

// Now returns the time.
func (c *Conn) Now() time.Time { return time.UnixMicro(c.µs.Load()) }

// Do runs one command.
func (c *Conn) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return c.Conn.Do(ctx, c.freeze(cmd))
}

// Pipeline runs several.
func (c *Conn) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	frozen := make([]redoubt.Cmd, len(cmds))
	for i, cmd := range cmds {
		frozen[i] = c.freeze(cmd)
	}
	return c.Conn.Pipeline(ctx, frozen)
}

func (c *Conn) freeze(cmd redoubt.Cmd) redoubt.Cmd {
	if s := c.scripts[cmd.Script]; s != nil {
		µs := c.µs.Load()
		cmd.Script = s
		cmd.Args = append(slices.Clip(cmd.Args),
			strconv.FormatInt(µs/1_000_000, 10), strconv.FormatInt(µs%1_000_000, 10))
	}
	return cmd
}
