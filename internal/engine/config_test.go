package engine

import (
	"slices"
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
		{"CONFIG", "SET", "min-slaves-to-write", "0", "replica-priority", "7", "slave-announce-port", "70", "replica-announce-ip", "h", "lazyfree-lazy-user-del", "yes"},
		{"CONFIG", "GET", "min-replicas-to-write"}, {"CONFIG", "GET", "slave-priority"}, {"CONFIG", "GET", "replica-announce-*"}, {"CONFIG", "GET", "lazyfree*"},
		{"CONFIG", "SET", "replica-priority", "8", "repl-diskless-sync-delay", "-1"}, {"CONFIG", "GET", "replica-priority", "slave-priority"},
		{"CONFIG", "GET", "repl-diskless-sync", "repl-diskless-sync-delay"}, {"CONFIG", "GET", "*-lazy-flush"}, {"CONFIG", "GET", "dynamic-hz", "activerehashing", "stop-writes-on-bgsave-error", "replica-announced", "dbfilename", "cluster-enabled"},
	} {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		got, want := runScript(s, words...), string(o.do(args))
		if words[0] == "CONFIG" && words[1] == "GET" { // a map has no order
			got, want = inOrder(got), inOrder(want)
		}
		if got != want {
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
		{"replica-priority", "-1"}, {"replica-announce-port", "65536"}, {"replica-announced", "1"}, {"dbfilename", "x.rdb"}, {"cluster-enabled", "yes"}, {"dynamic-hz", ""},
		{"lazyfree-lazy-expire", "maybe"}, {"repl-diskless-sync-delay", "x"}, {"min-slaves-max-lag", "-1"},
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

// inOrder sorts the pairs of a reply to CONFIG GET.
func inOrder(reply string) string {
	head, rest, _ := strings.Cut(reply, "\r\n")
	lines := strings.Split(strings.TrimSuffix(rest, "\r\n"), "\r\n")
	var pairs []string
	for i := 0; i+3 < len(lines); i += 4 {
		pairs = append(pairs, strings.Join(lines[i:i+4], " "))
	}
	slices.Sort(pairs)
	return head + strings.Join(pairs, ", ")
}
