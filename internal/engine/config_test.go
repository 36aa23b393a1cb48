package engine

import "testing"

// A value that Redis refuses is refused with its words.
func TestConfigRefusesWhatRedisDoes(t *testing.T) {
	s, o := open(t, Options{}).Session(), dialOracle(t, startOracle(t))
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
