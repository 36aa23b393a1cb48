//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMemoryIsLimited: each source of settings sets maxmemory and its policy, and the server keeps to them.
func TestMemoryIsLimited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redoubt.yaml")
	if err := os.WriteFile(file, []byte("maxmemory: 1mb\nmaxmemory-policy: allkeys-lru\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args          []string
		limit, policy string
		refuses       bool
	}{
		{nil, "0", "noeviction", false},
		{[]string{"--maxmemory=100KB"}, "102400", "noeviction", true},
		{[]string{"--config", file}, "1048576", "allkeys-lru", false},
		{[]string{"--config", file, "--maxmemory-policy=volatile-ttl"}, "1048576", "volatile-ttl", true},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			s := startServe(t, c.args...)
			rdb := dial(t, s.addr)
			told, err := rdb.ConfigGet(t.Context(), "maxmemory*").Result()
			if err != nil || told["maxmemory"] != c.limit || told["maxmemory-policy"] != c.policy {
				t.Errorf("CONFIG GET: %v, %v", told, err)
			}
			value := strings.Repeat("x", 1<<18)
			for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
				err = rdb.Set(t.Context(), key, value, 0).Err()
			}
			if refused := err != nil && strings.HasPrefix(err.Error(), "OOM "); refused != c.refuses || err != nil && !refused {
				t.Errorf("the last SET: %v", err)
			}
			s.signal(syscall.SIGTERM)
			s.wait()
		})
	}
}
