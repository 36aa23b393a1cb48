//go:build !linux

package supervise

import "time"

// now reads the wall clock: on every system processes share it, and it advances while the machine sleeps.
// Setting the clock moves deadlines.
func now() instant { return instant(time.Now().UnixNano()) }

// An alarm fires at an instant, or later if the machine slept.
type alarm struct {
	C     chan struct{}
	timer *time.Timer
}

func newAlarm() (*alarm, error) { return &alarm{C: make(chan struct{}, 1)}, nil }

// set replaces the instant. C may still hold an old event: check the clock.
func (a *alarm) set(at instant) error {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(time.Duration(at-now()), func() {
		select {
		case a.C <- struct{}{}:
		default:
		}
	})
	return nil
}

// instantOf converts a time of this process to the shared clock.
func instantOf(t time.Time) instant {
	n := now()
	return n.add(time.Until(t))
}
