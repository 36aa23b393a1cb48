package rueidisconn_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
	pools "github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

// TestServeTells: a pool of `redoubt serve` says of a server that failed what became of a command.
//
// Promise: When a pool reports a lost reply or a server that is down, the Conn handles it as it handles a
// broken connection.
func TestServeTells(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	o := pools.PoolOptions{Name: "pool", Hash: ring.FNV64a, Distribution: ring.Modula, Timeout: 700 * time.Millisecond}
	for i, s := range servers {
		o.Servers = append(o.Servers, pools.PoolServer{
			Server: ring.Server{Name: fmt.Sprint("redis-", i+1), Weight: 1}, Backend: &pools.Redis{Addr: s.Addr()},
		})
	}
	_, addr := servertest.ServePool(t, o)
	c := wrap(t, rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	count := redoubt.Cmd{Name: "INCR", Keys: []string{"b"}}
	get := redoubt.Cmd{Name: "GET", Keys: []string{"b"}, Flags: redoubt.ReadOnly}
	if err := c.Do(t.Context(), count).Err; err != nil {
		t.Fatal(err)
	}
	servers[1].Pause()
	if err := c.Do(t.Context(), count).Err; !errors.Is(err, redoubt.ErrUnknownOutcome) || errors.Is(err, redoubt.ErrUnavailable) {
		t.Errorf("INCR without a reply in time: %v", err)
	}
	if err := c.Do(t.Context(), count).Err; !errors.Is(err, redoubt.ErrUnavailable) || errors.Is(err, redoubt.ErrUnknownOutcome) {
		t.Errorf("INCR behind one that is late: %v", err)
	}
	servers[1].Resume()
	await.Soon(t, "it answers again", func() bool { return c.Do(t.Context(), get).Err == nil })
	if n, err := c.Do(t.Context(), get).Int(); n != 2 || err != nil {
		t.Errorf("b is %d, %v", n, err)
	}
	servers[1].Kill()
	await.Soon(t, "the loss is known", func() bool { return c.Do(t.Context(), count).Err != nil })
	err := c.Do(t.Context(), count).Err
	if _, server := errors.AsType[redoubt.ServerError](err); !errors.Is(err, redoubt.ErrUnavailable) || errors.Is(err, redoubt.ErrUnknownOutcome) || !server {
		t.Errorf("INCR of a server that is down: %v", err)
	}
	// A part of a command with several keys may have run.
	if err := c.Do(t.Context(), redoubt.Cmd{Name: "DEL", Keys: []string{"a", "b"}}).Err; !errors.Is(err, redoubt.ErrUnavailable) || !errors.Is(err, redoubt.ErrUnknownOutcome) {
		t.Errorf("DEL of keys on both servers: %v", err)
	}
}
