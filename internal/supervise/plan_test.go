package supervise

import (
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	const s = instant(time.Second)
	fresh := plan{grace: 5 * time.Second, margin: time.Second, deadline: 100 * s}
	with := func(change func(*plan)) plan { p := fresh; change(&p); return p }
	for _, c := range []struct {
		name string
		plan plan
		now  instant
		do   action
		next instant
	}{
		{"leaves it while there is time", fresh, 10 * s, leave, 94 * s},
		{"asks it to end when grace and margin are left", fresh, 94 * s, term, 99 * s},
		{"cuts the grace when it wakes late", fresh, 97 * s, term, 99 * s},
		{"kills when the margin is left", fresh, 99 * s, kill, 0},
		{"kills when it wakes after the deadline", fresh, 200 * s, kill, 0},
		{"waits for the grace", with(func(p *plan) { p.termedAt = 94 * s }), 95 * s, leave, 99 * s},
		{"kills after the grace", with(func(p *plan) { p.termedAt = 94 * s }), 99 * s, kill, 0},
		{"keeps to the grace when a renewal comes too late",
			with(func(p *plan) { p.termedAt = 94 * s; p.deadline = 130 * s }), 95 * s, leave, 99 * s},
		{"has no grace for a lost lease", with(func(p *plan) { p.lost = true }), 10 * s, kill, 0},
		{"asks it to end when orphaned", with(func(p *plan) { p.orphaned = true }), 10 * s, term, 15 * s},
		{"ends an orphan before the deadline", with(func(p *plan) { p.orphaned = true }), 96 * s, term, 99 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			do, next := c.plan.step(c.now)
			if do != c.do || next != c.next {
				t.Errorf("step = %v, %v; want %v, %v", do, time.Duration(next), c.do, time.Duration(c.next))
			}
		})
	}
}

func TestTimes(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 30 * time.Second, time.Minute, time.Hour} {
		d := DefaultTimes(ttl)
		// The renewals at a third and at two thirds must come before SIGTERM, even with the allowance of
		// one part in a hundred for drift.
		if first := ttl - ttl/100 - d.Margin - d.Grace; first <= ttl*2/3 {
			t.Errorf("ttl %v: SIGTERM after %v, before the second renewal", ttl, first)
		}
		if d.Margin <= 0 || d.Grace <= 0 || d.Poll <= 0 || d.Poll > d.Margin+d.Grace {
			t.Errorf("ttl %v: %+v", ttl, d)
		}
	}
	d := DefaultTimes(30 * time.Second)
	if _, err := d.WithGrace(15*time.Second, 30*time.Second); err == nil {
		t.Error("a grace of half the TTL was accepted")
	}
	if _, err := d.WithGrace(-1, 30*time.Second); err == nil {
		t.Error("a negative grace was accepted")
	}
	if d, err := d.WithGrace(0, 30*time.Second); err != nil || d.Grace != 0 {
		t.Errorf("WithGrace(0) = %+v, %v", d, err)
	}
}
