package dashboard_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	bloomwire "github.com/redoubt-go/redoubt/internal/wire/bloom"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
)

// TestKeysOfCommands: keys of CL.THROTTLE and of BF commands have rows, which this process knows from the
// commands that it has run.
func TestKeysOfCommands(t *testing.T) {
	p := open(t, func(_ *dashboard.Options, s *dashboard.Source) {
		s.Limits = func() dashboard.LimitCounts {
			return dashboard.LimitCounts{Keys: map[string]dashboard.LimitCount{"login:7": {Allowed: 1, Denied: 2}, "login:8": {Allowed: 1}}}
		}
		s.Filters = func() map[string]dashboard.FilterCounts {
			return map[string]dashboard.FilterCounts{"seen": {Adds: 3}, "gone": {Looks: 1}, "a list": {}}
		}
	})
	must(t, p.client.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"login:7"}, Args: []string{"1", "PX", "60000"}}).Err)
	must(t, p.client.Do(t.Context(), redoubt.Cmd{Name: "RPUSH", Keys: []string{"a list"}, Args: []string{"x"}}).Err)
	spec := bloomwire.ChainSpec{ErrorRate: 0.01, Capacity: 100, Expansion: 2}
	items := make([]string, 50)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	cmd, err := bloomwire.ChainInsertCmd("seen", &spec, bloomwire.HashItems(items))
	must(t, err)
	must(t, p.client.Do(t.Context(), cmd).Err)

	row := p.row("limits", "login:7")
	if row["kind"] != "throttle" || row["policy"] != "throttle" || row["allowed"] != 1.0 || row["denied"] != 2.0 || row["fullInMs"].(float64) <= 0 {
		t.Errorf("the row of login:7 is %v", row)
	}
	if row := p.row("limits", "login:8"); row["fullInMs"] != 0.0 || row["denied"] != 0.0 {
		t.Errorf("the row of a limit that is full again is %v", row)
	}
	if s := p.snap("view=limits&q=in:8"); len(s.Rows) != 1 || s.Counts["throttles"] != 2 {
		t.Errorf("a search finds %v of %v", s.Rows, s.Counts)
	}
	if s := p.snap("view=limits&ref=c2Vlbg"); len(s.Rows) != 0 { // "seen"
		t.Errorf("a key that CL.THROTTLE has not used has the rows %v", s.Rows)
	}
	row = p.row("bloom", "seen")
	if row["kind"] != "chain" || row["capacity"] != 100.0 || row["errorRate"] != 0.01 || row["items"].(float64) < 45 || row["layers"] != 1.0 {
		t.Errorf("the row of a BF filter is %v", row)
	}
	// Half of the items for which half of the bits would be set.
	if fill, wrong := row["fill"].(float64), row["estimatedError"].(float64); fill < 0.25 || fill > 0.35 || wrong <= 0 || wrong > 0.001 {
		t.Errorf("with half of its items the filter has fill %v and error %v", fill, wrong)
	}
	if s := p.snap("view=bloom"); len(s.Rows) != 1 || s.PanelError != "" || s.Counts["chains"] != 3 {
		t.Errorf("beside keys that are no filters: %v, %q, %v", s.Rows, s.PanelError, s.Counts)
	}
}

// TestDenialsOfNames: the view of limits has the names that are denied, for users who may see them.
func TestDenialsOfNames(t *testing.T) {
	var denied uint64
	p := open(t, func(_ *dashboard.Options, s *dashboard.Source) {
		s.Users = may(func(args ...string) bool { return len(args) < 2 || args[1] != "secret" })
		s.Limits = func() dashboard.LimitCounts {
			denied++ // with each sample
			n := dashboard.LimitCount{Denied: denied}
			return dashboard.LimitCounts{
				Names: map[string]dashboard.LimitCount{"api": n, "secret": n, "quiet": {Allowed: 5}},
				Keys:  map[string]dashboard.LimitCount{"login:7": n},
			}
		}
	})
	await.Until(t, time.Minute, "denials of two names", func() bool {
		s := p.snap("view=limits")
		var names []string
		for _, d := range s.Denials {
			names = append(names, d.Kind+" "+d.Name)
			if d.Total < 1 || len(d.T) != len(d.V) || d.V[len(d.V)-1] <= 0 {
				t.Errorf("the series is %+v", d)
			}
		}
		if slices.Contains(names, "limit secret") || slices.Contains(names, "limit quiet") {
			t.Fatalf("the names are %q", names)
		}
		return slices.Equal(names, []string{"limit api", "throttle login:7"})
	})
	if s := p.snap("view=limits&q=log"); len(s.Denials) != 1 || s.Denials[0].Name != "login:7" {
		t.Errorf("a search finds %+v", s.Denials)
	}
	if s := p.snap("view=locks"); s.Denials != nil {
		t.Errorf("the view of locks has %+v", s.Denials)
	}
}

