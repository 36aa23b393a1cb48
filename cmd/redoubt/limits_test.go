//go:build unix

package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// A limit is a row of the table in docs/security.md. try sends exactly the limit, which is accepted, and one more, which
// is refused. Limits without try have tests elsewhere.
type limit struct {
	what, value, set string
	on               []string // ways of serving
	past             string   // what one more gets
	tests            []string // as package.Test
	try              func(t *testing.T, w *way)
}

// The ways of serving. A pool and a cluster have the same code in front of them but for their servers.
var (
	redisWays = []string{"engine", "one server", "pool", "cluster", "TLS"}
	poolWays  = []string{"pool", "cluster"}
	engines   = []string{"engine", "TLS"}
)

const (
	mostHere    = 12      // --max-clients of the servers below
	bulkHere    = 8 << 20 // --max-bulk
	valueHere   = 512 << 10
	oneMiB      = 1 << 20
	closedAfter = ", and the client is closed"
)

var limits = []limit{
	{"clients", "10,000", "`--max-clients`, `client_connections`", redisWays, "an error" + closedAfter, nil, tryClients},
	{"one argument", "512 MiB", "`--max-bulk`", redisWays, "an error" + closedAfter, nil, tryBulk},
	{"arguments of one command", "1,048,576", "", redisWays, "an error" + closedAfter, nil, tryArguments},
	{"one command", "1 GiB", "", redisWays, "an error" + closedAfter, []string{"internal/resp.TestCommandScannerLimits"}, nil},
	{"a command as a line of text", "64 KiB", "", redisWays, "an error" + closedAfter, nil, tryInline},
	{"a client before it gives the password", "10 arguments of 16 KiB", "", redisWays, "an error" + closedAfter, nil, tryWithoutPassword},
	{"commands of one client in flight", "1,024", "`--max-pipeline`", redisWays, "it waits", []string{"internal/server.TestLimits", "internal/server.TestSlowStart"}, nil},
	{"waiting replies of one client", "64 MiB", "`--max-output`", redisWays, "its commands wait", []string{"internal/server.TestSlowConsumer"}, nil},
	{"waiting messages of one client", "64 MiB", "`--max-output`", redisWays, "it is closed", []string{"internal/server.TestSlowSubscriber"}, nil},
	{"a client that reads no reply", "30 s", "`--write-timeout`", redisWays, "it is closed", []string{"internal/server.TestSlowConsumer"}, nil},
	{"a client that sends nothing", "none", "`--idle-timeout`", redisWays, "it is closed", []string{"internal/server.TestIdle"}, nil},
	{"memory of all clients together: see [below](#what-clients-hold)", "1 GiB", "`--maxmemory-clients`", redisWays, "an error, or the largest client is closed", []string{"internal/server.TestBudget"}, nil},
	{"name of a client, name and version of its library", "4 KiB", "", redisWays, "an error", nil, tryNames},
	{"names of a client's subscriptions, with 64 bytes for each", "64 MiB", "", []string{"engine", "pool", "cluster", "TLS"}, "an error", nil, trySubscriptions},
	{"names of a client's watched keys, with 64 bytes for each", "64 MiB", "", engines, "an error", nil, tryWatch},
	{"prefixes of CLIENT TRACKING", "1,024", "", engines, "an error", nil, tryPrefixes},
	{"commands of a transaction", "16 MiB", "", poolWays, "an error, and EXEC fails", nil, tryTransaction},
	{"commands of a transaction", "1 GiB", "", engines, "an error, and EXEC fails", []string{"internal/engine.TestLargeTransactions"}, nil},
	{"source of a script", "4 MiB", "", engines, "an error", nil, trySource},
	{"reply of the engine", "1 GiB", "", engines, "an error", []string{"internal/engine.TestLargeReplies"}, nil},
	{"reply of a server", "1 GiB", "", []string{"one server", "pool", "cluster"}, "an error", []string{"internal/proxy.TestLongReply"}, nil},
	{"keys and values of the engine", "none", "`--maxmemory`", engines, "an error, or keys are evicted", []string{"internal/engine.TestEvictionKeepsToTheLimit", "cmd/redoubt.TestMaxMemory"}, nil},
	{"all scripts that run at once", "256 MiB, each 64 MiB and a minute", "", engines, "the script ends with an error", []string{"internal/engine.TestHostileScripts", "internal/engine.TestEffectsOfScriptsAreCounted"}, nil},
	{"clients", "10,000", "`--max-clients`, `client_connections`", []string{"memcached"}, "an error" + closedAfter, nil, tryMemcachedClients},
	{"key", "250 bytes", "", []string{"memcached"}, "an error", nil, tryMemcachedKey},
	{"value", "512 MiB, or the servers' `-I`", "`--max-bulk`", []string{"memcached"}, "an error", nil, tryMemcachedValue},
	{"line of get, gets, gat, gats", "1 MiB", "", []string{"memcached"}, "an error" + closedAfter, nil, tryMemcachedRetrieval},
	{"line of other commands", "2,048 bytes", "", []string{"memcached"}, "an error" + closedAfter, nil, tryMemcachedLine},
	{"commands of one client in flight", "1,024", "`--max-pipeline`", []string{"memcached"}, "it waits", []string{"internal/proxy/memcached.TestMaxInFlight"}, nil},
	{"waiting answers of one client", "64 MiB", "`--max-output`", []string{"memcached"}, "an error", []string{"internal/proxy/memcached.TestMaxClientBytes"}, nil},
	{"connections of `--http`", "1,000", "", []string{"HTTP"}, "status 503" + closedAfter, nil, tryHTTPConns},
	{"line and headers of a request", "20 KiB", "", []string{"HTTP"}, "status 431" + closedAfter, nil, tryHTTPHeaders},
	{"headers until they are complete, and the whole request", "5 s, 10 s", "", []string{"HTTP"}, "it is closed", []string{"cmd/redoubt.TestHTTPTimes"}, nil},
	{"body of an action", "8 KiB", "", []string{"HTTP"}, "status 413", nil, tryHTTPBody},
	{"text of a search", "256 bytes", "", []string{"HTTP"}, "status 400", nil, tryHTTPSearch},
	{"place in a list of messages", "1,000,000", "", []string{"HTTP"}, "status 400", nil, tryHTTPPage},
}

