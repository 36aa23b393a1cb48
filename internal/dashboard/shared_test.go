package dashboard_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/lock"
)

// TestRequestsWhileAPollBegins: a request reads the sources while a poll begins. Their locks were once taken
// in two orders, so that both waited for ever.
func TestRequestsWhileAPollBegins(t *testing.T) {
	p := open(t, nil)
	var polls atomic.Int64
	p.h.BeforePoll(func() {
		polls.Add(1)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			ask(t.Context(), p.h, "/index.html")
		}()
		select {
		case <-answered:
		case <-time.After(30 * time.Second): // only a fault takes so long
			t.Error("no answer while a poll begins")
		}
	})
	await.Soon(t, "a poll", func() bool { // the first one may be under way already
		p.snap("view=overview")
		return polls.Load() > 0
	})
	// For the race detector.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p.h.Again()
			ask(t.Context(), p.h, "/api/snapshot?view=locks")
		})
	}
	wg.Wait()
}

// ask sends h a request of this machine.
func ask(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1"+path, nil))
	return answer
}

// TestBrowserGivesUp: a browser that closes its tab during a snapshot makes no error for the others.
func TestBrowserGivesUp(t *testing.T) {
	p := open(t, nil)
	locks, err := lock.New(p.client, lock.Options{TTL: time.Hour})
	must(t, err)
	_, err = locks.Acquire(t.Context(), "deploy")
	must(t, err)
	p.row("locks", "deploy")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.conn.failWith(func(c redoubt.Cmd) error {
		if c.Script != nil {
			cancel()
		}
		return nil
	})
	p.h.Again()
	answer := ask(ctx, p.h, "/api/snapshot?view=locks")
	if ctx.Err() == nil {
		t.Fatalf("the browser has not given up: %d %s", answer.Code, answer.Body)
	}
	var s shot
	decode(t, answer.Body.String(), &s) // what the others get from now on
	if s.Error != "" || len(s.Rows) != 1 {
		t.Errorf("the snapshot is %+v; want the lock and no error", s)
	}
}

// TestEachFilterIsCounted: a page counts a few filters at a time. The first ones once had every turn.
func TestEachFilterIsCounted(t *testing.T) {
	p := open(t, nil)
	filters, err := bloom.New(p.client, bloom.Options{})
	must(t, err)
	const n = 2*dashboard.BloomsPerPage + 1
	for i := range n {
		f, err := filters.Open(t.Context(), fmt.Sprintf("f%02d", i), bloom.Spec{Capacity: 100, ErrorRate: 0.01})
		must(t, err)
		_, err = f.Add(t.Context(), "x")
		must(t, err)
	}
	await.Soon(t, "all filters in the index", func() bool { return p.snap("view=overview").Counts["bloom"] == n })
	counted := 0
	for range 3 {
		counted = 0
		for _, row := range p.snap("view=bloom").Rows {
			if row["capacity"] != nil {
				counted++
			}
		}
		p.h.BloomsAreDue()
	}
	if counted != n {
		t.Errorf("%d of %d filters are counted after three snapshots", counted, n)
	}
}

// A cluster is a Conn with several primaries.
type cluster struct {
	redoubt.Conn
	primaries []redoubt.Conn
}

func (c cluster) Node(string) string { return "" }

func (c cluster) Primaries(context.Context) ([]redoubt.Conn, error) { return c.primaries, nil }

// TestCountersWithoutAPrimary: the sum of the counters of some primaries is not that of all of them. When the
// last one came back, the chart once showed all its commands as a burst.
func TestCountersWithoutAPrimary(t *testing.T) {
	var spies []*spy
	all := cluster{}
	for range 2 {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		t.Cleanup(func() { _ = e.Close() })
		s := &spy{Conn: e, count: map[string]int{}}
		spies, all.primaries = append(spies, s), append(all.primaries, s)
	}
	all.Conn = spies[0]
	client := clienttest.New(t, all, "")
	for _, down := range []bool{false, true} {
		if down {
			spies[1].failWith(func(redoubt.Cmd) error { return redoubt.ErrUnavailable })
		}
		i, err := dashboard.ReadInfo(t.Context(), client)
		must(t, err)
		_, counters := i["total_commands_processed"]
		_, gauges := i["used_memory"]
		if counters == down || !gauges {
			t.Errorf("with one primary down: %v; counters %v, gauges %v", down, counters, gauges)
		}
	}
}
