package cache_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/faults"
)

// One of many callers in many processes loads.
//
// Promise: of all callers in all processes, only one loads a missing key.
func TestColdKey(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		o := coldOrders{Addrs: e.addrs, Cluster: len(e.addrs) > 1, Prefix: e.Prefix, Processes: 8, Callers: 100}
		if full() {
			o.Processes = 64
		}
		var all sync.WaitGroup
		ready, start := make(chan struct{}, o.Processes), make(chan struct{})
		for range o.Processes {
			said := 0
			_, dismiss := faults.Hire(t, o, func(line string) error {
				switch said++; {
				case said == 1 && line == "ready":
					ready <- struct{}{}
				case said != 2 || line != fmt.Sprint(o.Callers, " have it"):
					return fmt.Errorf("%q", line)
				}
				return nil
			})
			all.Go(func() {
				<-start
				dismiss() // which is when they begin
				if said != 2 {
					t.Errorf("a process said %d lines", said)
				}
			})
		}
		for range o.Processes {
			select {
			case <-ready:
			case <-time.After(2 * time.Minute):
				t.Error("not all processes have started")
			}
		}
		close(start)
		all.Wait()
		if n := e.Redis.Get(t.Context(), o.loads()).Val(); n != "1" {
			t.Errorf("%s loads in %d processes of %d callers", n, o.Processes, o.Callers)
		}
		if n := e.Redis.Get(t.Context(), o.begun()).Val(); n != strconv.Itoa(o.Processes) {
			t.Errorf("%s of %d processes have begun", n, o.Processes)
		}
	})
}

// coldOrders tell a process of TestColdKey what to do.
type coldOrders struct {
	Addrs              []string
	Cluster            bool
	Prefix             string
	Processes, Callers int
}

// The server counts the loads, and the processes that have begun.
func (o coldOrders) loads() string { return o.Prefix + "-loads" }
func (o coldOrders) begun() string { return o.Prefix + "-begun" }

// work is what a process does that is one of TestColdKey's.
func (o coldOrders) work(start context.Context) error {
	ctx := context.Background()
	rdb := dial(o.Addrs, o.Cluster)
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		return err
	}
	client, err := redoubt.New(conn, redoubt.Options{Prefix: o.Prefix})
	if err != nil {
		return err
	}
	c, err := cache.New(client, patient)
	if err != nil {
		return err
	}
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	fmt.Println("ready")
	<-start.Done()
	if err := rdb.Incr(ctx, o.begun()).Err(); err != nil {
		return err
	}
	errs := make(chan error)
	for range o.Callers {
		go func() {
			v, found, err := c.Get(ctx, "cold", func(ctx context.Context, _ string) (string, bool, error) {
				return o.load(ctx, rdb)
			})
			if err == nil && (v != "ann" || !found) {
				err = fmt.Errorf("got %q, %v", v, found)
			}
			errs <- err
		}()
	}
	for range o.Callers {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println(o.Callers, "have it")
	return c.Close()
}

// load lasts until all processes have begun.
func (o coldOrders) load(ctx context.Context, rdb redis.UniversalClient) (string, bool, error) {
	if err := rdb.Incr(ctx, o.loads()).Err(); err != nil {
		return "", false, err
	}
	for {
		n, err := rdb.Get(ctx, o.begun()).Int()
		if err != nil || n == o.Processes {
			return "ann", true, err
		}
	}
}
