//go:build !quick

// The compiler makes the whole local level for each type of keys, which takes seconds: make test does without the
// types of this file.

package cache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/cache"
)

// New reports all faults of its options at once, a type of keys without a Key function among them.
func TestAllFaultsOfOptions(t *testing.T) {
	if _, err := cache.New(nil, cache.Options[[2]int, string]{}); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("want four faults, got %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	c := newLocalClient(t)
	odd := errors.New("odd")
	users, err := cache.New(c, cache.Options[uint8, []byte]{
		Name: "users", TTL: time.Minute, Codec: cache.Bytes(),
		CheckKey: func(k uint8) error {
			if k%2 == 1 {
				return odd
			}
			return nil
		},
	})
	must(t, err)
	defer func() { _ = users.Close() }()
	v, found, err := users.Get(t.Context(), 42, func(_ context.Context, k uint8) ([]byte, bool, error) { return []byte{k, 0}, true, nil })
	if string(v) != "*\x00" || !found || err != nil {
		t.Errorf("got %q, %v, %v", v, found, err)
	}
	_, _, err = users.Get(t.Context(), 43, nil)
	is(t, err, cache.ErrInvalidKey)
	is(t, err, odd)
	is(t, users.Set(t.Context(), 43, nil), odd)
	is(t, users.InvalidateMany(t.Context(), []uint8{42, 43}), odd)

	texts, err := cache.New(c, cache.Options[string, string]{Name: "texts", TTL: time.Minute})
	must(t, err)
	defer func() { _ = texts.Close() }()
	for _, key := range []string{"", strings.Repeat("x", cache.MaxKey+1)} {
		_, _, err := texts.Get(t.Context(), key, never(t))
		is(t, err, cache.ErrInvalidKey)
	}
	long := strings.Repeat("}", cache.MaxKey)
	must(t, texts.Set(t.Context(), long, "x"))
	gets(t, texts, long, "x", never(t))
}
