package memcached

import (
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
)

// ask notes that keys are asked for.
func (c *client) ask(keys [][]byte) {
	for _, k := range keys {
		if c.sampler.Next() {
			c.pool.hot.Add(k, time.Now())
		}
	}
}

// HotKeys returns at most n keys, the most requested first.
func (p *Pool) HotKeys(n int) []hotkeys.Key { return p.hot.Top(n, time.Now()) }

// shownHotKeys is how many stats hotkeys shows.
const shownHotKeys = 16

// hotStats answers stats hotkeys.
func (p *Pool) hotStats() []byte {
	var out []byte
	for i, k := range p.HotKeys(shownHotKeys) {
		name := fmt.Sprintf("hotkey%d:", i)
		out = appendStat(out, name+"key", k.Key)
		out = appendStat(out, name+"per_second", fmt.Sprintf("%.1f", k.PerSecond))
		out = appendStat(out, name+"error", fmt.Sprintf("%.1f", k.Error))
	}
	return append(out, replyEnd...)
}
