package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// marker is a part of every secret of TestNoSecretIsShown, and of no other text. It is a number, so that it is also a
// valid port or database.
const marker = "31337"

// urls returns URLs of a server with a secret, in every valid form and many invalid ones.
func urls(server string) []string {
	var all []string
	for _, form := range []string{
		"redis://u:M@S", "redis://:M@S/0", "redis://:M@S/x", "redis://u:M@S/0?db=x", "redis://u:M@S/9999999999999999999", "rediss://u:M@S", "unix://u:M@/nowhere",
		"redis://u:M@S:x", "redis://u:M@S /", "redis://u:M%zz@S", "redis://u:p\x01M@S", "http://u:M@S", "x://u:M@S",
		"redis://u:M#x@S", "redis://u:M/x@S", "redis://u:M?x@S", "redis://u:x/M@S", "redis://u:x?M@S", "redis://u:x#M@S", "redis://u:12/M@S", "redis://u:12?M@S", "redis://u:12#M@S", "redis://u:M/5@S",
		"redis://u:M@x@S", "redis://u:x@M@S", "redis://S#M", "unix://u:M@", "unix:u:M@S", "unix://u:M/x@/nowhere",
		"u:M@S", ":M@S", "u:M@", "redis:u:M@S", "redis:/u:M@S", "redis//u:M@S", "//u:M@S", "u:M@redis://S", "redis:://u:M@S",
		"redis-sentinel://u:M@S/mymaster", "redis-sentinel://u:M@S", "redis-sentinel://S/m?sentinel_password=M", "redis-sentinel://S?sentinel_password=M", "redis-sentinel://u:M@S,S:x/m", "redis-sentinel://S/m?password=M",
		"redis-cluster://u:M@S,S", "redis-cluster://u:M@S/3", "redis-cluster://u:M/@S", "redis://S?password=M", "redis://S?master_name=m&password=M", "redis://S/?addr=S&password=M&max_retries=x",
		"redis://u:M@S?cluster=x", "redis://u:M@S?dial_timeout=x", "file://u:M@S/x",
	} {
		all = append(all, strings.NewReplacer("S", server, "M", "p"+marker+"w", "12/M", "12/"+marker).Replace(form), strings.NewReplacer("S", server, "M", marker).Replace(form))
	}
	return all
}

