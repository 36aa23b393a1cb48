package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

const pauseFunctions = `#!lua name=pausing
redis.register_function{function_name='reads', callback=function() return 1 end, flags={'no-writes'}}
redis.register_function('writes', function() return 1 end)`

// TestPause: CLIENT PAUSE holds back what it says, on both sorts of connections that a server has to the engine, until
// CLIENT UNPAUSE. What Redis refuses is refused at once. The program's own calls go on.
func TestPause(t *testing.T) {
	e := open(t, Options{})
	admin := e.Session()
	defer admin.Close()
	admin.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(pauseFunctions)})
	run(admin, "SCRIPT LOAD return(1)")
	blocked := func(n int) {
		t.Helper()
		await.Until(t, 20*time.Second, fmt.Sprint(n, " commands wait"), func() bool {
			return strings.Contains(run(admin, "INFO clients"), fmt.Sprintf("blocked_clients:%d\r\n", n))
		})
	}
	for _, c := range []struct {
		mode, command  string
		before, answer string
	}{
		{"WRITE", "SET k v", "", "+OK\r\n"},
		{"WRITE", "GET none", "", "$-1\r\n"},
		{"ALL", "GET none", "", "$-1\r\n"},
		{"ALL", "SET k", "", "-ERR wrong number of arguments for 'set' command\r\n"},
		{"ALL", "NOSUCH", "", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n"},
		{"WRITE", "PUBLISH c m", "", ":0\r\n"},
		{"WRITE", "PFCOUNT none", "", ":0\r\n"},
		{"WRITE", "EVAL return(1) 0", "", ":1\r\n"},
		{"WRITE", "EVAL_RO return(1) 0", "", ":1\r\n"},
		{"WRITE", "EVAL #!lua\x01flags=no-writes\x02return(1) 0", "", ":1\r\n"},
		{"WRITE", "FCALL reads 0", "", ":1\r\n"},
		{"WRITE", "FCALL writes 0", "", ":1\r\n"},
		{"WRITE", "SET k v", "MULTI", "+QUEUED\r\n"},
		{"WRITE", "EXEC", "MULTI; SET k v", "*1\r\n+OK\r\n"},
		{"WRITE", "EXEC", "MULTI; GET none", "*1\r\n$-1\r\n"},
		{"WRITE", "BLPOP list 0.001", "", "*-1\r\n"},
	} {
		waits := c.mode == "ALL" && c.answer[0] != '-' || c.mode == "WRITE" && !strings.HasPrefix(c.command, "GET") &&
			!strings.Contains(c.command, "_RO") && !strings.Contains(c.command, "reads") && !strings.Contains(c.command, "no-writes") && c.before != "MULTI; GET none"
		args := split(c.command)
		for i := range args {
			args[i] = []byte(strings.NewReplacer("\x01", " ", "\x02", "\n").Replace(string(args[i])))
		}
		name := c.mode + " " + c.before + " " + c.command
		ways := map[string]func() (send func(), reply func() string){
			"session": func() (func(), func() string) {
				s := e.Session()
				t.Cleanup(s.Close)
				for _, line := range strings.Split(c.before, "; ") {
					if line != "" {
						run(s, line)
					}
				}
				got := make(chan string, 1)
				return func() {
					out, ran := s.TryRun(nil, args)
					if ran == waits && !strings.HasPrefix(c.command, "BLPOP") {
						t.Errorf("%s: TryRun says %t", name, ran)
					}
					if ran {
						got <- string(out)
						return
					}
					go func() { got <- string(s.Run(t.Context(), nil, args)) }()
				}, func() string { return <-got }
			},
			"connection": func() (func(), func() string) {
				conn, err := e.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				r := bufio.NewReader(conn)
				for _, line := range strings.Split(c.before, "; ") {
					if line != "" {
						_, _ = fmt.Fprint(conn, line+"\r\n")
						_, _ = r.ReadString('\n')
					}
				}
				return func() {
						var b strings.Builder
						fmt.Fprintf(&b, "*%d\r\n", len(args))
						for _, a := range args {
							fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
						}
						_, _ = fmt.Fprint(conn, b.String())
					}, func() string {
						got := make([]byte, len(c.answer))
						if _, err := io.ReadFull(r, got); err != nil {
							t.Fatal(err)
						}
						return string(got)
					}
			},
		}
		for way, prepare := range ways {
			send, reply := prepare()
			if got := run(admin, "CLIENT PAUSE 100000 "+c.mode); got != "+OK\r\n" {
				t.Fatal(got)
			}
			send()
			if waits {
				blocked(1)
				run(admin, "CLIENT UNPAUSE")
			}
			if got := reply(); got != c.answer {
				t.Errorf("%s, %s: %q, want %q", way, name, got, c.answer)
			}
			run(admin, "CLIENT UNPAUSE")
			blocked(0)
		}
	}
	run(admin, "CLIENT PAUSE 100000")
	if r := e.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}); r.Err != nil {
		t.Error(r.Err)
	}
}

// TestPauseEnds: a pause ends after its time; a later one may make it longer and stricter, not shorter or milder; and who
// leaves doesn't wait.
func TestPauseEnds(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	defer s.Close()
	held := func(command string) bool { return s.held(split(command)) != nil }
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
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan string)
	go func() { gone <- string(s.Run(ctx, nil, split("SET k v"))) }()
	await.Until(t, 20*time.Second, "the command waits", func() bool { return e.stats.blocked.Load() == 1 })
	cancel()
	if got := <-gone; got != "" {
		t.Errorf("a call that was given up answers %q", got)
	}
	conn, err := e.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprint(conn, "SET k v\r\n")
	await.Until(t, 20*time.Second, "the command waits", func() bool { return e.stats.blocked.Load() == 1 })
	_ = conn.Close()
	await.Until(t, 20*time.Second, "nobody waits", func() bool { return e.stats.blocked.Load() == 0 })
	run(s, "CLIENT UNPAUSE")
	run(s, "CLIENT PAUSE 30 ALL")
	if got := string(s.Run(t.Context(), nil, split("GET k"))); got != "$-1\r\n" || held("GET k") {
		t.Errorf("after the time: %q", got)
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
