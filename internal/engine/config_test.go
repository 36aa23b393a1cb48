package engine

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// A value that Redis refuses is refused with its words.
func TestConfigRefusesWhatRedisDoes(t *testing.T) {
	s, o := open(t, Options{}).Session(), dialOracle(t, startOracle(t))
	for _, words := range [][]string{
		{"CONFIG", "SET", "maxmemory", "1000000000", "MAXMEMORY", "1000000001"}, {"CONFIG", "SET", "maxmemory", "0", "lua-time-limit", "1", "maxmemory", "0"}, {"CONFIG", "GET", "maxmemory"},
		{"CONFIG", "SET", "latency-tracking-info-percentiles", "50.0 100.00 99.90"}, {"CONFIG", "GET", "latency-tracking-info-percentiles"},
		{"CONFIG", "SET", "latency-tracking-info-percentiles", ""}, {"CONFIG", "GET", "latency-tracking-info-percentiles"}, {"ROLE"}, {"ROLE", "x"}, {"LASTSAVE", "x"},
	} {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		if got, want := runScript(s, words...), string(o.do(args)); got != want {
			t.Errorf("%s: %q, Redis %q", words, got, want)
		}
	}
	if n, err := strconv.ParseInt(strings.Trim(run(s, "LASTSAVE"), ":\r\n"), 10, 64); err != nil || time.Since(time.Unix(n, 0)) > time.Minute {
		t.Errorf("LASTSAVE: %d, %v", n, err)
	}
	for _, pair := range [][2]string{
		{"active-expire-effort", "0"}, {"active-expire-effort", "10"}, {"active-expire-effort", "11"},
		{"slave-read-only", "perhaps"}, {"slave-read-only", "no"},
		{"slowlog-log-slower-than", "long"}, {"slowlog-log-slower-than", "-1"},
		{"appendonly", "maybe"}, {"databases", "3"},
		{"maxmemory-policy", "some"}, {"notify-keyspace-events", "?"},
	} {
		words := []string{"CONFIG", "SET", pair[0], pair[1]}
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		if got, want := runScript(s, words...), string(o.do(args)); got != want {
			t.Errorf("%s: %q, Redis %q", words, got, want)
		}
	}
}
