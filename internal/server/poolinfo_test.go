package server_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// TestPoolStatistics: INFO and LATENCY HISTOGRAM of a pool add up what its servers count.
func TestPoolStatistics(t *testing.T) {
	p := startPool(t, 2)
	for _, protocol := range []int{2, 3} {
		rdb := redis.NewClient(&redis.Options{Addr: p.addr, Protocol: protocol})
		t.Cleanup(func() { _ = rdb.Close() })
		for _, n := range p.nodes {
			n.CLI("CONFIG", "RESETSTAT")
			n.CLI("FLUSHALL")
		}
		ctx := t.Context()
		for k, times := range map[string]int{"a": 3, "b": 2} { // on redis-1, and redis-2
			for range times {
				if err := rdb.Do(ctx, "SETEX", k, 100, "v").Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := rdb.LPush(ctx, k, "v").Err(); err == nil {
				t.Fatal("a string is no list")
			}
		}
		info, err := rdb.InfoMap(ctx, "commandstats", "errorstats", "keyspace", "clients").Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := info["Commandstats"]["cmdstat_setex"]; !strings.HasPrefix(got, "calls=5,usec=") || !strings.HasSuffix(got, ",rejected_calls=0,failed_calls=0") {
			t.Errorf("SETEX: %q of %v", got, info)
		}
		if got := info["Commandstats"]["cmdstat_lpush"]; !strings.HasPrefix(got, "calls=2,usec=") || !strings.HasSuffix(got, ",rejected_calls=0,failed_calls=2") {
			t.Errorf("LPUSH: %q of %v", got, info)
		}
		if got := info["Errorstats"]["errorstat_WRONGTYPE"]; got != "count=2" {
			t.Errorf("WRONGTYPE: %q of %v", got, info)
		}
		if got := info["Keyspace"]["db0"]; !strings.HasPrefix(got, "keys=2,expires=2,avg_ttl=") || len(got) > len("keys=2,expires=2,avg_ttl=123456") {
			t.Errorf("keyspace: %q of %v", got, info)
		}
		if info["Clients"]["connected_clients"] == "" || info["Pool"] != nil || info["Server"] != nil {
			t.Errorf("%v", info)
		}
		if all, err := rdb.InfoMap(ctx, "all").Result(); err != nil || all["Pool"]["pool_name"] == "" || all["Server"]["run_id"] == "" || all["Commandstats"]["cmdstat_setex"] == "" {
			t.Errorf("INFO all: %v, %v", all, err)
		}
		w := dial(t, p.addr)
		w.value("HELLO", strconv.Itoa(protocol))
		got := flat(w.value("LATENCY", "HISTOGRAM", "setex", "lpush", "zadd"))
		for i, want := range []struct {
			name  string
			calls int64
		}{{"lpush", 2}, {"setex", 5}} {
			of, _ := got[2*i+1].([]any)
			steps, _ := of[3].([]any)
			if len(got) != 4 || got[2*i] != want.name || of[0] != "calls" || of[1] != want.calls || of[2] != "histogram_usec" || steps[len(steps)-1] != want.calls {
				t.Errorf("RESP%d: %v", protocol, got)
			}
		}
		w.want("-ERR unknown command 'LATENCY RESET': it is not supported through a pool: connect to one of its servers for it\r\n", "LATENCY RESET")
	}
}

// flat is a reply with its maps as RESP2 has them.
func flat(v any) []any {
	if m, ok := v.(resp.Map); ok {
		v = []any(m)
	}
	list, _ := v.([]any)
	for i, e := range list {
		if f := flat(e); f != nil {
			list[i] = f
		}
	}
	return list
}
