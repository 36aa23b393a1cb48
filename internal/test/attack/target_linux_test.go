package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A topology is what stands behind the server under attack.
type topology string

const (
	engine    topology = "engine"    // the embedded engine, in memory
	durable   topology = "durable"   // the engine with a directory
	redis     topology = "redis"     // one redis-server
	pool      topology = "pool"      // a pool of three redis-servers
	memcached topology = "memcached" // a pool of three memcached servers
	encrypted topology = "tls"       // the embedded engine, and clients with TLS
	sentinel  topology = "sentinel"  // a pool whose server the Sentinels name
	cluster   topology = "cluster"   // a pool that is a Redis Cluster of three primaries
)

// all are the topologies that clients of RESP reach.
var all = []topology{engine, durable, redis, pool, encrypted, sentinel, cluster}

// drain is the drain time of the servers under attack: short, because most
// rounds use it up.
const drain = 500 * time.Millisecond

// startWithin is how long a server may take to start. It takes 50 ms.
const startWithin = 60 * time.Second

// A target is one redoubt process and what stands behind it.
type target struct {
	addr string
	args []string
	dir  string // of the log, if durable

	cmd   *exec.Cmd
	ended chan struct{}
	log   *tailLog

	stopWatch chan struct{}
	watched   sync.WaitGroup
	peakKiB   int64 // the greatest VmHWM of all starts; valid after the process has ended
}

// newTarget makes the parts of the topology and starts only the servers behind the target.
func newTarget(r *round, on topology) *target {
	// A port below the kernel's range of temporary ports: pools need a fixed one.
	d := &target{addr: "127.0.0.1:" + strconv.Itoa(5000+r.rng.IntN(5000)), log: &tailLog{}}
	for !free(d.addr) {
		d.addr = "127.0.0.1:" + strconv.Itoa(5000+r.rng.IntN(5000))
	}
	d.args = []string{"serve", "--log-format=json", "--http=", "--drain-timeout=" + drain.String()}
	switch on {
	case engine:
		d.args = append(d.args, "--listen="+d.addr)
	case durable:
		d.dir = filepath.Join(r.t.TempDir(), "data")
		d.args = append(d.args, "--listen="+d.addr, "--dir="+d.dir)
	case encrypted:
		certificates := certtest.New(r.t)
		certificates.Sign("server")
		d.args = append(d.args, "--listen=tls://"+d.addr, "--tls-cert-file="+certificates.File("server.crt"), "--tls-key-file="+certificates.File("server.key"))
	case redis:
		back := redistest.Start(r.t, r.back...)
		d.args = append(d.args, "--listen="+d.addr, "--backend="+back.URL())
	case pool:
		text := "  hash: fnv1a_64\n  distribution: ketama\n  hash_tag: \"{}\"\n  redis: true\n  servers:\n"
		for i := range 3 {
			text += fmt.Sprintf("   - %s:1 s%d\n", redistest.Start(r.t, r.back...).Addr(), i)
		}
		d.args = append(d.args, d.pools(r, text))
	case sentinel:
		master := redistest.Start(r.t, r.back...)
		host, port, _ := net.SplitHostPort(master.Addr())
		replica := redistest.Start(r.t, append(slices.Clone(r.back), "--replicaof", host, port)...)
		text := "  hash_tag: \"{}\"\n  redis: true\n  servers:\n   - " + master.Addr() + ":1 main\n  sentinels:\n"
		for _, s := range redistest.StartSentinels(r.t, 3, []redistest.Watched{{Name: "main", Master: master, Replicas: []*redistest.Server{replica}}}) {
			s.CLI("SENTINEL", "SET", "main", "down-after-milliseconds", "60000") // A master that makes large replies isn't dead.
			text += "   - " + s.Addr() + "\n"
		}
		d.args = append(d.args, d.pools(r, text))
	case cluster:
		text := "  redis: true\n  cluster:\n"
		for _, addr := range redistest.StartCluster(r.t, 3, 0, r.back...).Addrs() {
			text += "   - " + addr + "\n"
		}
		d.args = append(d.args, d.pools(r, text))
	case memcached:
		text := "  hash: fnv1a_64\n  distribution: ketama\n  servers:\n"
		for i := range 3 {
			text += fmt.Sprintf("   - %s:1 s%d\n", memcachedtest.Start(r.t, r.back...).Addr(), i)
		}
		d.args = append(d.args, d.pools(r, text))
	default:
		r.t.Fatalf("no topology %q", on)
	}
	d.args = append(d.args, r.serve...)
	return d
}

