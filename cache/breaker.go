package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// A breaker stops calls for a while after several failures in a row. Then it lets one call at a
// time try until one succeeds.
type breaker struct {
	limit int // failures in a row; 0: never breaks
	rest  time.Duration

	failed atomic.Int64 // written with mu held; all calls read it; mostly 0
	mu     sync.Mutex
	until  time.Time // when the next call may try
}

// allow reports whether a call may be made. The caller must call done after it.
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
	b.until = now.Add(b.rest) // this call tries, the others wait
	return true
}

// done notes whether a call succeeded.
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
