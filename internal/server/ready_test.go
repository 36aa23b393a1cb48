package server_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A plainListener hides what its connections are, so that each gets a goroutine
// of its own.
type plainListener struct{ net.Listener }

type plainConn struct{ *net.TCPConn }

func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return plainConn{c.(*net.TCPConn)}, nil
}

// alsoPlain returns an address at which srv gives each client a goroutine.
func alsoPlain(tb testing.TB, srv *server.Server) (addr string) {
	tb.Helper()
	l, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(plainListener{l}) })
	tb.Cleanup(func() {
		_ = srv.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// A load tells how long this process had to wait for a processor: by how much a
// goroutine that only ticks was late, and how long threads that could run did not.
type load struct {
	mu    sync.Mutex
	marks []mark
	stop  chan struct{}
	wg    sync.WaitGroup
}

type mark struct {
	at      time.Time
	late    time.Duration
	threads map[string]time.Duration // that each could not run so far
}

func measureLoad() *load {
	l := &load{stop: make(chan struct{})}
	l.wg.Go(func() {
		const every = 5 * time.Millisecond
		t := time.NewTicker(every)
		defer t.Stop()
		for before := time.Now(); ; {
			select {
			case <-l.stop:
				return
			case <-t.C:
			}
			now := time.Now()
			m := mark{now, now.Sub(before) - every, waited()}
			before = now
			l.mu.Lock()
			l.marks = append(l.marks, m)
			l.mu.Unlock()
		}
	})
	return l
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// waited reads how long each thread has waited for a processor, on Linux.
func waited() map[string]time.Duration {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	all := make(map[string]time.Duration, len(files))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		if s := strings.Fields(string(b)); len(s) == 3 {
			n, _ := strconv.ParseInt(s[1], 10, 64)
			all[f] = time.Duration(n)
		}
	}
	return all
}

// between returns how late the goroutine was in sum, and how long threads waited:
// one at most, and all together.
func (l *load) between(from, to time.Time) (late, one, threads time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.marks, from, func(m mark, t time.Time) int { return m.at.Compare(t) })
	j, _ := slices.BinarySearchFunc(l.marks, to, func(m mark, t time.Time) int { return m.at.Compare(t) })
	i, j = max(0, i-1), min(len(l.marks)-1, j+1)
	for _, m := range l.marks[i+1 : j+1] {
		late += max(0, m.late)
	}
	for f, d := range l.marks[j].threads {
		one = max(one, d-l.marks[i].threads[f])
		threads += d - l.marks[i].threads[f]
	}
	return late, one, threads
}

// An answer is when a command was sent and for how long its reply was awaited.
type answer struct {
	at   time.Time
	took time.Duration
}

// ask sends a command over and over until stop, each after the reply to the one
// before, and at most one in each pause.
func ask(conn net.Conn, command func(i int) []string, pause time.Duration, stop *atomic.Bool) (all []answer) {
	pace := time.NewTicker(max(pause, 1))
	defer pace.Stop()
	buf := make([]byte, 64<<10)
	var line []byte
	for i := 0; !stop.Load(); i++ {
		line = resp.AppendCommand(line[:0], command(i)...)
		at := time.Now()
		if _, err := conn.Write(line); err != nil {
			return all
		}
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return all
			}
			if buf[n-1] == '\n' {
				break
			}
		}
		all = append(all, answer{at, time.Since(at)})
		if pause > 0 {
			<-pace.C
		}
	}
	return all
}

