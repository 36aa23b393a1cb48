// Package budget bounds the memory of all clients of a process together: incomplete commands,
// transactions, replies that are being made, and replies and messages that wait.
//
// Each client has a [Share] of a [Budget], and a [Part] for each of its buffers. When a buffer
// needs to grow and no room is left, the Budget disconnects the client with the most memory, as
// Redis does with maxmemory-clients. If that would be the same client, [Part.Hold] reports false
// instead, and the caller can refuse the client's command.
package budget

import (
	"math"
	"sync"
	"sync/atomic"
)

// Default is the limit of a Budget in bytes if none is given.
const Default = 1 << 30

// step is the unit in which parts are counted: a change within a step costs nothing. A part
// of less than a step counts as empty, so that a short reply is never refused.
const step = 4 << 10

// A Budget bounds the bytes of all clients together. Its methods may be called by many
// goroutines at once.
type Budget struct {
	limit   int64
	clients atomic.Int64

	mu     sync.Mutex
	used   int64
	peak   int64
	most   int64               // an upper bound of all shares, which mostly saves a search
	shares map[*Share]struct{} // shares with bytes, until they end
	ended  uint64
}

// New returns a Budget of limit bytes; 0 means [Default], and less than 0 no limit.
func New(limit int64) *Budget {
	switch {
	case limit == 0:
		limit = Default
	case limit < 0:
		limit = math.MaxInt64
	}
	return &Budget{limit: limit, shares: map[*Share]struct{}{}}
}

// Stats are counters of a [Budget].
type Stats struct {
	Clients int64  // with a share
	Used    int64  // bytes now
	Peak    int64  // bytes, the most so far
	Limit   int64  // bytes
	Ended   uint64 // clients that were disconnected because they had the most
}

// Stats returns the counters now.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Clients: b.clients.Load(), Used: b.used, Peak: b.peak, Limit: b.limit, Ended: b.ended}
}

// A Share is what one client has. Make it by [Share.Join].
type Share struct {
	budget *Budget
	end    func()
	over   atomic.Bool // ended, or left: no longer among the budget's shares
	left   atomic.Bool

	used int64 // guarded by the Budget's mu
}

// Join makes s an empty share of b. end disconnects the client; the Budget calls it at most
// once, on a new goroutine. Call Leave when the client is gone.
func (s *Share) Join(b *Budget, end func()) {
	s.budget, s.end = b, end
	b.clients.Add(1)
}

// Leave gives back all that s has. No Part of it may grow any more.
func (s *Share) Leave() {
	if s.budget == nil || s.left.Swap(true) {
		return
	}
	s.budget.clients.Add(-1)
	s.budget.mu.Lock()
	s.budget.drop(s)
	s.budget.mu.Unlock()
}

// Used returns how many bytes s has now.
func (s *Share) Used() int64 {
	if s.budget == nil {
		return 0
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.used
}

// drop forgets a share. The caller holds mu.
func (b *Budget) drop(s *Share) {
	if !s.over.Swap(true) {
		b.used -= s.used
		delete(b.shares, s)
	}
}

// A Part is one of a client's buffers. It is for one goroutine at a time.
type Part struct {
	share *Share
	has   int64
}

// Of makes p a part of s.
func (p *Part) Of(s *Share) { p.share = s }

// Hold sets the size of p to n bytes. It reports false when there is no room for them: then p
// keeps its size, and the client must not take more memory.
func (p *Part) Hold(n int) bool {
	want := int64(n) / step * step
	if want == p.has || p.share == nil {
		return true
	}
	s := p.share
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.over.Load() {
		return want < p.has // it is being disconnected
	}
	more := want - p.has
	if more > 0 && !b.room(s, more) {
		return false
	}
	p.has = want
	b.used += more
	s.used += more
	b.most = max(b.most, s.used)
	b.peak = max(b.peak, b.used)
	if s.used == 0 {
		delete(b.shares, s)
	} else {
		b.shares[s] = struct{}{}
	}
	return true
}

// room makes room for more bytes of s. The caller holds mu.
func (b *Budget) room(s *Share, more int64) bool {
	for b.used+more > b.limit {
		if s.used+more >= b.most {
			return false
		}
		var most *Share
		for o := range b.shares {
			if most == nil || o.used > most.used {
				most = o
			}
		}
		if most == nil {
			return false
		}
		if b.most = most.used; most == s || s.used+more >= b.most {
			return false
		}
		b.drop(most) // what it has is as good as free
		b.ended++
		go most.end()
	}
	return true
}
