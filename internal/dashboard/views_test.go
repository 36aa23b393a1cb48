package dashboard_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
)

func TestViews(t *testing.T) {
	p := open(t, func(_ *dashboard.Options, s *dashboard.Source) {
		s.Caches = func() map[string]dashboard.CacheCounts {
			return map[string]dashboard.CacheCounts{"users": {Hits: 7, Stale: 1, Loads: 2, Errors: 3}}
		}
		s.Limits = func() dashboard.LimitCounts {
			return dashboard.LimitCounts{Allowed: 5, Denied: 3, Names: map[string]dashboard.LimitCount{"api": {Allowed: 5, Denied: 3}}}
		}
	})
	ctx := t.Context()
	empty := p.snap("")
	if empty.View != "overview" || empty.Source != "main" || empty.User.Name != "default" || !empty.User.CanWrite || empty.PollMs < 1000 || empty.Version != "v1" {
		t.Errorf("the first snapshot is %+v", empty)
	}
	if len(empty.Sources) != 1 || empty.Sources[0].Kind != dashboard.KindEngine {
		t.Errorf("the sources are %v", empty.Sources)
	}

	t.Run("locks", func(t *testing.T) {
		locks, err := lock.New(p.client, lock.Options{Label: "deploy <b>"})
		must(t, err)
		lease, err := locks.Acquire(ctx, "orders:42")
		must(t, err)
		row := p.row("locks", "orders:42")
		holders := row["holders"].([]any)
		holder := holders[0].(map[string]any)
		if row["kind"] != "lock" || len(holders) != 1 || holder["label"] != "deploy <b>" || holder["token"] != fmt.Sprint(lease.Token()) || holder["ttlMs"].(float64) <= 0 {
			t.Errorf("the row is %v", row)
		}
		semaphores, err := lock.NewSemaphore(p.client, lock.SemaphoreOptions{})
		must(t, err)
		permit, err := semaphores.Acquire(ctx, "geo", 3)
		must(t, err)
		if row := p.row("locks", "geo"); row["kind"] != "semaphore" || row["count"] != 1.0 {
			t.Errorf("the row of a semaphore is %v", row)
		}
		latches, err := lock.NewLatch(p.client, lock.LatchOptions{})
		must(t, err)
		_, err = latches.Set(ctx, "ready", 4)
		must(t, err)
		if row := p.row("locks", "ready"); row["kind"] != "latch" || row["count"] != 4.0 {
			t.Errorf("the row of a latch is %v", row)
		}
		must(t, lease.Release(ctx))
		must(t, permit.Release(ctx))
		for _, r := range p.snap("view=locks").Rows {
			if r["name"] != "ready" {
				t.Errorf("a free lock has a row: %v", r)
			}
		}
	})
	t.Run("limits", func(t *testing.T) {
		stored, err := ratelimit.New(p.client, ratelimit.Options{Stored: true})
		must(t, err)
		must(t, stored.Set(ctx, "api", ratelimit.Limit{Rate: 10, Period: time.Hour}))
		_, err = stored.AllowN(ctx, "api", 4)
		must(t, err)
		row := p.row("limits", "api")
		if row["policy"] != "stored" || row["limit"] != 10.0 || row["remaining"] != 6.0 || row["periodMs"] != 3600e3 || row["fullInMs"].(float64) <= 0 || row["allowed"] != 5.0 || row["denied"] != 3.0 {
			t.Errorf("the row is %v", row)
		}
		own, err := ratelimit.New(p.client, ratelimit.Options{Limit: ratelimit.PerHour(5)})
		must(t, err)
		_, err = own.Allow(ctx, "mail")
		must(t, err)
		if row := p.row("limits", "mail"); row["policy"] != "rate" || row["limit"] != nil || row["fullInMs"].(float64) <= 0 || row["allowed"] != nil {
			t.Errorf("the row of a program's limit is %v", row)
		}
	})
	t.Run("queues", func(t *testing.T) {
		jobs, err := queue.New[string](p.client, queue.Options{})
		must(t, err)
		_, err = jobs.Put(ctx, "mail", "hello")
		must(t, err)
		_, err = jobs.PutRequest(ctx, "mail", queue.Request[string]{Value: "later", Delay: time.Hour})
		must(t, err)
		if row := p.row("queues", "mail"); row["ready"] != 1.0 || row["due"] != 1.0 || row["dead"] != 0.0 || row["paused"] != false {
			t.Errorf("the row is %v", row)
		}
	})
	t.Run("stock", func(t *testing.T) {
		items, err := stock.New(p.client, stock.Options{})
		must(t, err)
		_, err = items.Set(ctx, "bottles", 100)
		must(t, err)
		_, _, err = items.Reserve(ctx, "bottles", 7)
		must(t, err)
		if row := p.row("stock", "bottles"); row["total"] != 100.0 || row["reserved"] != 7.0 || row["available"] != 93.0 || row["sold"] != 0.0 {
			t.Errorf("the row is %v", row)
		}
	})
	t.Run("caches", func(t *testing.T) {
		users, err := cache.New(p.client, cache.Options[int, string]{
			Name: "users", TTL: time.Hour,
		})
		must(t, err)
		defer func() { _ = users.Close() }()
		_, _, err = users.Get(ctx, 1, func(context.Context, int) (string, bool, error) { return "ann", true, nil })
		must(t, err)
		if row := p.row("caches", "users"); row["entries"] != 1.0 || row["hits"] != 7.0 || row["errors"] != 3.0 {
			t.Errorf("the row is %v", row)
		}
	})
	t.Run("bloom", func(t *testing.T) {
		filters, err := bloom.New(p.client, bloom.Options{})
		must(t, err)
		f, err := filters.Open(ctx, "seen", bloom.Spec{Capacity: 1000, ErrorRate: 0.01})
		must(t, err)
		_, err = f.Add(ctx, "a")
		must(t, err)
		if row := p.row("bloom", "seen"); row["capacity"] != 1000.0 || row["items"] != 1.0 || row["fill"].(float64) <= 0 || row["layers"] != 1.0 {
			t.Errorf("the row is %v", row)
		}
	})
	t.Run("engine", func(t *testing.T) {
		s := p.snap("view=engine")
		if len(s.Rows) != 1 || s.Rows[0]["memory"].(float64) <= 0 || s.Rows[0]["keys"].(float64) <= 0 || s.Rows[0]["engine"] != true {
			t.Errorf("the rows are %v", s.Rows)
		}
		must(t, p.client.Do(ctx, redoubt.Cmd{Name: "SADD", Keys: []string{"a set"}, Args: []string{"x"}}).Err)
		await.Soon(t, "the types of keys", func() bool {
			types, _ := p.snap("view=engine").Rows[0]["keysByType"].(map[string]any)
			return types["hash"] != nil && types["string"] != nil && types["set"] == 1.0
		})
		if s.Overview["memory"].(float64) <= 0 {
			t.Errorf("the overview is %v", s.Overview)
		}
		if s.Counts["locks"] == 0 || s.Counts["queues"] != 1 || s.Counts["stock"] != 1 || !s.Scan.Done || s.Scan.Seen == 0 {
			t.Errorf("the counts are %v of %+v", s.Counts, s.Scan)
		}
	})
}

