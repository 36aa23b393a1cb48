package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/redoubttest"
)

var must = expect.Must

func open(t *testing.T, opts engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), opts)
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// Promise: An engine behaves as a Conn in every respect that the conformance suite tests.
func TestConformance(t *testing.T) {
	e := open(t, engine.Options{})
	redoubttest.Run(t, func(*testing.T) redoubt.Conn { return e })
}

// The data that a client of embedded:/path has written is there for the next client, and Close
// releases the directory.
func TestOpenDirectory(t *testing.T) {
	url := "embedded:" + t.TempDir()
	for i := range int64(3) {
		client, err := redoubt.Open(t.Context(), url, redoubt.Options{})
		must(t, err)
		if n, err := client.Do(t.Context(), redoubt.Cmd{Name: "INCR", Keys: []string{"n"}}).Int(); err != nil || n != i+1 {
			t.Errorf("got %d, %v; want %d", n, err, i+1)
		}
		must(t, client.Close())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, opts := range map[string]engine.Options{
		"Fsync is 9; want FsyncEverySecond, FsyncAlways or FsyncNever": {Dir: t.TempDir(), Fsync: 9},
		"CompactBytes is -1; want at least 0":                          {Dir: t.TempDir(), CompactBytes: -1},
		"nothing is saved without a directory":                         {Fsync: engine.FsyncAlways},
		"Fsync or CompactBytes is set and Dir is empty":                {CompactBytes: 1},
		"-1 script steps": {ScriptSteps: -1},
		"lru":             {MaxMemory: 1, MaxMemoryPolicy: "lru"},
	} {
		if _, err := engine.Open(t.Context(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", opts, err, want)
		}
	}
}

func TestErrorsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	e := open(t, engine.Options{Dir: dir})
	if _, err := engine.Open(t.Context(), engine.Options{Dir: dir}); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("a directory in use: %v, want ErrLocked", err)
	}
	must(t, e.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}).Err)
	must(t, e.Close())
	if err := e.Do(t.Context(), redoubt.Cmd{Name: "GET", Keys: []string{"k"}}).Err; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a closed engine: %v, want ErrClosed", err)
	}
	if err := e.SaveErr(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("SaveErr of a closed engine: %v, want ErrClosed", err)
	}
	if err := e.Compact(t.Context()); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Compact of a closed engine: %v, want ErrClosed", err)
	}
	if _, err := e.Subscribe(t.Context(), "ch", false, func(string, bool) {}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Subscribe to a closed engine: %v, want ErrClosed", err)
	}
	must(t, os.Remove(filepath.Join(dir, "manifest")))
	if _, err := engine.Open(t.Context(), engine.Options{Dir: dir}); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("a directory without its manifest: %v, want ErrCorrupt", err)
	}
}

// Locks run as Go functions: a program need not ask for them.
func TestScriptsAreNative(t *testing.T) {
	e := open(t, engine.Options{ScriptSteps: 1}) // no Lua gets far
	client, err := redoubt.New(e, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	locks, err := lock.New(client, lock.Options{})
	must(t, err)
	lease, err := locks.Acquire(t.Context(), "orders:42")
	must(t, err)
	must(t, lease.Release(t.Context()))
}
