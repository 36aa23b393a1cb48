package memcached

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A record has the changes that a pool has told of.
type record struct {
	mu  sync.Mutex
	all []outage.Change
}

func (r *record) told(c outage.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, c)
}

func (r *record) kinds() (kinds []outage.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		kinds = append(kinds, c.Kind)
	}
	return kinds
}

// wait waits until the changes so far are these.
func (r *record) wait(t *testing.T, want ...outage.Kind) {
	t.Helper()
	await.Until(t, within, "the changes", func() bool { return slices.Equal(r.kinds(), want) })
}

// TestOutagesAreTold: one change when a server is lost and one when it is back, with how long,
// however often the pool tries to connect. A server that is missing at the start is lost too.
func TestOutagesAreTold(t *testing.T) {
	var r record
	w := newEnv(t, 1, func(o *Options) { o.OnChange = r.told })
	w.servers[0].Kill()
	r.wait(t, outage.Lost)
	tries := w.Stats().Servers[0].DialFailures
	await.Until(t, within, "more tries to connect", func() bool { return w.Stats().Servers[0].DialFailures > tries+1 })
	w.servers[0].Restart()
	r.wait(t, outage.Lost, outage.Back)

	var missing record
	w.servers[0].Kill()
	other := &env{}
	opts := w.opts
	opts.OnChange = missing.told
	other.open(t, opts)
	missing.wait(t, outage.Lost)
	w.servers[0].Restart()
	missing.wait(t, outage.Lost, outage.Back)
	r.wait(t, outage.Lost, outage.Back, outage.Lost, outage.Back)
	for i, c := range append(slices.Clone(r.all), missing.all...) {
		if c.Server != "s0" || (c.Kind == outage.Lost) != (c.Err != nil) || (c.Kind == outage.Back) != (c.Away > 0) {
			t.Errorf("change %d is %+v", i, c)
		}
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	missing.wait(t, outage.Lost, outage.Back) // the end of a pool is no outage
}

// TestSlowServerIsTold: a server whose answers are late is lost and not up, and it is back once it
// has given all of them.
func TestSlowServerIsTold(t *testing.T) {
	var r record
	w := newEnv(t, 1, func(o *Options) { o.OnChange, o.Timeout, o.DialTimeout = r.told, patient/5, patient })
	up := func() bool { return w.Stats().Servers[0].Up }
	await.Until(t, within, "it is up", up)
	w.servers[0].Pause()
	dial(t, w.addr).send("get k\r\nget k\r\n")
	r.wait(t, outage.Lost)
	await.Until(t, within, "it is not up", func() bool {
		s := w.Stats().Servers[0]
		return !s.Up && s.LastError != ""
	})
	var none record
	opts := w.opts
	opts.OnChange = none.told
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil { // while it connects, which is no outage
		t.Fatal(err)
	}
	none.wait(t)
	w.servers[0].Resume()
	r.wait(t, outage.Lost, outage.Back)
	await.Until(t, within, "it is up", up)
}

// TestEjectionsAreTold: a server that leaves the ring and returns is told of once each, however
// often it is tried meanwhile.
func TestEjectionsAreTold(t *testing.T) {
	var r record
	w := newEnv(t, 2, func(o *Options) { o.OnChange, o.FailureLimit, o.RetryTimeout = r.told, 1, time.Millisecond })
	w.servers[1].Kill()
	r.wait(t, outage.Lost, outage.Ejected)
	tries := w.Stats().Servers[1].DialFailures
	await.Until(t, within, "more tries to connect", func() bool { return w.Stats().Servers[1].DialFailures > tries+1 })
	w.servers[1].Restart()
	r.wait(t, outage.Lost, outage.Ejected, outage.Back, outage.Restored)
	for i, c := range r.all {
		if c.Server != "s1" || (c.Kind == outage.Restored) != (c.Kind != outage.Back && c.Away > 0) {
			t.Errorf("change %d is %+v", i, c)
		}
	}
}
