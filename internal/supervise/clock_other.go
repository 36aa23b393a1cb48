//go:build !linux

package supervise

import "time"

// now reads the wall clock: the one clock that processes share everywhere and
// that goes on while the machine sleeps. A step of it moves deadlines.
func now() instant { return instant(time.Now().UnixNano()) }

// An alarm fires at an instant. Where the machine slept it is late.
type alarm struct {
	C     chan struct{}
	timer *time.Timer
}

func newAlarm() (*alarm, error) { return &alarm{C: make(chan struct{}, 1)}, nil }

// set replaces what was set before. A stale firing may still be in C: ask the
// clock.
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
