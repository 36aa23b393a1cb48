package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// snippetServers are the servers of a snippet in sh. Their addresses replace the addresses in its text.
type snippetServers struct {
	t   *testing.T
	dir string
	// redoubt is the directory of the program.
	redoubt string
	// own is the server of the page.
	own *serving
	// serves says that the snippet starts servers, so ports in its text are theirs.
	serves bool
	known  map[string]string
}

var (
	clusterURL   = regexp.MustCompile(`redis-cluster://([0-9.:,]+)`)
	sentinelURL  = regexp.MustCompile(`redis-sentinel://([0-9.:,]+)/(\w+)`)
	otherAddress = regexp.MustCompile(`\b(10\.\d+\.\d+\.\d+:\d+|127\.0\.0\.1:(6379|8081|8082))\b`)
	listenPort   = regexp.MustCompile(`\b(6380|6381|8080|9090|221\d\d|22222|32121|32222)\b`)
	rootPath     = regexp.MustCompile(`/(var/lib|run)/`)
	serveLine    = regexp.MustCompile(`(?m)^(\w+=\S+ )*redoubt serve\b`)

	belowRoot = []string{"root/var/lib/redis", "root/run"}
)

// replace puts the addresses of real servers into a text. It starts a server for each new address.
func (p *snippetServers) replace(text string) string {
	p.t.Helper()
	text = rootPath.ReplaceAllString(text, p.dir+"/root/$1/")
	text = clusterURL.ReplaceAllStringFunc(text, func(url string) string {
		return p.know(url, func() string {
			addrs := redistest.StartCluster(p.t, 3, 0).Addrs()
			for i, addr := range strings.Split(clusterURL.FindStringSubmatch(url)[1], ",") {
				p.known[addr] = addrs[i]
			}
			return "redis-cluster://" + strings.Join(addrs, ",")
		})
	})
	text = sentinelURL.ReplaceAllStringFunc(text, func(url string) string {
		return p.know(url, func() string {
			m := sentinelURL.FindStringSubmatch(url)
			watched := []redistest.Watched{{Name: m[2], Master: redistest.Start(p.t)}}
			var addrs []string
			for _, s := range redistest.StartSentinels(p.t, strings.Count(m[1], ",")+1, watched) {
				addrs = append(addrs, s.Addr())
			}
			return "redis-sentinel://" + strings.Join(addrs, ",") + "/" + m[2]
		})
	})
	text = otherAddress.ReplaceAllStringFunc(text, func(addr string) string {
		return p.know(addr, func() string {
			if strings.HasSuffix(addr, ":11211") {
				return memcachedtest.Start(p.t).Addr()
			}
			return redistest.Start(p.t).Addr()
		})
	})
	return listenPort.ReplaceAllStringFunc(text, p.port)
}

func (p *snippetServers) know(written string, start func() string) string {
	p.t.Helper()
	if p.known[written] == "" {
		p.known[written] = start()
	}
	return p.known[written]
}

// port returns a port for one in a text: of the page's server, or a free one.
func (p *snippetServers) port(written string) string {
	p.t.Helper()
	switch of := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }; {
	case p.serves || strings.HasPrefix(written, "22"):
	case written == "6380":
		return of(p.own.addr)
	default:
		return of(p.own.http)
	}
	return p.know(written, func() string {
		free, err := ports.Reserve()
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(free.Release)
		return fmt.Sprint(free.Number)
	})
}

// certificates makes the files that the pages name.
func (p *snippetServers) certificates() {
	p.t.Helper()
	ca := certtest.New(p.t)
	ca.Sign("server")
	for from, to := range map[string]string{"server.crt": "server.crt", "server.key": "server.key", "ca.crt": "clients-ca.crt"} {
		text, err := os.ReadFile(ca.File(from))
		if err != nil {
			p.t.Fatal(err)
		}
		writeFile(p.t, filepath.Join(p.dir, to), string(text))
	}
}

// wrapped returns the directory of a redoubt that calls ours. Without --dir, its back end is the server on PAGE: it
// takes the place of the default address. A redis-cli there fails if the reply is an error.
func wrapped(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \" $1 $* \" in \" serve \"*|*\" --dir \"*) ;; *) export REDOUBT_BACKEND=\"redis://$PAGE\" ;; esac\n" +
		"exec " + binary + " \"$@\"\n"
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatalf("these tests need redis-cli: %v", err)
	}
	for name, text := range map[string]string{"redoubt": script, "redis-cli": "#!/bin/sh\nexec " + cli + " -e \"$@\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	return dir
}

// environ returns the environment of a snippet, which finds the wrapped redoubt first.
func (p *snippetServers) environ(more ...string) []string {
	path := p.redoubt + string(os.PathListSeparator) + os.Getenv("PATH")
	return environ(append([]string{"PATH=" + path, "HOME=" + p.dir, "PAGE=" + p.own.addr, "REDOUBT_HTTP=" + p.own.http}, more...)...)
}

// serveParts splits a script into lines that start a server, and what is between them.
func serveParts(script string) (parts []string) {
	between := ""
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		if !serveLine.MatchString(line) {
			between += line
			continue
		}
		parts = append(parts, between, line)
		between = ""
	}
	return append(parts, between)
}

// serve runs a line with `redoubt serve` until it serves, or until it ends without a fault. The server ends with
// the test: a signal ends it well.
func (p *snippetServers) serve(line string) {
	p.t.Helper()
	s := &program{t: p.t, ended: make(chan struct{})}
	s.cmd = exec.CommandContext(context.Background(), "sh", "-c", "exec env "+line) //nolint:gosec // ours
	s.cmd.Dir, s.cmd.Env = p.dir, p.environ("REDOUBT_HTTP=127.0.0.1:0")
	if !strings.Contains(line, "--listen") && !strings.Contains(line, "--pools") {
		s.cmd.Env = append(s.cmd.Env, "REDOUBT_LISTEN=127.0.0.1:0")
	}
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = &s.stdout, &s.stderr, ownGroup
	s.start()
	p.t.Cleanup(func() {
		s.signal(syscall.SIGTERM)
		if code := s.wait(); code != 0 {
			p.t.Errorf("%s: exit %d: %s", line, code, s.stderr.String())
		}
	})
	eventually(p.t, line+" serves", func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return strings.Contains(s.stderr.String(), "msg=serving")
		}
	})
}