// pools returns the argument for a pool with these directives at the target's address.
func (d *target) pools(r *round, directives string) string {
	file := filepath.Join(r.t.TempDir(), "pools.yml")
	if err := os.WriteFile(file, []byte("p:\n  listen: "+d.addr+"\n"+directives), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return "--pools=" + file
}

// connect opens a connection to the target as its clients do.
func (r *round) connect(within time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: within}
	if r.on == encrypted {
		return tls.DialWithDialer(dialer, "tcp", r.addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // The certificate is of this round.
	}
	return dialer.Dial("tcp", r.addr)
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// errEnded says that the process ended before it served.
var errEnded = errors.New("the process ended before it served")

// start starts the process and returns once it serves, or errEnded. The process is
// killed when its memory exceeds most, so that a fault doesn't take the machine.
func (d *target) start(most int64) error {
	d.cmd = exec.CommandContext(context.Background(), built, d.args...)
	d.cmd.SysProcAttr = redistest.Owned()
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	ended, serves := make(chan struct{}), make(chan struct{})
	d.ended = ended
	go func() {
		d.log.follow(stderr, serves)
		_ = d.cmd.Wait() // How it ended is in its ProcessState.
		close(ended)
	}()
	d.stopWatch = make(chan struct{})
	d.watched.Go(func() { d.watch(most, ended) })
	select {
	case <-serves:
		return nil
	case <-ended:
		d.watched.Wait()
		return errEnded
	case <-time.After(startWithin):
		d.kill()
		return fmt.Errorf("it does not serve after %v", startWithin)
	}
}

// watch notes the peak of memory until the process has ended.
func (d *target) watch(most int64, ended chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		peak, now := memoryOf(d.cmd.Process.Pid)
		d.peakKiB = max(d.peakKiB, peak)
		if most > 0 && now > most {
			d.log.note("killed by the suite: it takes " + strconv.FormatInt(now>>10, 10) + " MiB")
			_ = d.cmd.Process.Kill()
		}
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// memoryOf returns VmHWM and VmRSS of a process in KiB, zeros when it is gone.
func memoryOf(pid int) (peak, now int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch n, _ := strconv.ParseInt(fields[1], 10, 64); fields[0] {
		case "VmHWM:":
			peak = n
		case "VmRSS:":
			now = n
		}
	}
	return peak, now
}

func (d *target) signal(s syscall.Signal) { _ = d.cmd.Process.Signal(s) } // It fails only if the process is gone.

// kill ends the process by SIGKILL and returns when it is gone.
func (d *target) kill() {
	d.signal(syscall.SIGKILL)
	<-d.ended
	d.watched.Wait()
}

// gone returns when the process has ended, and whether it did within a time.
func (d *target) gone(within time.Duration) bool {
	select {
	case <-d.ended:
		d.watched.Wait()
		return true
	case <-time.After(within):
		return false
	}
}

func (d *target) running() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// A tailLog is the end of what a process logged, and which of it is of interest.
type tailLog struct {
	mu       sync.Mutex
	lines    []string
	panics   []string // lines that tell of a panic, or of the race detector
	draining bool
}

const logLines = 60

func (l *tailLog) follow(from interface{ Read([]byte) (int, error) }, serves chan struct{}) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			var said struct{ Msg string }
			_ = json.Unmarshal(line, &said) // A panic is no JSON.
			if said.Msg == "serving" && serves != nil {
				close(serves)
				serves = nil
			}
			l.mu.Lock()
			l.draining = l.draining || said.Msg == "draining"
			l.mu.Unlock()
			l.note(string(bytes.TrimSpace(line)))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *tailLog) note(line string) {
	line = short(line, 2000)
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(line, "panic") || strings.Contains(line, "fatal error") || strings.Contains(line, "DATA RACE") || strings.Contains(line, "goroutine ") && len(l.panics) > 0 {
		l.panics = append(l.panics, line)
	}
	l.lines = append(l.lines, line)
	if len(l.lines) > 2*logLines {
		l.lines = append([]string(nil), l.lines[logLines:]...)
	}
}

func (l *tailLog) hears(what func(*tailLog) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return what(l)
}

func (l *tailLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-logLines):], "\n")
}

// short cuts the middle out of a text.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most/2] + "…" + text[len(text)-most/2:]
}
