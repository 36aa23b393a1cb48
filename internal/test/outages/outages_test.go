package outages

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

var (
	duration = flag.Duration("duration", 0, "how long the run lasts; 0 is the short form: three kills, and bounds that a busy machine keeps")
	every    = flag.Duration("every", time.Minute, "how often a server is killed")
	seedFlag = flag.Uint64("seed", 0, "seed of the choices; 0 draws one")
)

// silent keeps the log of go-redis to itself: that servers go away is what is tested.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestOutages(t *testing.T) {
	slow.Test(t, "it kills three servers one after the other under clients at work")
	redis.SetLogger(silent{})
	length, between, patience, old := *duration, *every, time.Second, 100*time.Millisecond
	if length == 0 {
		length, between, patience, old = 18*time.Second, 5*time.Second, 4*time.Second, 3*time.Second // less than a lease
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat it by make outages SEED=%d", seed, seed)
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // nothing secret

	servers := make([]*redistest.Server, 3)
	for i := range servers {
		servers[i] = redistest.Start(t, "--appendonly", "yes")
	}
	built := programs.Redoubt(t)
	addr, url := servePool(t, built, servers)
	names := namesOn(t, addr, servers)

	var faults sync.Mutex
	count := 0
	fault := func(format string, args ...any) {
		faults.Lock()
		defer faults.Unlock()
		if count++; count <= 20 {
			t.Errorf(time.Now().Format("15:04:05.000 ")+format, args...)
		}
	}
	f := newFloor(names, patience, fault)
	src := &source{old: old, fault: fault}

	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	locks, err := lock.New(open(t, url), lock.Options{TTL: leaseTTL})
	must(t, err)
	reads, err := src.newCache(open(t, url))
	must(t, err)
	t.Cleanup(func() { must(t, reads.Close()) })
	writes, err := src.newCache(open(t, url))
	must(t, err)
	t.Cleanup(func() { must(t, writes.Close()) })
	work.Go(func() { src.write(ctx, writes, rand.New(rand.NewPCG(seed, 2))) }) //nolint:gosec // nothing secret
	work.Go(func() { src.read(ctx, reads) })
	work.Go(func() { python(ctx, t, addr, names, f) })
	for i, name := range names {
		work.Go(func() { goService(ctx, locks, name, f) })
		work.Go(func() { redoubtLock(ctx, built, url, name, f) })
		work.Go(func() { watch(ctx, servers[i], name, f) })
	}

	began := time.Now()
	order := rng.Perm(len(servers))
	for n := 0; time.Since(began)+between < length; n++ {
		rest(ctx, between)
		victim := servers[order[n%len(order)]]
		down := time.Duration(1+rng.IntN(4)) * between / 10
		if *duration != 0 {
			down = time.Duration(rng.Int64N(int64(min(10*time.Second, between/2))))
		}
		victim.Kill()
		rest(ctx, down)
		victim.Restart()
		if *duration != 0 {
			fmt.Fprintf(os.Stderr, "%v: %s was down for %v; %v; %v\n", time.Since(began).Round(time.Second), victim.Addr(), down.Round(time.Millisecond), f, src)
		}
	}
	rest(ctx, between)
	stop()
	work.Wait()
	t.Logf("%v; %v", f, src)
	for _, name := range names {
		for _, who := range callers {
			if l := f.locks[name]; l.entered[who] < 3 {
				t.Errorf("%s had %s %d times only; its last error: %s", who, name, l.entered[who], l.reasons[who])
			}
		}
	}
	if src.done < 100 || src.reads < 1000 {
		t.Errorf("only %v", src)
	}
}

// watch looks at a lock on its server.
func watch(ctx context.Context, s *redistest.Server, name string, f *floor) {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second})
	defer rdb.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		pipe := rdb.Pipeline()
		now, until := pipe.Time(ctx), pipe.HGet(ctx, key(name), "until")
		_, err := pipe.Exec(ctx)
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		µs, _ := until.Int64()
		f.look(name, err == nil && µs <= now.Val().UnixMicro())
	}
}

func key(name string) string { return "rd:{" + name + "}:lock" }

// namesOn finds a name of a lock for each server.
func namesOn(t *testing.T, addr string, servers []*redistest.Server) []string {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	names := make([]string, len(servers))
	for i, found := 0, 0; found < len(servers); i++ {
		name := fmt.Sprint("deploy-", i)
		must(t, rdb.Do(t.Context(), "LOCK.ACQUIRE", name, 1).Err())
		for j, s := range servers {
			if names[j] == "" && s.CLI("EXISTS", key(name)) == "1" {
				names[j] = name
				found++
			}
		}
	}
	return names
}

func open(t *testing.T, url string) *redoubt.Client {
	client, err := redoubt.Open(t.Context(), url, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// servePool serves a pool of the servers and returns its address and URL.
func servePool(t *testing.T, built string, servers []*redistest.Server) (addr, url string) {
	port, err := ports.Reserve()
	must(t, err)
	t.Cleanup(port.Release)
	addr = ports.Addr(port.Number)
	text := "locks:\n  listen: " + addr + "\n  hash: fnv1a_64\n  distribution: ketama\n  hash_tag: \"{}\"\n  redis: true\n  servers:\n"
	for i, s := range servers {
		text += fmt.Sprintf("   - %s:1 redis-%d\n", s.Addr(), i+1)
	}
	file := filepath.Join(t.TempDir(), "pools.yml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	cmd := exec.CommandContext(t.Context(), built, "serve", "--pools", file, "--http=", "--log-format=json")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = redistest.Owned()
	logged, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewReader(logged)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the pool ended before it served: %v", err)
		}
		if strings.Contains(line, `"serving"`) || strings.Contains(line, `"msg":"serving`) {
			break
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait() // It is told to end.
	}()
	t.Cleanup(func() { <-ended })
	return addr, "redis://" + addr
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
