package redistest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// eventually calls ok until it is true, and fails the test after 20 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, 20*time.Second, what, ok)
}

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestServerAnswersOnBothAddresses(t *testing.T) {
	s := redistest.Start(t)
	if got := s.CLI("SET", "k", "v"); got != "OK" {
		t.Errorf("SET by redis-cli printed %q", got)
	}
	if got, err := client(t, s.Addr()).Get(t.Context(), "k").Result(); got != "v" {
		t.Errorf("GET by TCP is %q, %v", got, err)
	}
	unix := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer unix.Close()
	if got, err := unix.Get(t.Context(), "k").Result(); got != "v" {
		t.Errorf("GET by the socket is %q, %v", got, err)
	}
	opts, err := redis.ParseURL(s.URL())
	if err != nil || opts.Addr != s.Addr() {
		t.Errorf("URL %s gives address %v, %v", s.URL(), opts, err)
	}
}

func TestServersDoNotShareAnything(t *testing.T) {
	a, b := redistest.Start(t), redistest.Start(t)
	a.CLI("SET", "k", "v")
	if got := b.CLI("EXISTS", "k"); got != "0" {
		t.Errorf("a key of one server is on the other: EXISTS printed %q", got)
	}
}

// Start then tries another port.
func TestTakenPortIsFoundOut(t *testing.T) {
	if !redistest.Start(t).PortIsTaken(t) {
		t.Error("a second server on the same port did not fail as such")
	}
}

func TestManyServersAtOnce(t *testing.T) {
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			if got := s.CLI("INCR", "n"); got != "1" {
				t.Errorf("INCR printed %q", got)
			}
		})
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "77mb", "--requirepass", "secret")
	if got := s.CLI("GET", "k"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("GET without a password printed %q", got)
	}
	if got := s.CLI("--no-auth-warning", "-a", "secret", "CONFIG", "GET", "maxmemory"); !strings.Contains(got, "80740352") {
		t.Errorf("CONFIG GET maxmemory printed %q", got)
	}
}

func TestRestart(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"keeps nothing by default":      {nil, ""},
		"keeps what is in the log file": {[]string{"--appendonly", "yes"}, "v"},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, test.args...)
			addr := s.Addr()
			s.CLI("SET", "k", "v")
			s.Kill()
			s.Kill() // does nothing
			if got := s.CLI("PING"); !strings.Contains(got, "Could not connect") {
				t.Errorf("redis-cli on a killed server printed %q", got)
			}
			if conn, err := net.Dial("tcp", addr); err == nil {
				_ = conn.Close()
				t.Error("a killed server accepts connections")
			}
			s.Restart()
			if s.Addr() != addr {
				t.Errorf("it was at %s and is at %s", addr, s.Addr())
			}
			if got := s.CLI("GET", "k"); got != test.want {
				t.Errorf("GET after the restart printed %q, want %q", got, test.want)
			}
			s.Restart() // of a running one
			if got := s.CLI("GET", "k"); got != test.want {
				t.Errorf("GET after the second restart printed %q, want %q", got, test.want)
			}
		})
	}
}

func TestPausedServerAnswersNothingUntilResume(t *testing.T) {
	s := redistest.Start(t)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Pause()
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 16)); err == nil {
		t.Fatalf("a paused server sent %d bytes", n)
	}
	s.Resume()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if line != "+PONG\r\n" {
		t.Errorf("after Resume it sent %q, %v", line, err)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var addr, socket string
	t.Run("test", func(t *testing.T) {
		s := redistest.Start(t)
		addr, socket = s.Addr(), s.Socket()
		s.Pause() // a stopped process can be killed too
	})
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("the server outlives its test")
	}
	if _, err := os.Stat(filepath.Dir(socket)); !os.IsNotExist(err) {
		t.Errorf("the directory outlives its test: %v", err)
	}
}

