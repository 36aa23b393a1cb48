package poolhost

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// nutcrackerStats are the statistics of nutcracker 0.5.0 after the commands of TestPoolStats.
//
//go:embed testdata/nutcracker-stats.json
var nutcrackerStats string

// askStats returns the document of the stats port at addr.
func askStats(t *testing.T, addr string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// poolStatsOf returns the part of a document about one pool: the names in their order, and the numbers.
func poolStatsOf(t *testing.T, text, pool string) (names []string, numbers map[string]any) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if err := json.Unmarshal(all[pool], &numbers); err != nil {
		t.Fatalf("pool %s: %v in %s", pool, err, text)
	}
	return regexp.MustCompile(`"[^"]+":`).FindAllString(string(all[pool]), -1), numbers
}

// TestPoolStats: the stats port has the names and numbers of nutcracker after the same commands, except for known
// differences.
func TestPoolStats(t *testing.T) {
	one, two, cache := redistest.Start(t), redistest.Start(t), memcachedtest.Start(t)
	addr := map[string]string{"alpha": freeAddr(t), "beta": freeAddr(t), "delta": freeAddr(t), "gone": freeAddr(t), "stats": freeAddr(t)}
	s := serve(t, fmt.Sprintf(`alpha:
  listen: %s
  hash: fnv1a_64
  distribution: modula
  redis: true
  servers:
   - %s:1 redis-1
   - %s:1 redis-2
beta:
  listen: %s
  servers:
   - %s:1 cache-1
delta:
  listen: %s
  redis: true
  servers:
   - %s:1 gone
`, addr["alpha"], one.Addr(), two.Addr(), addr["beta"], cache.Addr(), addr["delta"], addr["gone"]))
	if err := s.host.ListenStats(addr["stats"], time.Millisecond); err != nil {
		t.Fatal(err)
	}

	command := func(args ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(args))
		for _, a := range args {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
		}
		return text
	}
	for pool, commands := range map[string][]string{
		"alpha": {
			command("SET", "a", "1"), command("MGET", "a", "b", "c", "d"), command("MGET", "a"), command("MGET", "a", "c"),
			command("DEL", "a", "b", "c"), command("MSET", "a", "1", "b", "2"), command("QUIT"),
		},
		"beta":  {"set x 0 0 1\r\n1\r\n", "get x y z\r\n", "get x\r\n", "quit\r\n"},
		"delta": {command("GET", "a"), command("GET", "a"), command("QUIT")},
	} {
		u := dialRaw(t, "tcp", addr[pool])
		if _, err := io.WriteString(u.conn, strings.Join(commands, "")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(u.r); err != nil {
			t.Fatal(err)
		}
	}
	// All other numbers are equal.
	differs := map[string]string{
		"fragments":     "nutcracker doesn't count them",
		"request_bytes": "parts of commands are written in another way",
		"server_err":    "Redoubt reconnects to a server in the background",
		"gone.requests": "and is sent nothing",
	}
	flat := func(numbers map[string]any) map[string]any {
		all := map[string]any{}
		for name, v := range numbers {
			if inner, ok := v.(map[string]any); ok {
				for k, n := range inner {
					if differs[k] == "" && differs[name+"."+k] == "" {
						all[name+"."+k] = n
					}
				}
			} else if differs[name] == "" {
				all[name] = v
			}
		}
		return all
	}
	for _, pool := range []string{"alpha", "beta", "delta"} {
		wantNames, want := poolStatsOf(t, nutcrackerStats, pool)
		names, _ := poolStatsOf(t, askStats(t, addr["stats"]), pool)
		if !slices.Equal(names, wantNames) {
			t.Errorf("pool %s: %v, want %v", pool, names, wantNames)
		}
		var got map[string]any
		eventually(t, "all is counted in "+pool, func() bool {
			_, got = poolStatsOf(t, askStats(t, addr["stats"]), pool)
			return maps.Equal(flat(got), flat(want)) || t.Failed()
		})
	}
	text := askStats(t, addr["stats"])
	wantHead := regexp.MustCompile(`^\{"service":"redoubt", "source":"[^"]*", "version":"[^"]+", "uptime":\d+, "timestamp":\d+, "total_connections":\d+, "curr_connections":6, "alpha": \{`)
	if !wantHead.MatchString(text) { // 6: three listeners, three servers that are up
		t.Errorf("it begins with %.300s", text)
	}
	metrics := s.metrics(t)
	for _, sample := range []string{
		`redoubt_pool_latency_seconds_count{pool="alpha"} 7`, // QUIT too
		`redoubt_pool_latency_seconds_bucket{pool="alpha",le="10"} 7`,
		`redoubt_pool_latency_seconds_bucket{pool="alpha",le="+Inf"} 7`,
		`redoubt_pool_server_latency_seconds_count{pool="alpha",server="redis-1"} 6`,
		`redoubt_pool_latency_seconds_count{pool="beta"} 3`,
		`redoubt_pool_server_latency_seconds_bucket{pool="beta",server="cache-1",le="10"} 3`,
		`redoubt_pool_server_requests_total{pool="alpha",protocol="resp2",server="redis-2"} 3`,
		`redoubt_pool_clients_ended_total{how="eof",pool="beta"} 1`,
		`redoubt_pool_hottest_key_per_second{pool="alpha"} `,
		`redoubt_pool_slow_commands_total{pool="alpha"} `,
	} {
		if !strings.Contains(metrics, "\n"+sample) {
			t.Errorf("the metrics have no %s", sample)
		}
	}
	if _, got := poolStatsOf(t, text, "alpha"); got["fragments"] != 6.0 {
		t.Errorf("%v fragments, want 6", got["fragments"])
	}
}
