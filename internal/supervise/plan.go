package supervise

import "time"

// An instant is a time in nanoseconds on a clock that all processes of the machine share: see now.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }

// An action is what the guard must do to the command.
type action int

const (
	leave action = iota // do nothing until the returned instant
	term                // ask it to end
	kill                // kill it and all its descendants
)

// A plan decides when the guard sends SIGTERM and SIGKILL. It sends no signal itself.
type plan struct {
	grace, margin time.Duration
	deadline      instant // of the lease
	orphaned      bool    // redoubt is gone, so nothing renews the lease
	lost          bool    // the lease is known to be gone
	termedAt      instant // when SIGTERM was sent; 0: not yet
}

// step returns the action at now and, with leave and term, when to call step again.
func (p *plan) step(now instant) (action, instant) {
	killAt := p.deadline.add(-p.margin)
	if p.termedAt != 0 {
		// A renewal after SIGTERM comes too late: the command is ending.
		killAt = min(killAt, p.termedAt.add(p.grace))
	}
	if p.lost || now >= killAt {
		return kill, 0
	}
	if p.termedAt != 0 {
		return leave, killAt
	}
	termAt := killAt.add(-p.grace)
	if p.orphaned || now >= termAt {
		p.termedAt = now
		return term, min(killAt, now.add(p.grace))
	}
	return leave, termAt
}

// ending reports whether the command is being ended because of the lease.
func (p *plan) ending() bool { return p.lost || p.termedAt != 0 }
