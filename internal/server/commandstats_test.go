package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestCommandsCountByName: on the engine INFO, SLOWLOG and LATENCY name the command that the client sent,
// whether the server answers it, makes a script of it, or waits for it.
func TestCommandsCountByName(t *testing.T) {
	_, addr := start(t, engineURL(t))
	ctx := t.Context()
	c := redis.NewClient(&redis.Options{Addr: addr, ClientName: "app", PoolSize: 1, DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	for _, line := range []string{
		"CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET", "CONFIG RESETSTAT",
		"CL.THROTTLE limit 4 1 3600", "LOCK.ACQUIRE l 1000 BLOCK 10", "PING", "CLIENT ID", "STRLEN k", "CLIENT TRACKING ON", "GETBIT k 7",
	} {
		var args []any
		for w := range strings.FieldsSeq(line) {
			args = append(args, w)
		}
		if err := c.Do(ctx, args...).Err(); err != nil && err != redis.Nil { //nolint:errorlint // it is never wrapped
			t.Fatalf("%s: %v", line, err)
		}
	}
	info, err := c.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	stats := info["Commandstats"]
	for _, name := range []string{"cl.throttle", "lock.acquire", "ping", "client|id", "strlen", "config|resetstat"} {
		if got := stats["cmdstat_"+name]; !strings.HasPrefix(got, "calls=1,") || !strings.HasSuffix(got, ",rejected_calls=0,failed_calls=0") {
			t.Errorf("%s: %q; all are %v", name, got, stats)
		}
	}
	found := false
	for _, e := range c.SlowLogGet(ctx, -1).Val() {
		if e.Args[0] == "CL.THROTTLE" {
			found = len(e.Args) == 5 && e.ClientName == "app" && e.ClientAddr != "" && time.Since(e.Time) < time.Minute
		}
	}
	me := c.Do(ctx, "CLIENT", "INFO").Val().(string)
	for _, e := range c.SlowLogGet(ctx, -1).Val() { // on the client's own connection, too
		if e.Args[0] == "GETBIT" && (!strings.Contains(me, " addr="+e.ClientAddr+" ") || e.ClientName != "app") {
			t.Errorf("GETBIT is of %s %s, and the client is %s", e.ClientAddr, e.ClientName, me)
		}
	}
	if !found {
		t.Errorf("SLOWLOG GET: %v", c.SlowLogGet(ctx, -1).Val())
	}
	histogram, err := c.Do(ctx, "LATENCY", "HISTOGRAM", "cl.throttle", "client|id", "strlen").Slice()
	if err != nil || len(histogram) != 6 || histogram[0] != "cl.throttle" || histogram[2] != "client|id" || histogram[4] != "strlen" {
		t.Fatalf("LATENCY HISTOGRAM: %v %v", histogram, err)
	}
	if of, ok := histogram[1].([]any); !ok || len(of) != 4 || of[1] != int64(1) {
		t.Errorf("LATENCY HISTOGRAM: %v", histogram)
	}
}
