//go:build !race

// Under the race detector times mean nothing.

package engine

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/threadtime"
)

// growths are commands that make something grow: %d is replaced by a number.
var growths = map[string]string{
	"keyspace":          "SET key:%d value:%d",
	"keys of one slot":  "SET {t}key:%d value:%d",
	"keys with a TTL":   "SET key:%d v PX 1000000%d",
	"TTLs of one slot":  "SET {t}key:%d v PX 1000000%d",
	"hash":              "HSET hash field:%d value:%d",
	"set":               "SADD set member:%d",
	"set of integers":   "SADD set %d",
	"sorted set":        "ZADD zset %d member:%d",
	"list":              "RPUSH list element:%d",
	"fields with a TTL": "HSETEX hash PX 1000000%d FIELDS 1 field:%d v",
}

// TestGrowthDoesNotPause makes everything that can grow do so, one command
// after the other, and wants none of them to take 5 ms: tables grow little by
// little, and the collector asks for little at a time. ENGINE_FAULTS=full
// grows them to 5 million. The short form leaves 15 ms to a machine on which others
// run, whose caches are cold: to move 200,000 keys at once takes longer.
func TestGrowthDoesNotPause(t *testing.T) {
	slow.Test(t, "it grows each kind of table to 200,000 elements")
	n, most := thorough(5_000_000, 200_000), time.Duration(thorough(5, 15))*time.Millisecond
	for name, line := range growths {
		if only := os.Getenv("ENGINE_GROWTH"); only != "" && only != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			threadtime.Lock(t)
			e := open(t, Options{})
			s := e.Session()
			var busy, passed histogram
			var out []byte
			words := strings.Fields(line)
			args := make([][]byte, len(words))
			for i := range n {
				for j, w := range words {
					args[j] = args[j][:0]
					if prefix, ok := strings.CutSuffix(w, "%d"); ok {
						args[j] = appendInt(append(args[j], prefix...), int64(i))
					} else {
						args[j] = append(args[j], w...)
					}
				}
				wall, cpu := time.Now(), threadtime.Now()
				out, _ = s.Do(out[:0], args)
				busy.add(threadtime.Now() - cpu)
				passed.add(time.Since(wall))
				if out[0] == '-' {
					t.Fatalf("%s", out)
				}
			}
			t.Logf("processor time: %v", &busy)
			t.Logf("time passed:    %v", &passed)
			if busy.most > most {
				t.Errorf("a command took %v of the processor, no. %d of %d", busy.most, busy.at, n)
			}
			if os.Getenv("ENGINE_FAULTS") == "full" && passed.most > 5*time.Millisecond {
				t.Logf("a command took %v, no. %d of %d", passed.most, passed.at, n)
			}
		})
	}
}
