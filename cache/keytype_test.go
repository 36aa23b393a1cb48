//go:build !quick

package cache_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/cache"
)

// New reports all faults of its options at once, a type of keys without a Key function among them. The
// compiler makes the whole local level for each type of keys: make test does without this one.
func TestAllFaultsOfOptions(t *testing.T) {
	if _, err := cache.New(nil, cache.Options[[2]int, string]{}); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("want four faults, got %v", err)
	}
}
