package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/doctor"
	"github.com/redoubt-go/redoubt/internal/redisurl"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// examine returns the levels by check.
func examine(t *testing.T, url string) map[string]doctor.Level {
	t.Helper()
	target, err := redisurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	found, err := doctor.Examine(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]doctor.Level{}
	for _, f := range found {
		if (f.Remedy == "") != (f.Level == doctor.OK) {
			t.Errorf("%s is %s, and the remedy is %q", f.Check, f.Level, f.Remedy)
		}
		levels[f.Check] = f.Level
	}
	return levels
}

// TestEachDanger: a server as it should be has no danger, and each setting that makes one is found.
func TestEachDanger(t *testing.T) {
	r := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir())
	for check, level := range examine(t, r.URL()) {
		if level == doctor.Danger || level == doctor.Warning && check != "network" {
			t.Errorf("%s is %s on a server as it should be", check, level)
		}
	}
	set := func(text string) { // Redis 6.2 takes one setting at a time.
		for pair := range slices.Chunk(strings.Fields(text), 2) {
			r.CLI("CONFIG", "SET", pair[0], pair[1])
		}
	}
	for _, c := range []struct {
		set   string
		check string
		want  doctor.Level
		back  string
	}{
		{"maxmemory 100mb maxmemory-policy allkeys-lru", "eviction", doctor.Danger, "maxmemory 0 maxmemory-policy noeviction"},
		{"maxmemory 500kb", "memory", doctor.Warning, "maxmemory 0"},
		{"appendfsync everysec", "persistence", doctor.Warning, "appendfsync always"},
		{"appendonly no", "persistence", doctor.Danger, "appendonly yes"},
		{"min-replicas-to-write 1", "replicas", doctor.Danger, "min-replicas-to-write 0"},
	} {
		set(c.set)
		if got := examine(t, r.URL())[c.check]; got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.set, c.check, got, c.want)
		}
		set(c.back)
	}
	r.CLI("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+ping", "+info", "+time", "+hello", "+client")
	got := examine(t, strings.Replace(r.URL(), "redis://", "redis://reader:secret@", 1))
	if got["scripts"] != doctor.Danger || got["CONFIG"] != doctor.Note {
		t.Errorf("a user without rights: %v", got)
	}
	r.CLI("REPLICAOF", "127.0.0.1", "1")
	if got := examine(t, r.URL())["role"]; got != doctor.Danger {
		t.Errorf("the role of a replica is %q", got)
	}
}

// TestCluster: all masters are examined.
func TestCluster(t *testing.T) {
	addrs := redistest.SharedCluster(t)
	target, err := redisurl.Parse("redis://" + addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	found, err := doctor.Examine(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, f := range found {
		if f.Check == "version" {
			nodes = append(nodes, f.Node)
		}
		if f.Check == "cluster" && f.Level != doctor.OK {
			t.Errorf("%+v", f)
		}
	}
	slices.Sort(nodes)
	slices.Sort(addrs)
	if !slices.Equal(nodes, addrs) {
		t.Errorf("examined %v, want %v", nodes, addrs)
	}
}
