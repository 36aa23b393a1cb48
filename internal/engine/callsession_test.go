package engine

import (
	"testing"
	"unsafe"

	"github.com/redoubt-go/redoubt"
)

// Different cores may use two callSessions that were made one after the other.
func TestCallSessionsShareNoCacheLine(t *testing.T) {
	e := open(t, Options{})
	cmd := redoubt.Cmd{Script: redoubt.NewScript("set", "return redis.call('SET', KEYS[1], ARGV[1])"), Keys: []string{"k"}, Args: []string{"v"}}
	owners := map[uintptr]int{}
	check := func(n int, what string, p unsafe.Pointer, size uintptr) {
		t.Helper()
		for line := uintptr(p) / cacheLine; line <= (uintptr(p)+size-1)/cacheLine; line++ {
			if owner, taken := owners[line]; taken && owner != n {
				t.Fatalf("sessions %d and %d share a cache line, the latter's %s", owner, n, what)
			}
			owners[line] = n
		}
	}
	var made []*callSession
	for i := range 20 {
		l := e.takeSession() // a new one: the others are not given back
		made = append(made, l)
		if _, ran := l.run(&cmd, false); !ran || string(l.out) != "+OK\r\n" {
			t.Fatalf("%q", l.out)
		}
		h := l.s.host
		check(i, "callSession", unsafe.Pointer(l), unsafe.Sizeof(*l))
		check(i, "session", unsafe.Pointer(l.s), unsafe.Sizeof(*l.s))
		check(i, "host", unsafe.Pointer(h), unsafe.Sizeof(*h))
		check(i, "arguments", unsafe.Pointer(unsafe.SliceData(l.args)), uintptr(cap(l.args))*unsafe.Sizeof(l.args[0]))
		check(i, "reply", unsafe.Pointer(unsafe.SliceData(l.out)), uintptr(cap(l.out)))
		check(i, "charges", unsafe.Pointer(unsafe.SliceData(l.s.c.charges)), uintptr(cap(l.s.c.charges))*unsafe.Sizeof(charge{}))
		check(i, "script's arguments", unsafe.Pointer(unsafe.SliceData(h.argv)), uintptr(cap(h.argv))*unsafe.Sizeof(l.args[0]))
		check(i, "script's reply", unsafe.Pointer(unsafe.SliceData(h.reply)), uintptr(cap(h.reply)))
		check(i, "script's charges", unsafe.Pointer(unsafe.SliceData(h.inner.charges)), uintptr(cap(h.inner.charges))*unsafe.Sizeof(charge{}))
	}
	for _, l := range made {
		e.putSession(l)
	}
}

// A caller runs what is quick in its own goroutine: there it can't leave before the end.
func TestQuickForCallers(t *testing.T) {
	native, plain := redoubt.NewScript("native", "return 1"), redoubt.NewScript("plain", "return 2")
	e := open(t, Options{Natives: map[string]Native{native.Digest(): func(*Tx) bool { return false }}})
	for _, c := range []struct {
		cmd  redoubt.Cmd
		want bool
	}{
		{redoubt.Cmd{Script: native, Args: make([]string, 64)}, true},
		{redoubt.Cmd{Script: native, Args: make([]string, 65)}, false},
		{redoubt.Cmd{Script: plain}, false},
		{redoubt.Cmd{Name: "GET", Keys: []string{"k"}}, true},
		{redoubt.Cmd{Name: "PFCOUNT", Keys: []string{"k"}}, true},
		{redoubt.Cmd{Name: "PFCOUNT", Keys: []string{"k", "l"}}, false},
		{redoubt.Cmd{Name: "PFCOUNT", Args: []string{"k"}}, false},
		{redoubt.Cmd{Name: "KEYS", Args: []string{"*"}}, false},
	} {
		if got := e.quick(&c.cmd); got != c.want {
			t.Errorf("%+v: %t", c.cmd, got)
		}
	}
}
