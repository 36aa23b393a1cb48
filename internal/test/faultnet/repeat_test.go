package faultnet_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRepeatNextRequest(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	p.RepeatNextRequest("incr")
	c.send("SET n 5\nINCR n\nGET n\nINCR n")
	for _, want := range []string{"+OK", ":6", "$1", "7", ":8"} {
		c.want(want)
	}
	c.send("PING")
	c.want("+PONG")
	if got, n := s.CLI("GET", "n"), p.Stats().Repeated; got != "8" || n != 1 {
		t.Errorf("n is %q, and %d requests were sent twice; want 8 and 1", got, n)
	}
}

// Both answers come in pieces, as large ones do.
func TestRepeatOfALargeAnswer(t *testing.T) {
	_, p := start(t)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
	defer rdb.Close()
	big := strings.Repeat("0123456789", 1<<19)
	if err := rdb.Set(t.Context(), "big", big, 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.RepeatNextRequest("GET")
	for range 3 {
		if got, err := rdb.Get(t.Context(), "big").Result(); got != big {
			t.Fatalf("a value of %d bytes came back with %d, %v", len(big), len(got), err)
		}
	}
	if n := p.Stats().Repeated; n != 1 {
		t.Errorf("%d requests were sent twice, want 1", n)
	}
}
