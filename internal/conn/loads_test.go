package conn_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/conn"
)

// TestLoadsOnce: many callers that miss a script at the same time load it once, on each node.
func TestLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads conn.Loads[string]
		refused := errors.New("refused")
		release := make(chan struct{})
		var mu sync.Mutex
		count := map[string]int{}
		miss := func(key string) error {
			return loads.Do(t.Context(), key, func(context.Context) error {
				mu.Lock()
				count[key]++
				mu.Unlock()
				<-release
				if key == "b" {
					return refused
				}
				return nil
			})
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := miss("a"); err != nil {
					t.Errorf("a: %v", err)
				}
			})
			wg.Go(func() {
				if err := miss("b"); !errors.Is(err, refused) {
					t.Errorf("b: %v", err)
				}
			})
		}
		synctest.Wait()
		if count["a"] != 1 || count["b"] != 1 {
			t.Errorf("at the same time: %v loads, want one of each", count)
		}
		close(release)
		wg.Wait()
		if err := miss("a"); err != nil || count["a"] != 2 {
			t.Errorf("a script that was flushed: %v loads, %v", count, err)
		}
	})
}

// TestLoadOutlivesItsCaller: a load goes on for the others when the caller that began it leaves, for 5 s at most.
func TestLoadOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads conn.Loads[int]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		err := loads.Do(ctx, 1, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if d := time.Since(start); d != 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a load without an answer ended after %v: %v", d, err)
		}
	})
}
