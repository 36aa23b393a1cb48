package goredis_test

import (
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// redoubt.Open opens what this package has registered, and closes it.
func TestOpenByScheme(t *testing.T) {
	s := redistest.Start(t)
	for _, url := range []string{s.URL(), "unix://" + s.Socket(), redistest.StartCluster(t, 1, 0).URL()} {
		client, err := redoubt.Open(t.Context(), url, redoubt.Options{})
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if err := client.Do(t.Context(), set).Err; err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if c, err := redoubt.Open(t.Context(), "redis://127.0.0.1:1", redoubt.Options{}); err == nil || c != nil {
		t.Errorf("where nobody listens: %v, %v", c, err)
	}
}