// A test binary that is killed can't clean up. TestMain plays that binary.
func TestServersDieWithTheTestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		// Reason: only Linux has a parent-death signal; the package doc says so.
		t.Skip("needs a parent-death signal")
	}
	binary := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$", "-test.v")
	binary.Env = append(os.Environ(), "REDISTEST_VICTIM=1")
	out, err := binary.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := binary.Start(); err != nil {
		t.Fatal(err)
	}
	var sockets []string
	for lines := bufio.NewScanner(out); len(sockets) < 2 && lines.Scan(); {
		if socket, ok := strings.CutPrefix(lines.Text(), "socket "); ok {
			sockets = append(sockets, socket)
		}
	}
	for _, s := range sockets {
		conn, err := net.Dial("unix", s)
		if err != nil {
			t.Fatalf("the server of the other process does not run: %v", err)
		}
		_ = conn.Close()
	}
	if len(sockets) != 2 {
		t.Fatalf("the other process named the sockets %q, want 2", sockets)
	}
	if err := binary.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = binary.Wait()
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(sockets[0])) })
	eventually(t, "both servers end", func() bool {
		for _, s := range sockets {
			if conn, err := net.Dial("unix", s); err == nil {
				_ = conn.Close()
				return false
			}
		}
		return true
	})
	eventually(t, "the directory of the shared server is deleted", func() bool {
		_, err := os.Stat(filepath.Dir(sockets[1]))
		return os.IsNotExist(err)
	})
}

// TestVictim is the process that TestServersDieWithTheTestProcess kills.
func TestVictim(t *testing.T) {
	if os.Getenv("REDISTEST_VICTIM") == "" {
		// Reason: it does nothing but wait to be killed.
		t.Skip("part of another test")
	}
	fmt.Println("socket", redistest.Start(t).Socket())
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		if b.Server != nil {
			fmt.Println("socket", b.Server.Socket())
			select {}
		}
	})
}

func TestEach(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	seen := map[string]redistest.Backend{}
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		seen[b.Name] = b
		rdb := redis.NewClient(&redis.Options{Addr: b.Addr})
		defer rdb.Close()
		if err := rdb.Set(t.Context(), b.Prefix+":k", "v", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if opts, err := redis.ParseURL(b.URL); err != nil || opts.Addr != b.Addr {
			t.Errorf("URL %s gives address %v, %v", b.URL, opts, err)
		}
	})
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		before := seen[b.Name]
		if b.Prefix == before.Prefix {
			t.Errorf("two tests have the prefix %q", b.Prefix)
		}
		if (b.Server == nil) != (b.Name == "embedded") {
			t.Errorf("Server of %s is %v", b.Name, b.Server)
		}
		if b.Server != nil && b.Addr != before.Addr {
			t.Errorf("the redis-server is not shared: %s, then %s", before.Addr, b.Addr)
		}
	})
	if len(seen) != 2 {
		t.Errorf("Each ran on %d back ends, want redis and embedded", len(seen))
	}
}

// A recorder is a test that is to fail.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Fatal(args ...any) {
	r.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(t *testing.T, tb testing.TB)
		want string
	}{
		"redis-server is missing": {func(t *testing.T, tb testing.TB) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("REDIS_SERVER", "")
			redistest.Start(tb)
		}, "apt-get install redis-server"},
		"an option is wrong": {func(_ *testing.T, tb testing.TB) {
			redistest.Start(tb, "--maxmemory", "much")
		}, "redis-server ended at once"},
		"a dead server is to be paused": {func(_ *testing.T, tb testing.TB) {
			s := redistest.Start(tb)
			s.Kill()
			s.Pause()
		}, "does not run"},
		"the shared server is to be killed": {func(t *testing.T, tb testing.TB) {
			var shared *redistest.Server
			redistest.Each(t, func(_ *testing.T, b redistest.Backend) {
				if b.Server != nil {
					shared = b.Server.For(tb)
				}
			})
			shared.Kill()
		}, "use one of redistest.Start"},
		"a cluster without masters": {func(_ *testing.T, tb testing.TB) {
			redistest.StartCluster(tb, 0, 1)
		}, "0 masters"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				test.run(t, rec)
			}()
			<-done
			if !strings.Contains(rec.fatal, test.want) {
				t.Errorf("it failed with %q, want %q in it", rec.fatal, test.want)
			}
		})
	}
}

func TestSentinels(t *testing.T) {
	master := redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr())
	replica := redistest.Start(t, "--replicaof", host, port)
	sentinels := redistest.StartSentinels(t, 3, []redistest.Watched{{Name: "m", Master: master, Replicas: []*redistest.Server{replica}}})
	master.Kill()
	_, port, _ = net.SplitHostPort(replica.Addr())
	for _, s := range sentinels {
		await.Soon(t, "the replica is the master", func() bool { return strings.Contains(s.CLI("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"), port) })
	}
}
