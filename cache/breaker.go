package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// A breaker leaves alone what has failed several times in a row, for a while, and then
// lets one call after the other try until one succeeds.
type breaker struct {
	limit int // failures in a row; 0: never breaks
	rest  time.Duration

	failed atomic.Int64 // written with mu held; all calls read it, and mostly it is 0
	mu     sync.Mutex
	until  time.Time // when the next may try
}

// allow reports whether a call may be made. A call that was allowed must be followed
// by done.
func (b *breaker) allow() bool {
	if b.limit == 0 || b.failed.Load() < int64(b.limit) {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed.Load() < int64(b.limit) {
		return true
	}
	now := time.Now()
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(b.rest) // this one tries, the others wait for it
	return true
}

// done tells how a call went.
func (b *breaker) done(ok bool) {
	if b.limit == 0 || ok && b.failed.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		b.failed.Store(0)
		return
	}
	if b.failed.Add(1) >= int64(b.limit) {
		b.until = time.Now().Add(b.rest)
	}
}
