package ratelimit

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