// A way is a running server for the limits of one way of serving.
type way struct {
	*serving

	name string
	dial func() (net.Conn, error) // nil for HTTP
	// locked starts the same with a password.
	locked func(t *testing.T) *way
}

func startWay(t *testing.T, name, password string) *way {
	t.Helper()
	args := []string{"--max-clients=" + strconv.Itoa(mostHere), "--max-bulk=" + strconv.Itoa(bulkHere)}
	var serverArgs []string
	if password != "" {
		serverArgs = []string{"--requirepass", password}
	}
	listen, encrypted := freeAddr(t), (*tls.Config)(nil)
	pool := func(text string, more ...any) []string {
		file := "p:\n  listen: " + listen + "\n" + fmt.Sprintf(text, more...)
		if password != "" {
			file += "  redis_auth: " + password + "\n"
		}
		return append(args, "--pools", writePools(t, file))
	}
	switch name {
	case "engine", "HTTP":
		args = append(args, "--listen", listen)
	case "TLS":
		ours := certtest.New(t)
		ours.Sign("server")
		args = append(args, "--listen", "tls://"+listen, "--tls-cert-file", ours.File("server.crt"), "--tls-key-file", ours.File("server.key"))
		encrypted = ours.Client("")
		encrypted.ServerName = "127.0.0.1"
	case "one server":
		args = append(args, "--listen", listen, "--backend", redistest.Start(t).URL())
	case "pool":
		args = pool("  redis: true\n  servers:\n   - %s:1 one\n   - %s:1 two\n", redistest.Start(t, serverArgs...).Addr(), redistest.Start(t, serverArgs...).Addr())
	case "cluster":
		args = append(args, "--listen", listen, "--backend", redistest.StartCluster(t, 3, 0).URL())
	case "memcached":
		args = pool("  servers:\n   - %s:1 one\n", memcachedtest.Start(t).Addr())
		args[1] = "--max-bulk=" + strconv.Itoa(valueHere)
	}
	if password != "" && name != "pool" {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--password-file", file)
	}
	w := &way{serving: startServing(t, args...), name: name}
	w.dial = func() (net.Conn, error) {
		d := net.Dialer{Timeout: 20 * time.Second}
		if encrypted != nil {
			return (&tls.Dialer{NetDialer: &d, Config: encrypted}).DialContext(t.Context(), "tcp", listen)
		}
		return d.DialContext(t.Context(), "tcp", listen)
	}
	w.locked = func(t *testing.T) *way {
		t.Helper()
		return startWay(t, name, "s3cret")
	}
	return w
}

