package poolhost

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // servers that go away are tested
	os.Exit(m.Run())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// A serving is a Host that serves a file.
type serving struct {
	host *Host
	file string
	log  await.Buffer // in JSON
}

// serve serves the pools of a file with this text.
func serve(t *testing.T, text string) *serving {
	t.Helper()
	return serveWithPassword(t, text, "")
}

// serveWithPassword is serve with the password of --password.
func serveWithPassword(t *testing.T, text, password string) *serving {
	t.Helper()
	s := &serving{file: filepath.Join(t.TempDir(), "nutcracker.yml")}
	s.write(t, text)
	file, err := Read(s.file, password)
	if err != nil {
		t.Fatal(err)
	}
	s.host, err = Open(file, Options{
		MaxClients: 10_000, MaxPipeline: 1024, MaxBulk: 512 << 20, MaxOutput: 64 << 20,
		WriteTimeout: 30 * time.Second, DrainTimeout: 10 * time.Second,
		SlowerThan: 10 * time.Millisecond, SlowLogMaxLen: 128, Budget: budget.New(budget.Default),
		Logger: slog.New(slog.NewJSONHandler(&s.log, nil)), Version: "v1",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.host.Close)
	s.host.Serve()
	return s
}

func (s *serving) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reload changes the file and reloads it, which must log a line with these words.
func (s *serving) reload(t *testing.T, text, logged string) {
	t.Helper()
	before := strings.Count(s.log.String(), logged)
	s.write(t, text)
	s.host.Reload()
	if strings.Count(s.log.String(), logged) == before {
		t.Fatalf("not logged: %q\n%s", logged, s.log.String())
	}
}

// metrics returns the metrics in Prometheus' text format.
func (s *serving) metrics(t *testing.T) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(s.host); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// health returns what is wrong, or "".
func (s *serving) health(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var lines []string
	for _, p := range s.host.Probes() {
		up, down := p.Ask(ctx)
		if len(up) == 0 {
			down = []string{"all"}
		}
		for _, name := range down {
			lines = append(lines, fmt.Sprintf("pool %s: server %s is down", p.Pool, name))
		}
	}
	return strings.Join(lines, "\n")
}

// shutdown begins a Shutdown and returns where its error will be.
func (s *serving) shutdown(t *testing.T) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		done <- s.host.Shutdown(ctx)
	}()
	return done
}

// eventually polls until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, 20*time.Second, what, ok)
}

func mustContain(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s is %q\nwant it to contain %q", what, text, want)
		}
	}
}

// A rawClient sends commands as text.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dialRaw(t *testing.T, network, addr string) *rawClient {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &rawClient{t, conn, bufio.NewReader(conn)}
}

func (u *rawClient) line() string {
	u.t.Helper()
	l, err := u.r.ReadString('\n')
	if err != nil {
		u.t.Fatalf("%v after %q", err, l)
	}
	return strings.TrimSuffix(l, "\r\n")
}

// ask sends a command and returns the first line of its answer.
func (u *rawClient) ask(command string) string {
	u.t.Helper()
	if _, err := io.WriteString(u.conn, command+"\r\n"); err != nil {
		u.t.Fatal(err)
	}
	return u.line()
}

// has reports whether a server has a key.
func has(t *testing.T, s *memcachedtest.Server, key string) bool {
	t.Helper()
	return dialRaw(t, "tcp", s.Addr()).ask("touch "+key+" 0") == "TOUCHED"
}

// logged returns how many lines of the log contain all words.
func logged(s *serving, words ...string) (n int) {
	for line := range strings.Lines(s.log.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// freeAddr returns an address that no process listens on now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
