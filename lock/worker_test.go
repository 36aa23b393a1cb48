package lock_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/faults"
)

// orders are the orders to a worker in a process of its own.
type orders struct {
	ID                         int
	Invitation, Server, Prefix string
	Names                      map[string][]string
	TTL                        time.Duration
}

// hire starts a worker as a process of its own. It works from now on until the
// round is over.
func (c *crew) hire(id int, server string) {
	c.t.Helper()
	p, dismiss := faults.Hire(c.t, orders{id, c.Invitation(), server, c.Prefix, c.names, c.TTL}, func(line string) error {
		var kind string
		var e event
		var call, ret int64
		if _, err := fmt.Sscanf(line, lineFormat, &kind, &e.name, &e.what, &e.fence, &e.id, &e.shared, &call, &ret); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		returned := time.Time{}
		if ret != 0 {
			returned = time.Unix(0, ret)
		}
		c.histories[kind].add(id, e, time.Unix(0, call), returned)
		return nil
	})
	c.Processes, c.dismiss = append(c.Processes, p), append(c.dismiss, dismiss)
}

const lineFormat = "%q %q %q %d %q %t %d %d\n"

// work works until it is dismissed, and tells what it does.
func (o orders) work(ctx context.Context) error {
	rdb, err := faults.Join(o.Invitation)
	if err != nil {
		return err
	}
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		return err
	}
	w, err := newWorker(o.ID, conn, o.Server, o.Prefix, o.TTL)
	if err != nil {
		return err
	}
	defer w.end()
	var mu sync.Mutex
	w.add = func(kind string, e event, call, ret time.Time) {
		mu.Lock()
		defer mu.Unlock()
		returned := int64(0)
		if !ret.IsZero() {
			returned = ret.UnixNano()
		}
		fmt.Printf(lineFormat, kind, e.name, e.what, e.fence, e.id, e.shared, call.UnixNano(), returned)
	}
	w.work(ctx, uint64(os.Getpid()), o.Names)
	return nil
}