// Clients with quick commands are served while others run new and known scripts,
// wait, send much, read slowly, and come and go. Time that the machine itself was
// busy doesn't count.
func TestReadyClientsAreServed(t *testing.T) {
	const most = 50 * time.Millisecond
	length := 500 * time.Millisecond
	if os.Getenv("ENGINE_FAULTS") == "full" {
		length = 10 * time.Second
	}
	srv, looped := start(t, engineURL(t))
	plain := alsoPlain(t, srv)
	l := measureLoad()
	defer l.end()
	connect := func(addr string) net.Conn {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
		}
		return conn
	}
	burn := func(turns int, id string) []string {
		return []string{"EVAL", "local x = 0 for i = 1, " + strconv.Itoa(turns) + " do x = x + i % 7 end return redis.call('SET', KEYS[1], x) --" + id, "1", "busy" + id}
	}
	var unserved, plainWorst time.Duration
	for round := range 4 {
		addr, name := looped, "loop"
		if round%2 == 1 {
			addr, name = plain, "plain"
		}
		began := time.Now()
		var stop atomic.Bool
		var wg sync.WaitGroup
		run := func(f func()) { wg.Go(f) }
		client := func(pause time.Duration, command func(i int) []string) {
			run(func() {
				conn := connect(addr)
				defer conn.Close()
				ask(conn, command, pause, &stop)
			})
		}
		client(time.Millisecond, func(int) []string { return burn(300_000, "known") })
		client(5*time.Millisecond, func(i int) []string { return burn(100_000, fmt.Sprint(round, "new", i)) })
		client(0, func(int) []string { return []string{"BLPOP", "nothing" + name, "0.001"} })
		client(time.Millisecond, func(i int) []string { return []string{"SET", "large", strings.Repeat("v", 100_000)} })
		run(func() { // sends ahead and reads later
			line := strings.Repeat(string(resp.AppendCommand(nil, "GET", "large")), 64)
			pace := time.NewTicker(3 * time.Millisecond)
			defer pace.Stop()
			for !stop.Load() {
				conn := connect(addr)
				_, _ = conn.Write([]byte(line))
				<-pace.C
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			}
		})
		run(func() {
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			for i := 0; !stop.Load(); i++ {
				conn := connect(addr)
				_, _ = conn.Write([]byte("MULTI\r\nPING\r\nEXEC\r\nQUIT\r\n"))
				if i%2 == 0 {
					_, _ = io.Copy(io.Discard, conn)
				}
				conn.Close()
				<-pace.C
			}
		})
		var mu sync.Mutex
		var all []answer
		for k := range 8 {
			run(func() {
				conn := connect(addr)
				defer conn.Close()
				got := ask(conn, func(i int) []string { return []string{"SET", fmt.Sprint("k", k), "v"} }, 500*time.Microsecond, &stop)
				mu.Lock()
				all = append(all, got...)
				mu.Unlock()
			})
		}
		func() {
			defer wg.Wait()
			defer stop.Store(true)
			await.Always(t, length, "all connect", func() bool { return !t.Failed() })
		}()
		slices.SortFunc(all, func(a, b answer) int { return int(a.took - b.took) })
		at := func(part float64) time.Duration {
			return all[int(part*float64(len(all)-1))].took.Round(10 * time.Microsecond)
		}
		late, one, threads := l.between(began, time.Now())
		t.Logf("%-5s %d commands: median %v, p99 %v, p99.9 %v, at most %v; a goroutine was %v late, one thread waited %v, all %v",
			name, len(all), at(0.5), at(0.99), at(0.999), at(1), late, one, threads)
		shown := 0
		for _, a := range slices.Backward(all) {
			if a.took < most {
				break
			}
			late, one, threads := l.between(a.at, a.at.Add(a.took))
			if shown++; shown < 6 {
				t.Logf("  %v at %s: late %v, one %v, threads %v", a.took, a.at.Format("05.000"), late, one, threads)
			}
			switch { // each of its threads may have waited in turn
			case name == "plain":
				plainWorst = max(plainWorst, a.took)
			case a.took-late > most && a.took-threads > most:
				unserved = max(unserved, a.took)
			}
		}
	}
	if unserved > 2*plainWorst {
		t.Errorf("a client was not served for %v; with a goroutine for each it was %v at most", unserved, plainWorst)
	}
}