// Names may have any bytes. A request names them by their ref.
func TestBinaryNames(t *testing.T) {
	p := open(t, nil)
	name := "a\x00\xff}:lock"
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	_, err = jobs.Put(t.Context(), name, "x")
	must(t, err)
	row := p.row("queues", `"a\x00\xff}:lock"`)
	if row["ref"] != base64.RawURLEncoding.EncodeToString([]byte(name)) {
		t.Errorf("the row is %v", row)
	}
	if status, answer := p.act(map[string]any{"action": "queue.pause", "ref": row["ref"]}); status != 200 {
		t.Errorf("pause: %d %v", status, answer)
	}
	if row := p.row("queues", `"a\x00\xff}:lock"`); row["paused"] != true {
		t.Errorf("the row is then %v", row)
	}
}

func TestClassify(t *testing.T) {
	for key, want := range map[string]string{
		"rd:{a}:lock": "locks a", "rd:{a}:sem": "semaphores a", "rd:{a}:latch": "latches a", "rd:{a}:queue": "queues a",
		"rd:{a}:queue:config": "queues a", "rd:{a}:queue:dead": " ", "rd:{a}:gcra": "limits a", "rd:{a}:gcra:0123456789abcdef": "limits a",
		"rd:{a}:stock": "stock a", "rd:{a}:due": " ", "rd:{users:1}:cache": "caches users", "rd:{a}:bloom": "bloom a", "rd:{a}:ttlhash": "other a",
		"rd:{a}:b}:lock": "locks a}:b", "rx:{a}:lock": " ", "rd:{}:lock": " ", "rd:{a}lock": " ", "a": " ", "": " ", "rd:{a}:lock:x": " ",
		"rd:{" + strings.Repeat("a", redoubt.MaxName+1) + "}:lock": " ",
	} {
		if kind, name := dashboard.Classify(key); kind+" "+name != want {
			t.Errorf("%q is %q of %q; want %q", key, name, kind, want)
		}
	}
}

