package proxy

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A SlowLog keeps the commands for which servers of a [Pool] let clients wait. When a shared connection
// with a command under way is silent for the threshold or longer, the command of the next reply is logged.
// Replies that arrive together with it took as long, and any of their commands may be the cause. The
// server's own slow log tells whether one of them ran for long. The times here include the network, and
// other work of the server. Quick commands cost no time, only the memory of the bytes in flight. The
// methods may be called by many goroutines at once.
type SlowLog struct {
	threshold time.Duration
	most      int

	mu    sync.Mutex
	all   []SlowCommand // the latest last
	total uint64
}

// A SlowCommand is an entry of a [SlowLog].
type SlowCommand struct {
	ID     uint64 // counts from 0
	Time   time.Time
	Took   time.Duration
	Server string
	Client string   // its address; empty for commands of Redoubt itself
	Args   []string // shortened as Redis does: 32 at most, of 128 bytes each
	Behind uint64   // how many other replies came together with this one
}

// NewSlowLog returns a SlowLog of the latest commands that took threshold or longer, at most
// so many.
func NewSlowLog(threshold time.Duration, most int) *SlowLog {
	return &SlowLog{threshold: threshold, most: max(0, most)}
}

// Latest returns at most n commands, the latest first.
func (s *SlowLog) Latest(n int) []SlowCommand {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := slices.Clone(s.all[max(0, len(s.all)-n):])
	slices.Reverse(latest)
	return latest
}

// Total returns how many commands there have been.
func (s *SlowLog) Total() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *SlowLog) add(c *SlowCommand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ID = s.total
	s.total++
	s.all = append(s.all, *c)
	if over := len(s.all) - s.most; over > 0 {
		s.all = slices.Delete(s.all, 0, over)
	}
}

// argsOf returns the arguments of the command that has n others before it in buf.
func argsOf(buf []byte, n uint64) []string {
	var scanner resp.CommandScanner
	for ; ; n-- {
		end, err := scanner.Next(buf)
		if end == 0 || err != nil {
			return nil
		}
		if n == 0 {
			return shorten(scanner.Args())
		}
		buf = buf[end:]
	}
}

// As in Redis.
const (
	slowArgs     = 32
	slowArgBytes = 128
)

func shorten(args [][]byte) []string {
	short := make([]string, 0, min(len(args), slowArgs))
	for i, a := range args {
		switch {
		case i == slowArgs-1 && len(args) > slowArgs:
			return append(short, fmt.Sprintf("... (%d more arguments)", len(args)-i))
		case len(a) > slowArgBytes:
			short = append(short, fmt.Sprintf("%s... (%d more bytes)", a[:slowArgBytes], len(a)-slowArgBytes))
		default:
			short = append(short, string(a))
		}
	}
	return short
}
