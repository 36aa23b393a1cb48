package ratelimit

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// maxDeny is how long a refusal is remembered at most. It bounds how long the refusal may be
// wrong after another process has given tokens back or changed the limits.
const maxDeny = time.Second

// maxDenials is how many refusals a Client remembers.
const maxDenials = 1 << 14

// denials remembers refusals, for all Limiters of a Client. Only a call that gives tokens
// back moves a TAT back. So until a refused call would be allowed, any call for as many
// tokens or more is refused too.
type denials struct {
	seed maphash.Seed
	// back counts the calls of this process that give tokens back or change limits, by
	// the hash of the name. An answer that such a call has overtaken is not remembered.
	back [256]atomic.Uint64

	mu    sync.Mutex
	known map[string][]denial // by name
}

// A denial is valid for one scope, by the way to make keys of names, and for one set of
// limits: a Limiter with others asks the server.
type denial struct {
	keys, limits string
	terms        *wire.Terms
	outcome      wire.Outcome
	n            int64
	sent, until  time.Time
}

// maxDenialsOfName is how many sets of limits a name may have.
const maxDenialsOfName = 4

type denialsKey struct{}

func denialsOf(c *redoubt.Client) *denials {
	return c.Shared(denialsKey{}, func() any {
		return &denials{seed: maphash.MakeSeed(), known: map[string][]denial{}}
	}).(*denials)
}

func (d *denials) counter(name string) *atomic.Uint64 {
	return &d.back[maphash.String(d.seed, name)%uint64(len(d.back))]
}

// given returns a number that changes when this process gives tokens of name back.
func (d *denials) given(name string) uint64 { return d.counter(name).Load() }

// denied returns the known refusal of a call, if there is one. It makes no key of the name,
// and allocates nothing.
func (l *Limiter) denied(name string, n int) (Decision, bool) {
	if l.denyFor == 0 || n == 0 {
		return Decision{}, false
	}
	now := time.Now()
	l.denials.mu.Lock()
	i, r := l.denials.find(name, l.keysID(), l.limitsID)
	l.denials.mu.Unlock()
	if i < 0 || int64(n) < r.n || !now.Before(r.until) {
		return Decision{}, false
	}
	return decision(r.terms.Refuse(r.outcome, int64(n), now.Sub(r.sent))), true
}

// find returns the denial and its index among the denials of the name, or -1. d.mu is
// held.
func (d *denials) find(name, keys, limits string) (int, denial) {
	for i, r := range d.known[name] {
		if r.keys == keys && r.limits == limits {
			return i, r
		}
	}
	return -1, denial{}
}

// remember keeps the refusal that an answer implies for later calls: the call was refused,
// or took the last token.
func (l *Limiter) remember(c *caller, t *wire.Terms, o wire.Outcome, d Decision, sent time.Time, given uint64) {
	if l.denyFor == 0 || c.n == 0 {
		return
	}
	m := l.denials
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given(c.name) != given {
		return
	}
	i, old := m.find(c.name, l.keysID(), l.limitsID)
	least := int64(c.n)
	if d.Allowed {
		least = 1
	}
	if i >= 0 && sent.Before(old.until) && slices.Equal(old.terms.Limits, t.Limits) && (d.Allowed && d.Remaining > 0 || old.n < least) {
		least = old.n // refused still, by what the server says now
	}
	if int64(d.Remaining) >= least {
		return
	}
	after, _ := t.Retry(o, least)
	if after == Never || after > l.denyFor {
		after = l.denyFor
	}
	r := denial{l.keysID(), l.limitsID, t, o, least, sent, sent.Add(after)}
	switch all := m.known[c.name]; {
	case i >= 0:
		all[i] = r
	case len(all) >= maxDenialsOfName:
		all[0] = r
	default:
		if len(m.known) >= maxDenials && all == nil {
			m.makeRoom(sent)
		}
		m.known[c.name] = append(all, r)
	}
}

// makeRoom drops names with outdated refusals among 64 names, or else one of them: a dropped
// refusal costs a round trip. d.mu is held.
func (d *denials) makeRoom(now time.Time) {
	looked, dropped := 0, 0
	for name, all := range d.known {
		looked++
		if !slices.ContainsFunc(all, func(r denial) bool { return now.Before(r.until) }) {
			delete(d.known, name)
			dropped++
		}
		if looked == 64 {
			if dropped == 0 {
				delete(d.known, name)
			}
			return
		}
	}
}

// forget drops the refusals of name, after a call that gave tokens back or changed limits,
// or may have done so.
func (d *denials) forget(name string) {
	d.counter(name).Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, name)
}
