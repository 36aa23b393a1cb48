//go:build !quick

package glob_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

const (
	letters  = "aabbcAB-]^[\\*?\x00\x80\xff"
	patterns = "****??aabbcAB[[[]]^^--\\\\\x80\xff"
)

// TestMatchesAsRedis compares KEYS and CONFIG GET with a real server's.
func TestMatchesAsRedis(t *testing.T) {
	r := randtest.Rand(t)
	s := redistest.Start(t)
	c := clienttest.Dial(t, s.Addr())
	steps := randtest.Watch(t)
	ctx := t.Context()
	keys := map[string]struct{}{"": {}}
	for range 300 {
		keys[string(glob.Draw(r, 8, letters))] = struct{}{}
	}
	pipe := c.Pipeline()
	for k := range keys {
		pipe.Set(ctx, k, 1, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		drawn := make([]string, 250)
		for i := range drawn {
			drawn[i] = string(glob.Draw(r, 12, patterns))
		}
		compareKeys(t, c, ctx, keys, drawn)
	}
	all, err := c.ConfigGet(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		p := string(glob.Draw(r, 3, "*")) + string(glob.Draw(r, 6, "***?[]^-\\aEetTsSZ")) + "*"
		got, err := c.ConfigGet(ctx, p).Result()
		if err != nil {
			t.Fatal(err)
		}
		for name := range all {
			steps.Begin(func() string { return fmt.Sprintf("match %q with %q", p, name) })
			if _, want := got[name]; want != glob.MatchFold([]byte(p), []byte(name)) {
				t.Errorf("CONFIG GET %q: %q is matched: %v", p, name, want)
			}
		}
	}
}

func compareKeys(t *testing.T, c *redis.Client, ctx context.Context, keys map[string]struct{}, drawn []string) {
	pipe := c.Pipeline()
	cmds := make([]*redis.StringSliceCmd, len(drawn))
	for i, p := range drawn {
		cmds[i] = pipe.Keys(ctx, p)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for i, p := range drawn {
		if strings.Trim(p, "*") == "" && len(p) < 2 {
			continue // KEYS * asks nothing of the pattern
		}
		got := cmds[i].Val()
		slices.Sort(got)
		for k := range keys {
			if _, want := slices.BinarySearch(got, k); want != glob.Match([]byte(p), []byte(k)) {
				t.Errorf("KEYS %q: %q is matched: %v", p, k, want)
			}
		}
	}
}
