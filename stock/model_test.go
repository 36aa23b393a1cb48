package stock_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/stock"
)

// A model is what the keys of one item say, in Go.
type model struct {
	total, available, sold int64
	next, tidy             int64
	held                   map[string]held
	over                   map[string]over
}

type held struct{ n, until int64 }

// over is until when an id is remembered, and how it ended; how is 4 when it was
// cancelled without having reserved anything.
type over struct{ until, how int64 }

// due returns the ids of reservations, the next to run out first.
func (m *model) due() []string {
	return slices.SortedFunc(maps.Keys(m.held), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.held[a].until, m.held[b].until), cmp.Compare(a, b))
	})
}

// forget forgets at most n ids whose time is over, the oldest first, once a
// minute.
func (m *model) forget(now int64, n int) {
	minute := time.Minute.Microseconds()
	if m.tidy > now && m.tidy <= now+minute {
		return
	}
	score := func(id string) int64 { return m.over[id].until + m.over[id].how }
	ids := slices.SortedFunc(maps.Keys(m.over), func(a, b string) int { return cmp.Or(cmp.Compare(score(a), score(b)), cmp.Compare(a, b)) })
	ids = slices.DeleteFunc(ids, func(id string) bool { return score(id) > now })
	for _, id := range ids[:min(n, len(ids))] {
		delete(m.over, id)
	}
	m.tidy = now
	if len(ids) < n {
		m.tidy += minute
	}
}

func (m *model) end(id string, now, how int64) {
	delete(m.held, id)
	m.over[id] = over{(now + stock.Remembered.Microseconds()) / 10 * 10, how}
}

// first is when the next reservation runs out, 0 if there is none.
func (m *model) first() int64 {
	if due := m.due(); len(due) > 0 {
		return m.held[due[0]].until
	}
	return 0
}

// back returns what ran out, at most n reservations.
func (m *model) back(now int64, n int) {
	var gone []string
	for _, id := range m.due() {
		if m.held[id].until <= now && len(gone) < n {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		m.available += m.held[id].n
		m.end(id, now, 3)
	}
	if len(gone) > 0 {
		m.next = m.first()
		m.forget(now, max(64, 2*len(gone)))
	}
}

// ended is how an id ended that is still remembered, 0 otherwise.
func (m *model) ended(id string, now int64) int64 {
	if o, ok := m.over[id]; ok && o.until+o.how > now {
		return o.how
	}
	return 0
}

func (m *model) reserve(id string, n, ttl, now int64) wire.Status {
	if h, ok := m.held[id]; ok {
		if h.until <= now {
			m.available += h.n
			m.end(id, now, 3)
			m.forget(now, 64)
			return wire.Expired
		}
		return wire.Reserved
	}
	switch m.ended(id, now) {
	case 1:
		return wire.Committed
	case 2, 4:
		return wire.Cancelled
	case 3:
		return wire.Expired
	}
	if m.next > 0 && m.next <= now {
		m.back(now, int(max(2, n-m.available)))
		m.next = m.first()
	}
	if m.available < n {
		return wire.None
	}
	m.available -= n
	m.held[id] = held{n, now + ttl}
	if m.next == 0 || now+ttl < m.next {
		m.next = now + ttl
	}
	return wire.Reserved
}

func (m *model) settle(id string, how, now int64) wire.Status {
	h, ok := m.held[id]
	if !ok {
		if e := m.ended(id, now); e != 0 {
			return wire.Status(-(e % 4))
		}
		if how == 1 {
			return wire.None
		}
		m.end(id, now, 4)
		m.forget(now, 64)
		return wire.None
	}
	if h.until <= now {
		how = 3
	}
	if how == 1 {
		m.sold += h.n
	} else {
		m.available += h.n
	}
	m.end(id, now, how)
	m.forget(now, 64)
	return wire.Status(-how)
}

// count is add and, with the difference to the total, set.
func (m *model) count(delta, now int64) (short bool) {
	m.back(now, 512)
	if m.available+delta < 0 {
		return true
	}
	m.total += delta
	m.available += delta
	return false
}

// An episode drives one item and its model side by side.
type episode struct {
	*testing.T
	*model

	rng  *rand.Rand
	env  *env
	keys wire.Keys
	name string
	log  []string
}

// The scripts do what the model does, whatever comes in whatever order, and
// however the server's clock is set.
//
// Promise: Available, reserved and sold units together are always the total that was set and
// added.
func TestScriptsFollowTheModel(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		for i := range 5 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				e := &episode{
					T: t, model: &model{held: map[string]held{}, over: map[string]over{}},
					rng: randtest.Rand(t), env: e, name: t.Name(),
				}
				var err error
				e.keys, err = wire.KeysOf(e.env.Client, e.name)
				must(t, err)
				for range 400 {
					e.step()
					e.look()
					if t.Failed() {
						t.Fatalf("the last steps:\n%s", strings.Join(e.log[max(0, len(e.log)-12):], "\n"))
					}
				}
			})
		}
	})
}

func (e *episode) note(format string, args ...any) {
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *episode) do(cmd redoubt.Cmd) redoubt.Reply { return e.env.Client.Do(e.Context(), cmd) }

