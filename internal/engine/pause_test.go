package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

const pauseFunctions = `#!lua name=pausing
redis.register_function{function_name='reads', callback=function() return 1 end, flags={'no-writes'}}
redis.register_function('writes', function() return 1 end)`

// TestPause: CLIENT PAUSE holds back what it says. A command that Redis refuses is refused at once. The program's own
// calls go on.
func TestPause(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	defer s.Close()
	s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(pauseFunctions)})
	digest := run(s, "SCRIPT LOAD return(1)")[5:45]
	for _, c := range []struct {
		command    string
		write, all bool // whether PAUSE WRITE and PAUSE ALL hold it
	}{
		{"SET k v", true, true},
		{"GET k", false, true},
		{"SET k", false, false},
		{"NOSUCH", false, false},
		{"CONFIG NOSUCH", false, false},
		{"CLIENT UNPAUSE", false, false},
		{"CLIENT LIST", false, false},
		{"PING", false, true},
		{"PUBLISH c m", true, true},
		{"PFCOUNT k", true, true},
		{"EVAL return(1) 0", true, true},
		{"EVALSHA " + digest + " 0", true, true},
		{"EVALSHA 0000000000000000000000000000000000000000 0", true, true},
		{"EVAL_RO return(1) 0", false, true},
		{"EVAL #!lua\x01flags=no-writes\x02return(1) 0", false, true},
		{"EVAL #!lua\x02return(1) 0", true, true},
		{"FCALL reads 0", false, true},
		{"FCALL writes 0", true, true},
		{"FCALL_RO reads 0", false, true},
		{"BLPOP list 1", true, true},
		{"MULTI", false, true},
		{"EXEC", false, true},
	} {
		args := split(c.command)
		for i := range args {
			args[i] = []byte(strings.NewReplacer("\x01", " ", "\x02", "\n").Replace(string(args[i])))
		}
		for mode, want := range map[string]bool{"WRITE": c.write, "ALL": c.all} {
			run(s, "CLIENT UNPAUSE")
			run(s, "CLIENT PAUSE 100000 "+mode)
			if got := s.Held(args, false); got != want {
				t.Errorf("PAUSE %s and %q: held %t, want %t", mode, c.command, got, want)
			}
		}
	}
	run(s, "CLIENT UNPAUSE")
	run(s, "CLIENT PAUSE 100000 WRITE")
	if !s.Held(split("EXEC"), true) || s.Held(nil, false) || !s.Held(nil, true) {
		t.Error("what the caller says of a command doesn't count")
	}
	run(s, "CLIENT PAUSE 100000")
	if r := e.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}); r.Err != nil {
		t.Error(r.Err)
	}
}

// TestPauseEnds: a pause ends after its time or by CLIENT UNPAUSE; a later one may make it longer and stricter, not
// shorter or milder; and who leaves doesn't wait.
func TestPauseEnds(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	defer s.Close()
	held := func(command string) bool { return s.Held(split(command), false) }
	run(s, "CLIENT PAUSE 100000 WRITE")
	run(s, "CLIENT PAUSE 1 WRITE")
	if !held("SET k v") || held("GET k") {
		t.Error("the pause became shorter or stricter")
	}
	run(s, "CLIENT PAUSE 1 ALL")
	if !held("GET k") {
		t.Error("the pause did not become stricter")
	}
	run(s, "CLIENT PAUSE 1 WRITE")
	if !held("GET k") {
		t.Error("the pause became milder")
	}
	wait := func(ctx context.Context) chan bool {
		over := make(chan bool)
		go func() { over <- s.AwaitPause(ctx, split("SET k v"), false) }()
		await.Until(t, 20*time.Second, "the command waits", func() bool { return e.stats.blocked.Load() == 1 })
		return over
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := wait(ctx)
	cancel()
	if <-over {
		t.Error("a command that was given up may run")
	}
	over = wait(t.Context())
	other := e.Session()
	defer other.Close()
	run(other, "CLIENT UNPAUSE")
	if !<-over || held("SET k v") {
		t.Error("UNPAUSE did not end the pause")
	}
	run(s, "CLIENT PAUSE 30 ALL")
	if !s.AwaitPause(t.Context(), split("GET k"), false) || held("GET k") || s.Holds() {
		t.Error("the pause did not end after its time")
	}
	for command, want := range map[string]string{
		"CLIENT PAUSE x": "-ERR timeout is not an integer or out of range\r\n", "CLIENT PAUSE -1": "-ERR timeout is negative\r\n",
		"CLIENT PAUSE 9223372036854775807": "-ERR timeout is out of range\r\n", "CLIENT PAUSE 1 SOME": "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n",
		"CLIENT PAUSE": "-ERR wrong number of arguments for 'client|pause' command\r\n", "CLIENT PAUSE 1 ALL x": "-ERR syntax error\r\n",
	} {
		if got := run(s, command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestKeysStayDuringPause: a key whose time is over is gone for readers, but it isn't deleted before the pause ends,
// because that would write. Then it is.
func TestKeysStayDuringPause(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock})
	s := e.Session()
	defer s.Close()
	run(s, "SET k v PX 10")
	run(s, "SET l v PX 10")
	run(s, "CLIENT PAUSE 100000 WRITE")
	clock.advance(time.Second)
	e.sweep()
	want(t, s, "GET k", "$-1\r\n")
	want(t, s, "EXISTS k", ":0\r\n")
	if n := e.stats.expired.Load(); n != 0 {
		t.Errorf("%d keys were deleted during the pause", n)
	}
	run(s, "CLIENT UNPAUSE")
	want(t, s, "GET k", "$-1\r\n")
	clock.advance(time.Second)
	await.Soon(t, "the sweeper deletes the other key", func() bool { return e.stats.expired.Load() == 2 })
}
