package ratelimit

import "github.com/redoubt-go/redoubt"

// Queued returns how many callers wait for a call that is under way.
func Queued(l *Limiter) (n int) {
	l.flights.mu.Lock()
	defer l.flights.mu.Unlock()
	for _, f := range l.flights.of {
		n += len(f.queue)
	}
	return n
}

// Flights returns how many keys have calls under way.
func Flights(l *Limiter) int {
	l.flights.mu.Lock()
	defer l.flights.mu.Unlock()
	return len(l.flights.of)
}

// MaxDenials is how many names are remembered as refused.
const MaxDenials = maxDenials

// Denials returns how many names are.
func Denials(c *redoubt.Client) int {
	d := denialsOf(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.known)
}