func (e *episode) step() {
	now := e.env.Clock.Now().UnixMicro()
	id := fmt.Sprint("id", e.rng.IntN(12))
	switch p := e.rng.IntN(100); {
	case p < 40:
		n, ttl := 1+e.rng.Int64N(6), time.Duration(1+e.rng.IntN(60_000_000))*time.Microsecond
		if ttl < time.Millisecond {
			ttl = time.Millisecond
		}
		a, err := wire.ReadAttempt(e.do(wire.ReserveCmd(e.keys, id, n, ttl)))
		must(e, err)
		want := e.reserve(id, n, ttl.Microseconds(), now)
		e.note("reserve %s %d %v: %+v", id, n, ttl, a)
		got := wire.Attempt{Status: want, Left: wire.Shortage{
			Available: e.available, Reserved: e.total - e.available - e.sold, Next: a.Left.Next,
		}}
		switch want {
		case wire.Reserved:
			got.N, got.TTL = e.held[id].n, time.Duration(e.held[id].until-now)*time.Microsecond
		case wire.Expired:
			got.N = e.held[id].n
		case wire.None:
			got.Left.Next = 0
			if len(e.held) > 0 {
				got.Left.Next = time.Duration(e.next-now) * time.Microsecond
			}
		default:
		}
		if a != got {
			e.Errorf("reserve: %+v, want %+v", a, got)
		}
	case p < 55:
		e.settled("commit", id, wire.CommitCmd(e.keys, id), e.settle(id, 1, now))
	case p < 70:
		e.settled("cancel", id, wire.CancelCmd(e.keys, id), e.settle(id, 2, now))
	case p < 76:
		delta := e.rng.Int64N(15) - 5
		e.counted("add", delta, wire.AddCmd(e.keys, delta), e.count(delta, now))
	case p < 80:
		total := e.rng.Int64N(20) + e.sold
		e.counted("set", total, wire.SetCmd(e.keys, total), e.count(total-e.total, now))
	case p < 85:
		kept := *e.model // info changes nothing: look compares the keys with this
		kept.held, kept.over = maps.Clone(e.held), maps.Clone(e.over)
		e.counted("info", 0, wire.InfoCmd(e.keys), e.count(0, now))
		e.model = &kept
	case p < 97:
		d := time.Duration(e.rng.Int64N(int64(20 * time.Second)))
		e.note("%v later", d)
		e.env.Clock.Advance(d)
	case p < 98:
		e.note("an hour later")
		e.env.Clock.Advance(stock.Remembered)
	default:
		d := time.Duration(e.rng.Int64N(int64(30 * time.Second)))
		e.note("the clock is set back by %v", d)
		e.env.Clock.Advance(-d)
	}
}

func (e *episode) settled(what, id string, cmd redoubt.Cmd, want wire.Status) {
	got, err := wire.ReadSettled(e.do(cmd))
	must(e, err)
	e.note("%s %s: %d", what, id, got)
	if got != want {
		e.Errorf("%s: %d, want %d", what, got, want)
	}
}

func (e *episode) counted(what string, n int64, cmd redoubt.Cmd, short bool) {
	c, err := wire.ReadCount(e.do(cmd))
	must(e, err)
	e.note("%s %d: %+v", what, n, c)
	want := wire.Count{Short: short, Info: wire.Info{
		Total: e.total, Available: e.available, Sold: e.sold, Reserved: e.total - e.available - e.sold, Reservations: int64(len(e.held)),
	}}
	if first := e.first(); first > 0 {
		want.Next = time.Duration(first-e.env.Clock.Now().UnixMicro()) * time.Microsecond
	}
	if c != want {
		e.Errorf("%s: %+v, want %+v", what, c, want)
	}
}

// look compares the keys with the model.
func (e *episode) look() {
	e.env.audit(e, e.name)
	hash := e.env.Redis.HGetAll(e.Context(), e.keys[0]).Val()
	for field, want := range map[string]int64{"total": e.total, "available": e.available, "sold": e.sold, "next": e.next, "tidy": e.tidy} {
		if got, _ := strconv.ParseInt(hash[field], 10, 64); got != want {
			e.Errorf("%s is %d, want %d", field, got, want)
		}
		delete(hash, field)
	}
	want := map[string]string{}
	for id, h := range e.held {
		want[":"+id] = fmt.Sprintf("%d%016d", h.n, h.until)
	}
	if !maps.Equal(hash, want) {
		e.Errorf("held: %v, want %v", hash, want)
	}
	ids := map[string]string{}
	for id, o := range e.over {
		ids[":"+id] = fmt.Sprint(o.until + o.how)
	}
	got := map[string]string{}
	for _, z := range e.env.Redis.ZRangeArgsWithScores(e.Context(), redis.ZRangeArgs{Key: e.keys[2], Start: 0, Stop: -1}).Val() {
		got[z.Member.(string)] = fmt.Sprintf("%.0f", z.Score)
	}
	if !maps.Equal(got, ids) {
		e.Errorf("over: %v, want %v", got, ids)
	}
}
