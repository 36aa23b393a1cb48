package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/proxy/hotkeys"
)

// asks notes that a key is asked for.
func (c *session) asks(key []byte) {
	if c.sampler.Next() {
		c.srv.hot.Add(key, time.Now())
	}
}

// asksAll notes that the keys at some positions are asked for.
func (c *session) asksAll(at []int, args [][]byte) {
	for _, i := range at {
		c.asks(args[i])
	}
}

// HotKeys returns at most n keys of the pool, those that clients ask for most at present
// first. The keys of Redoubt's own commands are not among them.
func (s *Server) HotKeys(n int) []hotkeys.Key { return s.hot.Top(n, time.Now()) }

// shownHotKeys is how many INFO shows.
const shownHotKeys = 16

func (s *Server) appendHotKeys(b *strings.Builder) {
	for i, k := range s.HotKeys(shownHotKeys) {
		fmt.Fprintf(b, "hotkey%d:key=%q,per_second=%.1f,error=%.1f\r\n", i, k.Key, k.PerSecond, k.Error)
	}
}