// TestNoSecretIsShown puts a secret into every place that accepts one, in valid and invalid forms: no output may
// contain it.
//
// Promise: Redoubt shows no password in a log, an error, INFO or a metric, even if a URL or a file is malformed.
func TestNoSecretIsShown(t *testing.T) {
	slow.Test(t, "it runs the command line in very many ways")
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("dump.rdb", []byte("REDIS0010\xff\x00\x00\x00\x00\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(what string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		code := run(args, &out, &out)
		if strings.Contains(out.String(), marker) {
			t.Errorf("%s%q shows it, exit %d: %s", what, args, code, out.String())
		}
		if code == 0 || out.Len() == 0 {
			t.Errorf("%s%q: exit %d, %q", what, args, code, out.String())
		}
	}
	servers := []string{"127.0.0.1:1", echoing(t)}
	// These lead to the same code, so each URL is tried with only one of them.
	like := [][]string{
		{"serve", "--http=", "--listen=127.0.0.1:0", "--fsync=always", "--backend"}, {"serve", "--http=", "--listen=127.0.0.1:0", "--maxmemory=1mb", "--backend"},
		{"serve", "--http=", "--listen=127.0.0.1:0", "--dir=" + dir, "--backend"}, {"serve", "--listen"}, {"serve", "--listen=127.0.0.1:0", "--http"},
		{"lock", "ls", "--backend"}, {"lock", "info", "x", "--backend"}, {"limit", "peek", "x", "1/s", "--backend"}, {"queue", "ls", "--backend"}, {"stock", "info", "x", "--backend"},
		{"cache", "stats", "x", "--backend"}, {"bigkeys", "--backend"}, {"del", "--match=x", "--force", "--backend"}, {}, {"scan"}, {"serve"}, {"lock", "ls"}, {"queue"}, {"nope"},
	}
	for i, server := range servers {
		for n, u := range urls(server) {
			check("", "serve", "--http=", "--listen=127.0.0.1:0", "--backend", u)
			check("", "scan", "--backend", u)
			check("", "import", u)
			check("", "export", "--backend", u, "out.rdb")
			if i > 0 {
				continue // the rest doesn't get so far
			}
			check("", "import", "dump.rdb", "--backend", u)
			check("", "export", u, "--dir", dir)
			check("", "scan", "-a"+u)
			for k := n % 3; k < len(like); k += 3 {
				check("", append(slices.Clone(like[k]), u)...)
			}
			t.Setenv("REDOUBT_BACKEND", u)
			check("REDOUBT_BACKEND "+u+" ", "scan")
			os.Unsetenv("REDOUBT_BACKEND") //nolint:errcheck // Setenv sets it back
			if err := os.WriteFile("redoubt.yaml", fmt.Appendf(nil, "backend: %q\n", u), 0o600); err != nil {
				t.Fatal(err)
			}
			check(u+" ", "scan", "--config", "redoubt.yaml")
		}
	}
	for _, password := range []string{marker, "'" + marker, "*" + marker, "&" + marker + " x", "!" + marker, "@" + marker, "%" + marker, "[" + marker, "{" + marker, "\"" + marker, "|" + marker, "x: " + marker, "- " + marker} {
		for _, form := range []string{"password: P\nport: 1\n", "password:P\nport: 1\n", "password P\n", "password=P\nport: 1\n", "P: password\n", "password P: 1\n", "password:\n  P: 1\n", "password: P\n  x: y\n", "\tpassword: P\n", "password: P\npassword: P\n"} {
			text := strings.ReplaceAll(form, "P", password)
			if err := os.WriteFile("redoubt.yaml", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(text, marker) { // then it is the name of a setting
				check(fmt.Sprintf("%q ", text), "scan", "--config", "redoubt.yaml", "--backend=redis://127.0.0.1:1")
			}
			text = "alpha:\n  listen: 127.0.0.1:0\n  redis: true\n  servers:\n  - 127.0.0.1:1:1\n  " + strings.ReplaceAll(strings.ReplaceAll(form, "password", "redis_auth"), "\n", "\n  ")
			if err := os.WriteFile("pools.yml", []byte(strings.ReplaceAll(text, "P", password)), 0o600); err != nil {
				t.Fatal(err)
			}
			text = strings.ReplaceAll(text, "P", password) + "nope: 1\n"
			if err := os.WriteFile("pools.yml", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text, "\n  "+marker) {
				check(fmt.Sprintf("%q ", text), "serve", "--pools", filepath.Join(dir, "pools.yml"), "--test-conf")
			}
		}
	}
	check("", "scan", "-a", marker)
	check("", "scan", "-a"+marker)
	check("", "scan", "-p"+marker)
	check("", "serve", "--password="+marker, "--listen=nowhere:x", "--http=")
	check("", "scan", "--password="+marker, "--backend=redis://127.0.0.1:1")
	check("", "scan", "--password="+marker, "--backend=redis://"+servers[1])
	check("", "scan", "--password="+marker, "--password-file=x")
}

// echoing starts a server that refuses every command with its arguments, and returns its address.
func echoing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					var n int
					if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
						return
					}
					var words []string
					for range n {
						var size int
						if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
							return
						}
						word := make([]byte, size+2)
						for i := range word {
							word[i], _ = in.ReadByte()
						}
						words = append(words, string(word[:size]))
					}
					if _, err := fmt.Fprintf(conn, "-ERR unknown command `%s`, with args beginning with: `%s`\r\n", words[0], strings.Join(words[1:], "` `")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
