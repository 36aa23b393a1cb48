//go:build unix

package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Child processes start with the default for SIGHUP and SIGINT, even if the tests run under nohup or in the
// background of a script: a caught signal is not inherited as ignored.
func init() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// SIGHUP ends no server: it goes on, and says that there was nothing to read again.
func TestHangupWithoutFiles(t *testing.T) {
	s := startServe(t)
	client := dial(t, s.addr)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	eventually(t, "the log tells", func() bool { return strings.Contains(s.stderr.String(), "there is nothing to reload") })
	if v := client.Get(t.Context(), "k").Val(); v != "v" {
		t.Errorf("after that k is %q", v)
	}
}

// Under nohup the server keeps running.
func TestServeUnderNohup(t *testing.T) {
	s := startServingAs(t, deafTo(t, "HUP"), "--listen=127.0.0.1:0")
	s.signal(syscall.SIGHUP)
	if err := dial(t, s.addr).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 || !strings.Contains(s.stderr.String(), `"signal":"terminated"`) {
		t.Errorf("exit %d, %q", code, s.stderr.String())
	}
}

// Under nohup, or in the background of a script, redoubt lock and its command ignore the same signals as the
// command would without redoubt.
func TestLockUnderNohup(t *testing.T) {
	srv := redistest.Start(t)
	for name, sig := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT} {
		file := filepath.Join(t.TempDir(), "ready")
		p := startAs(t, deafTo(t, name), nil, "lock", name, "--backend", srv.URL(), "--", "sh", "-c",
			"kill -"+name+` $$; echo >> "$1"; until [ -e "$1.go" ]; do sleep 0.05; done; exit 7`, "sh", file)
		lines(t, file, 1) // the command got one, and lives
		p.signal(sig)
		if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != 7 {
			t.Errorf("SIG%s: exit %d, %q", name, code, p.stderr.String())
		}
	}
}

// deafTo returns a program that execs redoubt with a signal ignored.
func deafTo(t *testing.T, name string) string {
	t.Helper()
	by := filepath.Join(t.TempDir(), "by")
	if err := os.WriteFile(by, []byte("#!/bin/sh\ntrap '' "+name+"\nexec "+binary+` "$@"`), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return by
}
