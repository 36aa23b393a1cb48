package dashboard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/queue"
)

// Promise: A scrape of the metrics costs the back end at most ten SCANs of 1,000 keys a second and one pipeline for each 50 names that it shows, and scrapes within a few seconds share one reading.
func TestCostOfAScrape(t *testing.T) {
	p := open(t, nil)
	const queues, most = 70, 60
	jobs, err := queue.New[string](p.client, queue.Options{})
	must(t, err)
	for i := range queues {
		_, err = jobs.Put(t.Context(), fmt.Sprintf("q%03d", i), "x")
		must(t, err)
	}
	w := dashboard.NewWatcher(p.client, nil, most)
	defer func() { must(t, w.Close()) }()
	p.conn.counts()
	var st dashboard.State
	readings := 0
	await.Until(t, time.Minute, "all queues are found", func() bool {
		at := st.At
		st = w.Read()
		if !st.At.Equal(at) {
			readings++
		}
		return st.Scanned && len(st.Queues) == most
	})
	n := p.conn.counts()
	if n["pipeline"] > 2*readings || n["SCAN"] == 0 {
		t.Errorf("%d readings sent %v", readings, n)
	}
	if st.Names["queues"] != queues || st.Queues[0].Name != "q000" || st.Queues[0].Ready != 1 {
		t.Errorf("the state is %+v", st)
	}
	for range 100 {
		w.Read()
	}
	if n := p.conn.counts(); n["pipeline"] > 2 {
		t.Errorf("a hundred scrapes sent %v", n)
	}
	must(t, w.Close())
	if after := w.Read(); !after.At.Equal(st.At) && after.At.IsZero() {
		t.Errorf("after Close, the state is %+v", after)
	}
}
