package engine

import (
	"fmt"
	"runtime"
	"strings"
)

// used_memory and MEMORY STATS report the memory that maxmemory limits: the keys with their values.
// Buffers of clients, subscriptions, scripts and the tables of CLIENT TRACKING are left out. The
// allocator's figures cover the whole process.

// human writes a number of bytes as Redis does.
func human(n int64) string {
	units := "BKMGT"
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%dB", n)
	}
	return fmt.Sprintf("%.2f%c", f, units[i])
}

// overhead is the part of the memory beside the keys and values themselves.
func (e *Engine) overhead(c *call) int64 {
	keys := 0
	e.eachShard(c, func(sh *shard) {
		for _, ks := range sh.dbs {
			if ks != nil {
				keys += ks.keys.len()
			}
		}
	})
	return int64(keys) * itemBytes
}

// peak returns the most memory that the keys have taken, as seen a hundred times a second while commands
// run.
func (e *Engine) peak() int64 {
	used := e.memory.used.Load()
	for {
		most := e.memory.peak.Load()
		if used <= most || e.memory.peak.CompareAndSwap(most, used) {
			return max(used, most)
		}
	}
}

func (e *Engine) infoMemory(c *call, b *strings.Builder) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	used, limit, overhead := e.memory.used.Load(), e.memory.limit.Load(), e.overhead(c)
	fmt.Fprintf(b, "used_memory:%d\r\nused_memory_human:%s\r\nused_memory_rss:%d\r\nused_memory_rss_human:%s\r\nused_memory_overhead:%d\r\nused_memory_dataset:%d\r\n",
		used, human(used), m.Sys-m.HeapReleased, human(int64(m.Sys-m.HeapReleased)), overhead, max(used-overhead, 0)) //nolint:gosec // it fits
	peak := e.peak()
	share := 100.0
	if peak > 0 {
		share = float64(used) * 100 / float64(peak)
	}
	fmt.Fprintf(b, "used_memory_peak:%d\r\nused_memory_peak_human:%s\r\nused_memory_peak_perc:%.2f%%\r\n", peak, human(peak), share)
	fmt.Fprintf(b, "maxmemory:%d\r\nmaxmemory_human:%s\r\nmaxmemory_policy:%s\r\n", limit, human(limit), e.memory.policy.Load().name)
	fmt.Fprintf(b, "allocator_allocated:%d\r\nallocator_active:%d\r\nallocator_resident:%d\r\nmem_allocator:go\r\n", m.HeapAlloc, m.HeapInuse, m.HeapSys-m.HeapReleased)
	libraries, functions := e.functions.counts()
	fmt.Fprintf(b, "lazyfree_pending_objects:0\r\nnumber_of_cached_scripts:%d\r\nnumber_of_functions:%d\r\nnumber_of_libraries:%d\r\n", e.cache.len(), functions, libraries)
}

func cmdMemoryStats(c *call) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	used := c.e.memory.used.Load()
	overhead := c.e.overhead(c)
	figures := []struct {
		name string
		n    int64
	}{
		{"peak.allocated", c.e.peak()},
		{"total.allocated", used},
		{"overhead.total", overhead},
		{"dataset.bytes", max(used-overhead, 0)},
		{"allocator.allocated", int64(m.HeapAlloc)}, //nolint:gosec // it fits
		{"allocator.active", int64(m.HeapInuse)},    //nolint:gosec // it fits
	}
	c.mapHead(len(figures))
	for _, f := range figures {
		c.str(f.name)
		c.int(f.n)
	}
}
