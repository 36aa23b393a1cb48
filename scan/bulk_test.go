package scan_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/scan"
)

// Promise: Delete and Expire reach every key that their iterator yields, also when they are called again
// after an error, and a dry run changes nothing.
func TestDeleteAndExpire(t *testing.T) { each(t, bulk) }

func bulk(t *testing.T, e *env) {
	const n = 700
	ctx, s := t.Context(), e.scanner(scan.Options{Count: 100})
	e.fill("k", n)
	e.fill("other", 20)
	left := func(name string) int { return len(counted(t, e.keys(scan.Options{}, name, ""))) }

	seen := 0
	done, err := s.Delete(ctx, e.keys(scan.Options{Count: 100}, "k", ""), scan.Bulk{DryRun: true, Each: func(keys []string) { seen += len(keys) }})
	must(t, err)
	if done != (scan.Done{Found: n}) || seen != n || left("k") != n {
		t.Errorf("a dry run: %+v, %d seen, %d left", done, seen, left("k"))
	}

	const ttl, spread = time.Hour, time.Hour
	done, err = s.Expire(ctx, e.keys(scan.Options{Count: 100}, "k", ""), ttl, scan.Bulk{Spread: spread})
	must(t, err)
	if done != (scan.Done{Found: n, Changed: n}) {
		t.Errorf("Expire: %+v", done)
	}
	least, most := 100*time.Hour, time.Duration(0)
	for i := range n {
		d := e.Redis.PTTL(ctx, e.key("k", i)).Val()
		least, most = min(least, d), max(most, d)
	}
	if least < ttl-10*time.Minute || most > ttl+spread || most-least < spread/2 {
		t.Errorf("keys expire in %v to %v; want %v to %v", least, most, ttl, ttl+spread)
	}

	// A reply that is lost ends it, and the next call repeats the page.
	broken := &failing{Conn: e.Conn}
	broken.left.Store(2)
	s2, err := scan.New(e.on(broken), scan.Options{Count: 100})
	must(t, err)
	it, err := s2.Keys(scan.Query{Match: e.Prefix + "k*"})
	must(t, err)
	first, err := s2.Delete(ctx, it, scan.Bulk{})
	is(t, err, redoubt.ErrUnknownOutcome)
	rest, err := s2.Delete(ctx, it, scan.Bulk{})
	must(t, err)
	if left("k") != 0 || left("other") != 20 || first.Found+rest.Found > n || rest.Found == 0 {
		t.Errorf("%+v, then %+v; left %d, %d of others", first, rest, left("k"), left("other"))
	}

	_, err = s.Expire(ctx, it, 0, scan.Bulk{})
	is(t, err, scan.ErrInvalidOption)
	_, err = s.Delete(ctx, it, scan.Bulk{Spread: -1})
	is(t, err, scan.ErrInvalidOption)
}

// The nodes of a cluster work at the same time: here each waits for the others.
func parallel(t *testing.T, e *env) {
	const n = 600
	e.fill("k", n)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	meet := func() (*scan.Scanner, *scan.Iterator[string]) {
		conn := &meeting{Conn: e.Conn, all: make(chan struct{})}
		conn.missing.Store(3)
		s, err := scan.New(e.on(conn), scan.Options{})
		must(t, err)
		it, err := s.Keys(scan.Query{Match: e.Prefix + "k*"})
		must(t, err)
		return s, it
	}
	s, it := meet()
	r, err := s.Report(ctx, it, scan.ReportOptions{})
	must(t, err)
	if r.Found != n || r.Measured != n {
		t.Errorf("Report: %d of %d measured", r.Measured, r.Found)
	}
	s, it = meet()
	done, err := s.Delete(ctx, it, scan.Bulk{})
	must(t, err)
	if done != (scan.Done{Found: n, Changed: n}) {
		t.Errorf("Delete: %+v", done)
	}
}

// A meeting Conn has pipelines wait until enough are on their way.
type meeting struct {
	redoubt.Conn
	missing atomic.Int64
	all     chan struct{}
}

func (m *meeting) Primaries(ctx context.Context) ([]redoubt.Conn, error) {
	return m.Conn.(redoubt.Topology).Primaries(ctx)
}

func (m *meeting) Node(key string) string { return m.Conn.(redoubt.Topology).Node(key) }

func (m *meeting) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if m.missing.Add(-1) == 0 {
		close(m.all)
	}
	select {
	case <-m.all:
	case <-ctx.Done():
	}
	return m.Conn.Pipeline(ctx, cmds)
}

// A failing Conn loses the replies of a pipeline of UNLINK.
type failing struct {
	redoubt.Conn
	left atomic.Int64 // until then
}

func (f *failing) Primaries(ctx context.Context) ([]redoubt.Conn, error) {
	return f.Conn.(redoubt.Topology).Primaries(ctx)
}

func (f *failing) Node(key string) string { return f.Conn.(redoubt.Topology).Node(key) }

func (f *failing) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if f.left.Add(-1) == 0 {
		_ = f.Conn.Pipeline(ctx, cmds)
		replies := make([]redoubt.Reply, len(cmds))
		for i := range replies {
			replies[i].Err = redoubt.UnknownOutcome(errors.New("lost"))
		}
		return replies
	}
	return f.Conn.Pipeline(ctx, cmds)
}