// Pages follow each other without gaps, and a search finds names anywhere in them.
func TestPages(t *testing.T) {
	p := open(t, nil)
	locks, err := lock.New(p.client, lock.Options{})
	must(t, err)
	const all = 2*dashboard.PageRows + 10
	for i := range all {
		_, err := locks.Acquire(t.Context(), fmt.Sprintf("job:%03d", i))
		must(t, err)
	}
	await.Soon(t, "all names", func() bool { return p.snap("view=locks").Counts["locks"] == all })
	var names []string
	for page, turns := "", 0; turns < 10; turns++ {
		s := p.snap("view=locks&page=" + page)
		for _, r := range s.Rows {
			names = append(names, r["name"].(string))
		}
		if page = s.Next; page == "" {
			break
		}
	}
	if len(names) != all || names[0] != "job:000" || names[all-1] != fmt.Sprintf("job:%03d", all-1) {
		t.Errorf("the pages have %d names from %v to %v", len(names), names[0], names[len(names)-1])
	}
	if s := p.snap("view=locks&q=B:07"); len(s.Rows) != 10 || s.Rows[0]["name"] != "job:070" {
		t.Errorf("the search found %d: %v", len(s.Rows), s.Rows)
	}
}

// Promise: While the back end does not answer, the dashboard shows the last data with its age and the error.
func TestBackEndGone(t *testing.T) {
	p := open(t, nil)
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	_, err = jobs.Put(t.Context(), "mail", "x")
	must(t, err)
	p.row("queues", "mail")
	p.conn.failWith(func(redoubt.Cmd) error {
		return fmt.Errorf("dial tcp 10.0.0.1:6379: %w", redoubt.ErrUnavailable)
	})
	s := p.snap("view=queues")
	if len(s.Rows) != 1 || s.Rows[0]["ready"] != 1.0 || s.Age < 1 || !strings.Contains(s.Error, "dial tcp") || s.Overview["memory"] == nil || s.PanelError != "" {
		t.Errorf("the snapshot is %+v", s)
	}
	if again := p.snap("view=queues"); again.Age < s.Age {
		t.Errorf("the age went from %d to %d ms", s.Age, again.Age)
	}
	p.conn.failWith(nil)
	if s := p.snap("view=queues"); s.Error != "" || s.Age != 0 || len(s.Rows) != 1 {
		t.Errorf("once it is back: %+v", s)
	}
}

// Promise: When one view of the dashboard fails, the others stay.
func TestFailingView(t *testing.T) {
	p := open(t, nil)
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	items, err := stock.New(p.client, stock.Options{})
	must(t, err)
	for _, name := range []string{"a", "b"} {
		_, err = jobs.Put(t.Context(), name, "x")
		must(t, err)
	}
	_, err = items.Set(t.Context(), "bottles", 1)
	must(t, err)
	p.row("queues", "b")
	p.row("stock", "bottles")
	p.conn.failWith(func(c redoubt.Cmd) error {
		if len(c.Keys) > 0 && strings.Contains(c.Keys[0], "{a}:queue") {
			return redoubt.ServerError("ERR no such script for a")
		}
		return nil
	})
	s := p.snap("view=queues")
	if len(s.Rows) != 2 || s.Rows[0]["error"] != "ERR no such script for a" || s.Rows[1]["ready"] != 1.0 || s.Error != "" {
		t.Errorf("with one queue that can't be read: %+v", s)
	}
	p.conn.failWith(func(c redoubt.Cmd) error {
		if c.Name == "SCAN" {
			return redoubt.ServerError("NOPERM no SCAN")
		}
		return nil
	})
	if s := p.snap("view=stock"); len(s.Rows) != 1 || s.PanelError != "NOPERM no SCAN" || s.Error != "" || s.Overview["memory"] == nil {
		t.Errorf("without SCAN: %+v", s)
	}
	// Another program's key of another type is no row.
	p.conn.failWith(nil)
	must(t, p.client.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"rd:{c}:queue"}, Args: []string{"x"}}).Err)
	await.Soon(t, "a third queue", func() bool { return p.snap("view=queues").Counts["queues"] == 3 })
	if s := p.snap("view=queues"); len(s.Rows) != 2 || s.PanelError != "" {
		t.Errorf("with a foreign key: %+v", s)
	}
}
