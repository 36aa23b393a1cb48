package engine

import (
	"strings"
	"testing"
)

// A command that must not wait and would have to has no effect.
func TestTryRun(t *testing.T) {
	e := open(t, Options{})
	s, o := e.Session(), e.Session()
	defer s.Close()
	defer o.Close()
	try := func(line string) (string, bool) {
		out, ran := s.TryRun([]byte("before "), split(line))
		return string(out), ran
	}
	if out, ran := try("SET k v"); !ran || out != "before +OK\r\n" {
		t.Errorf("SET: %q, %t", out, ran)
	}
	if out, ran := try("BLPOP l 0"); ran || out != "before " {
		t.Errorf("BLPOP on nothing: %q, %t", out, ran)
	}
	if out, _ := o.Do(nil, split("RPUSH l v")); string(out) != ":1\r\n" {
		t.Errorf("RPUSH: %q", out)
	}
	if out, ran := try("BLPOP l 0"); !ran || out != "before *2\r\n$1\r\nl\r\n$1\r\nv\r\n" {
		t.Errorf("BLPOP: %q, %t; RPUSH has served a command that was given up", out, ran)
	}
	for _, line := range []string{"INCR n", "MSET n 1 m 1"} {
		sh := &e.shards[shardOf([]byte("n"))]
		sh.mu.Lock()
		out, ran := try(line)
		sh.mu.Unlock()
		if ran || out != "before " {
			t.Errorf("%s on a locked key: %q, %t", line, out, ran)
		}
	}
	if out, ran := try("INCR n"); !ran || out != "before :1\r\n" {
		t.Errorf("INCR: %q, %t", out, ran)
	}
}

func TestQuick(t *testing.T) {
	s := open(t, Options{}).Session()
	defer s.Close()
	for line, want := range map[string]bool{
		"LPOP l": true, "LPOP l 99": true, "LPOP l 100000": false, "ZPOPMIN z 1000": false,
		"GET k": true, "set k v": true, "MSET a 1 b 2": true, "nonsense": true, "ZADD z 1 m": true,
		"XADD s * f v": true, "XREADGROUP GROUP g c COUNT 10 STREAMS s >": true, "XREADGROUP GROUP g c STREAMS s >": false, "XREAD COUNT 1000 STREAMS s 0": false, "XREAD": false,
		"KEYS *": false, "SORT l": false, "LRANGE l 0 -1": false, "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0": false,
		"PFCOUNT k": true, "PFCOUNT k l": false,
		"SADD s" + strings.Repeat(" m", 100): false,
	} {
		if got := s.Quick(split(line)); got != want {
			t.Errorf("%.40s: %t", line, got)
		}
	}
}
