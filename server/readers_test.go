package server

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/redistest"
)

// TestReadersOnlyRead: Redis itself says that the commands for replicas only read.
func TestReadersOnlyRead(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	defer func() { _ = rdb.Close() }()
	all, err := rdb.Command(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range readers {
		c := all[name]
		if c == nil {
			continue // of a later Redis
		}
		found++
		if !slices.Contains(c.Flags, "readonly") || slices.Contains(c.Flags, "write") {
			t.Errorf("%s has the flags %v", name, c.Flags)
		}
	}
	if found < 60 {
		t.Errorf("%d commands", found)
	}
}
