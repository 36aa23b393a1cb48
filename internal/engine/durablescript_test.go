package engine

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// TestScriptsAreDurable wants what scripts did to be in the log as what they
// did, one record for each, however they ended.
func TestScriptsAreDurable(t *testing.T) {
	disk := faultdisk.New()
	e := onDisk(t, disk, Options{Fsync: aof.Always})
	s := e.Session()
	for i := range 40 {
		run(s, "SADD {t}set m"+strings.Repeat("x", i))
	}
	for _, script := range []string{
		"redis.call('SET', KEYS[1], ARGV[1]) redis.call('SELECT', 3) redis.call('INCR', KEYS[1]..'3') redis.call('SELECT', 0) return redis.call('APPEND', KEYS[1], 'z')",
		"return redis.call('SPOP', KEYS[2], 7)",
		"local t = redis.call('TIME') redis.call('SET', KEYS[1], t[1]..'.'..t[2], 'PX', 100000)",
		"redis.call('RPUSH', KEYS[3], redis.call('SRANDMEMBER', KEYS[2])) return redis.call('INCR', KEYS[3])",
		"redis.call('HSET', KEYS[4], 'a', '1') error('after a write')",
		"redis.call('HSET', KEYS[4], 'b', '1') return redis.call('NOSUCH')",
	} {
		s.Do(nil, [][]byte{[]byte("EVAL"), []byte(script), []byte("5"), []byte("{t}k"), []byte("{t}set"), []byte("{t}list"), []byte("{t}hash"), []byte("{t}k3"), []byte("5")})
	}
	run(s, "MULTI")
	s.Do(nil, [][]byte{[]byte("EVAL"), []byte("redis.call('SELECT', 2) return redis.call('SET', KEYS[1], 'in a transaction')"), []byte("1"), []byte("{t}k")})
	run(s, "SET {t}last 1")
	run(s, "EXEC")
	before := state(e)
	if len(before) != 7 {
		t.Errorf("%d keys were written, want 7: %v", len(before), before)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	again := onDisk(t, disk, Options{})
	sameState(t, state(again), before)
	if n := again.Recovered().Records; n != 40+6+1 {
		t.Errorf("%d records in the log, want 47", n)
	}
}
