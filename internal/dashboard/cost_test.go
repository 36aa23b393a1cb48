package dashboard_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/queue"
)

// Promise: One poll of the dashboard costs the back end at most one INFO, ten SCANs of 1,000 keys and one pipeline for each 50 names, however many keys it has.
func TestCostOfAPoll(t *testing.T) {
	p := open(t, nil)
	keys := 1_000_000
	if testing.Short() {
		keys = 100_000
	}
	const queues = 120
	cmds := make([]redoubt.Cmd, 0, 1000)
	for i := 0; i < keys; i++ {
		cmds = append(cmds, redoubt.Cmd{Name: "SET", Keys: []string{"key:" + strconv.Itoa(i)}, Args: []string{""}})
		if len(cmds) == cap(cmds) {
			p.client.Pipeline(t.Context(), cmds)
			cmds = cmds[:0]
		}
	}
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	for i := range queues {
		_, err = jobs.Put(t.Context(), fmt.Sprintf("q%03d", i), "x")
		must(t, err)
	}
	p.conn.counts()
	polls, most := 0, map[string]int{}
	for done := false; !done && polls < 2*keys/10_000+10; polls++ {
		done = p.snap("view=queues").Scan.Done
		n := p.conn.counts()
		for name, count := range n {
			most[name] = max(most[name], count)
		}
	}
	// The sampling of the charts may poll between two counts, too.
	for name, bound := range map[string]int{
		"INFO": 2, "DBSIZE": 2, "SCAN": 2 * 10, "EVALSHA": 50, "pipeline": dashboard.PageRounds,
	} {
		if most[name] > bound {
			t.Errorf("a poll sent %d × %s; want at most %d", most[name], name, bound)
		}
		delete(most, name)
	}
	for name, n := range most {
		if name != "HELLO" {
			t.Errorf("a poll sent %d × %s", n, name)
		}
	}
	s := p.snap("view=queues")
	if s.Counts["queues"] != queues || len(s.Rows) != dashboard.PageRows || s.Scan.Keys < int64(keys) {
		t.Errorf("after %d polls the snapshot has %d queues, %d rows, %+v", polls, s.Counts["queues"], len(s.Rows), s.Scan)
	}
	if least := keys / 20_000; polls < least {
		t.Errorf("%d keys took %d polls; want at least %d", keys, polls, least)
	}
}

// Promise: Browsers that look at the same time share one reading of the back end.
func TestBrowsersShare(t *testing.T) {
	p := open(t, nil)
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	_, err = jobs.Put(t.Context(), "mail", "x")
	must(t, err)
	p.row("queues", "mail")
	p.conn.counts()
	began := time.Now()
	const browsers, turns = 20, 10
	var all sync.WaitGroup
	for range browsers {
		all.Go(func() {
			for range turns {
				if resp, text := p.do("GET", "/api/snapshot?view=queues", "", nil); resp.StatusCode != 200 {
					t.Errorf("%s %s", resp.Status, text)
				}
			}
		})
	}
	all.Wait()
	// One reading for each 0.9 s that it took, and one more at each end.
	readings := int(time.Since(began)/(900*time.Millisecond)) + 2
	if n := p.conn.counts(); n["INFO"] > readings || n["pipeline"] > readings || n["EVALSHA"] > readings {
		t.Errorf("%d snapshots sent %v; want at most %d of each", browsers*turns, n, readings)
	}
}

func TestHistory(t *testing.T) {
	h := dashboard.NewHistory()
	now := time.Now().Add(-20 * time.Minute)
	total := 0.0
	for range 20 * 60 {
		now, total = now.Add(time.Second), total+5
		h.Add(now, map[string]float64{"clients": 3}, map[string]float64{"commands": total})
	}
	for of, want := range map[string]int{"minute": 60, "hour": 39, "day": 1} {
		for name, value := range map[string]float64{"clients": 3, "commands": 5} {
			got := h.Series(of, name)
			if len(got) < want || len(got) > want+2 {
				t.Errorf("%s of %s has %d points; want about %d", name, of, len(got), want)
			}
			for _, v := range got {
				if v != value {
					t.Errorf("%s of %s has the value %v; want %v", name, of, v, value)
					break
				}
			}
		}
	}
	// A counter that begins anew gives no value, and the next one does.
	h.Add(now.Add(time.Second), nil, map[string]float64{"commands": 2})
	h.Add(now.Add(2*time.Second), nil, map[string]float64{"commands": 12})
	if got := h.Series("minute", "commands"); got[len(got)-1] != 10 {
		t.Errorf("after a restart the values are %v", got[len(got)-3:])
	}
}