// TestLimits sends what a limit allows, and one past it, in each way of serving. Other clients are served afterwards, and
// nothing stays in memory.
func TestLimits(t *testing.T) {
	for _, name := range append(redisWays, "memcached", "HTTP") {
		t.Run(name, func(t *testing.T) {
			if slices.Contains([]string{"one server", "pool", "cluster"}, name) {
				slow.Test(t, "it sends commands of a million arguments to servers")
			}
			w := startWay(t, name, "")
			for _, l := range limits {
				if l.try == nil || !slices.Contains(l.on, name) {
					continue
				}
				t.Run(l.what, func(t *testing.T) {
					l.try(t, w)
					w.served(t)
				})
			}
			eventually(t, "nothing stays in memory", func() bool {
				_, text := w.get(t, "/metrics")
				held := regexp.MustCompile(`(?m)^redoubt_clients_memory_bytes (\S+)$`).FindStringSubmatch(text)
				if held == nil {
					t.Fatalf("no redoubt_clients_memory_bytes in %s", text)
				}
				n, err := strconv.ParseFloat(held[1], 64)
				return err == nil && n < oneMiB
			})
		})
	}
}

const securityFile = "../../docs/security.md"

// TestDocsOfLimits: docs/security.md has the table of limits, its page in Chinese has the same rows, and each test that the
// table names is there.
func TestDocsOfLimits(t *testing.T) {
	text, err := os.ReadFile(securityFile)
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)(<!-- limits:[^>]*-->\n).*?(<!-- end -->)`)
	if !section.Match(text) {
		t.Fatal("docs/security.md has no section of limits")
	}
	want := section.ReplaceAllString(string(text), "${1}"+limitTable()+"${2}")
	if *update {
		if err := os.WriteFile(securityFile, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("docs/security.md is out of date: run `go generate ./cmd/redoubt`")
	}
	inChinese, err := os.ReadFile("../../docs/zh-CN/security.md")
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := limitRows(limitTable()), limitRows(string(section.Find(inChinese)))
	if !slices.Equal(ours, theirs) {
		t.Errorf("docs/zh-CN/security.md has other rows of limits, by flag and test:\n%s\nwant\n%s", strings.Join(theirs, "\n"), strings.Join(ours, "\n"))
	}
	for _, l := range limits {
		for _, test := range l.tests {
			if !testExists(t, test) {
				t.Errorf("the limit %q names the test %s, which does not exist", l.what, test)
			}
		}
		if len(l.tests) == 0 && l.try == nil {
			t.Errorf("the limit %q has no test", l.what)
		}
	}
}

func limitTable() string {
	var b strings.Builder
	b.WriteString("| Limit | Default | Set by | On | One past it | Test |\n|---|---|---|---|---|---|\n")
	for _, l := range limits {
		on := strings.Join(l.on, ", ")
		if slices.Equal(l.on, redisWays) {
			on = "all"
		}
		tests := l.tests
		if l.try != nil {
			tests = []string{"cmd/redoubt.TestLimits"}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | `%s` |\n", l.what, l.value, l.set, on, l.past, strings.Join(tests, "`, `"))
	}
	return b.String()
}

// limitRows returns the flag and the test of each row of a table.
func limitRows(table string) (rows []string) {
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 8 && strings.Contains(cells[6], "`") {
			rows = append(rows, strings.TrimSpace(cells[3])+" "+strings.TrimSpace(cells[6]))
		}
	}
	return rows
}

// testExists reports whether a package has a test, as in internal/server.TestLimits.
func testExists(t *testing.T, test string) bool {
	t.Helper()
	pkg, name, _ := strings.Cut(test, ".")
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t ") {
			return true
		}
	}
	return false
}
