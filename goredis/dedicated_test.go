package goredis_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Four calls at a time whose context can end have a connection of their own, which ends with the context. A
// fifth call uses the pool, where the goroutine that it leaves behind stays until the read time-out. Close
// closes the idle connections.
//
// Promise: Up to four calls whose context can end have a connection each, which is closed when the context
// ends; hooks of a wrapped client see every call.
func TestCallsAloneOnTheirConnections(t *testing.T) {
	s := redistest.Start(t)
	number := func(section, field string) int {
		_, after, _ := strings.Cut(s.CLI("INFO", section), field+":")
		before, _, _ := strings.Cut(after, "\r")
		n, err := strconv.Atoi(before)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := number("clients", "connected_clients")
	c := dial(t, s.URL()+"?read_timeout=1m")
	const calls = 5
	var lists [calls]string
	got := make(chan redoubt.Reply, calls)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for i := range lists {
		lists[i] = "q" + strconv.Itoa(i)
		go func() { // it is not flagged Blocking
			got <- c.Do(ctx, redoubt.Cmd{Name: "BLPOP", Keys: lists[i : i+1], Args: []string{"0"}})
		}()
	}
	eventually(t, "all are under way", func() bool { return number("clients", "blocked_clients") == calls })
	leave()
	for range calls {
		if r := <-got; !errors.Is(r.Err, context.Canceled) || !errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
			t.Errorf("got %#v", r)
		}
	}
	eventually(t, "the server has let go of four", func() bool { return number("clients", "blocked_clients") == 1 })

	for range 10 {
		if r := c.Do(t.Context(), redoubt.Cmd{Name: "PING"}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no connection is left", func() bool { return number("clients", "connected_clients") == before })
}

// A program's own hooks see every call on its own client.
//
// Promise: Up to four calls whose context can end have a connection each, which is closed when the context
// ends; hooks of a wrapped client see every call.
func TestHooksOfAWrappedClientSeeEveryCall(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	var seen hook
	rdb.AddHook(&seen)
	c := wrapped(t, rdb)
	for range 3 {
		if r := c.Do(t.Context(), redoubt.Cmd{Name: "PING"}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if seen.pings != 3 {
		t.Errorf("the hook saw %d of 3", seen.pings)
	}
}

type hook struct{ pings int }

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.EqualFold(cmd.Name(), "ping") {
			h.pings++
		}
		return next(ctx, cmd)
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
