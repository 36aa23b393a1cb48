package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt/internal/embedded"
)

// A Backend is one server that a test of [Each] runs on.
type Backend struct {
	// Name is "redis" or "embedded".
	Name string
	// URL is what the server is reached by: redis://host:port.
	URL string
	// Prefix begins every key of the test, and no key of another: all tests
	// of a package run on one redis-server at the same time. It has no braces.
	// A test must not flush the server.
	Prefix string
	// Addr is the server's TCP address as host:port.
	Addr string
	// Server is nil on the embedded server. It is shared by all tests: it
	// can't be paused or killed.
	Server *Server
}

// Each runs a test on every kind of back end, as subtests "redis" and
// "embedded", one after the other unless run says t.Parallel.
//
// All tests of a test binary share one redis-server, which the first of them
// starts; the embedded server is a new one each time.
func Each(t *testing.T, run func(t *testing.T, b Backend)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		p, err := sharedProcess()
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{tb: t, p: p, shared: true}
		run(t, Backend{Name: "redis", URL: s.URL(), Prefix: NewPrefix(), Addr: s.Addr(), Server: s})
	})
	t.Run("embedded", func(t *testing.T) {
		s, err := embedded.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		run(t, Backend{Name: "embedded", URL: "redis://" + s.Addr(), Prefix: NewPrefix(), Addr: s.Addr()})
	})
}

var prefixes atomic.Int64

// NewPrefix returns a prefix for the keys of one test: see [Backend].
func NewPrefix() string { return "t" + strconv.FormatInt(prefixes.Add(1), 10) }

// sharedProcess returns the redis-server of this test binary.
var sharedProcess = sync.OnceValues(func() (*process, error) { return startShared(nil) })

// startShared starts a redis-server for all tests of this binary. Nothing in a test binary runs
// when its last test has ended (TestMain belongs to each package), so a shell outside waits for
// the end of this process, stops the server where the kernel hasn't, and deletes its directory.
func startShared(args []string) (*process, error) {
	p, err := startProcess(args)
	if err != nil {
		return nil, err
	}
	waits, held, err := os.Pipe()
	if err != nil {
		p.remove()
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer waits.Close()
	shell := exec.CommandContext(context.Background(), "sh", "-c", reaper, p.dir, p.socket)
	shell.Stdin = waits
	if err := shell.Start(); err != nil {
		p.remove()
		return nil, fmt.Errorf("redistest: %w", err)
	}
	p.heldOpen = held
	return p, nil
}

// reaper waits until its standard input ends, which is when this process does.
const reaper = `trap '' HUP INT TERM
read -r _
redis-cli -s "$1" SHUTDOWN NOSAVE
rm -rf -- "$0"`