// TestTakers: a queue tells how many clients wait for its messages here.
func TestTakers(t *testing.T) {
	p := open(t, func(_ *dashboard.Options, s *dashboard.Source) {
		s.Takers = func() map[string]int { return map[string]int{"rd:{mail}:queue:wake": 3} }
	})
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	for _, name := range []string{"mail", "other"} {
		_, err = jobs.Put(t.Context(), name, "x")
		must(t, err)
	}
	if row := p.row("queues", "mail"); row["takers"] != 3.0 {
		t.Errorf("the row is %v", row)
	}
	if row := p.row("queues", "other"); row["takers"] != 0.0 {
		t.Errorf("the row without takers is %v", row)
	}
	if row := open(t, nil).snap("view=queues&ref=bWFpbA").Rows[0]; row["takers"] != nil {
		t.Errorf("where takers are unknown the row is %v", row)
	}
}

// TestOneName: ref asks for the rows of one name, though others contain it and the scan has not found it yet.
func TestOneName(t *testing.T) {
	p := open(t, nil)
	locks, err := lock.New(p.client, lock.Options{})
	must(t, err)
	for _, name := range []string{"a", "aa", "b"} {
		_, err = locks.Acquire(t.Context(), name)
		must(t, err)
	}
	if s := p.snap("view=locks&ref=YQ"); len(s.Rows) != 1 || s.Rows[0]["name"] != "a" || s.Next != "" {
		t.Errorf("the rows of a are %v", s.Rows)
	}
	for query, want := range map[string]string{
		"view=locks&page=x!":            `page is "x!"; want next of the page before`,
		"view=locks&page=OQ":            "want next of the page before", // the tenth kind
		"view=pools&page=MGE":           "the view pools has one page",
		"view=overview&ref=YQ":          "ref names a row of the views bloom, caches, limits, locks, queues, stock",
		"view=locks&ref=YQ&q=a":         "leave q and page out",
		"view=locks&ref=*":              `ref is "*"; want that of a row`,
		"view=nothing":                  "want bloom, caches, engine, limits, locks, overview, pools, queues, stock",
		"range=year":                    "want minute, hour or day",
		"q=" + strings.Repeat("x", 300): "want at most 256",
	} {
		if resp, text := p.do("GET", "/api/snapshot?"+query, "", nil); resp.StatusCode != http.StatusBadRequest || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), want) {
			t.Errorf("%s: %s %s; want 400 and %s", query, resp.Status, text, want)
		}
	}
}

// may is a user with the rights that a function gives.
type may func(args ...string) bool

func (m may) Login(string, string) (dashboard.User, bool) { return m, true }
func (m may) Open() dashboard.User                        { return m }
func (m may) Name() string                                { return "default" }
func (m may) May(args ...string) bool                     { return m(args...) }
func (m may) Writes() bool                                { return false }

// Promise: The dashboard shows the arguments of slow commands only to users who may SLOWLOG GET.
func TestSlowCommandsNeedTheRight(t *testing.T) {
	for allowed, want := range map[bool]string{true: "[SET password hunter2]", false: "[SET]"} {
		p := open(t, func(_ *dashboard.Options, s *dashboard.Source) {
			s.Users = may(func(args ...string) bool { return allowed || args[0] != "SLOWLOG" })
			s.Pool = func() dashboard.Pool {
				return dashboard.Pool{SlowLog: []dashboard.SlowCommand{{ID: 1, Client: "10.0.0.9:1234", Args: []string{"SET", "password", "hunter2"}}}}
			}
		})
		row := p.snap("view=pools").Rows[0]
		slow := row["slowlog"].([]any)[0].(map[string]any)
		if got := fmt.Sprint(slow["args"]); got != want || row["slowArgs"] != allowed || (slow["client"] == "") == allowed {
			t.Errorf("with the right %t: %v of %v", allowed, slow, row["slowArgs"])
		}
	}
}

// TestNoSource: where nothing is open, nobody is told to set a password.
func TestNoSource(t *testing.T) {
	p := open(t, func(o *dashboard.Options, _ *dashboard.Source) {
		o.Exposed = true
		o.Sources = func() []dashboard.Source { return nil }
	})
	for _, path := range []string{"/", "/api/snapshot"} {
		if resp, text := p.do("GET", path, "", nil); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "nothing to show") {
			t.Errorf("%s: %s %s", path, resp.Status, text)
		}
	}
}

// TestEngineOnDisk: the engine tells of its log when that was synced and how often it was compacted.
func TestEngineOnDisk(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Fsync: engine.FsyncAlways})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	p := open(t, func(_ *dashboard.Options, s *dashboard.Source) { s.Client = clienttest.New(t, e, "") })
	if row := p.snap("view=engine").Rows[0]; row["compactions"] != 0.0 || row["lastSyncMs"] == nil {
		t.Errorf("at first the row is %v", row)
	}
	must(t, e.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}).Err)
	must(t, e.Compact(t.Context()))
	if row := p.snap("view=engine").Rows[0]; row["compactions"] != 1.0 || row["lastSyncMs"].(float64) < 0 {
		t.Errorf("then the row is %v", row)
	}
	if row := open(t, nil).snap("view=engine").Rows[0]; row["compactions"] != nil || row["lastSyncMs"] != nil {
		t.Errorf("without a directory the row is %v", row)
	}
}
