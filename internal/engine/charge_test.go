package engine

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// recount walks a value and returns what size says without.
func (v *value) recount() int64 {
	n := v.size()
	switch v.form {
	case formList:
		l := v.asList()
		n -= int64(l.taken)
		for k := l.first; k != nil; k = k.next {
			n += int64(len(k.buf))
		}
	case formHash:
		h := v.asHash()
		n -= h.big().bytes
		if d := h.many(); d != nil {
			d.each(func(e *entry[string]) bool { n += e.bytes(view(e.val)); return true })
		} else {
			h.each(func(name string, f field) bool { n += fieldSize(len(name), len(f.value)); return true })
		}
	case formSet:
		n -= v.asSet().big().bytes
		v.asSet().each(func(m []byte) bool { n += sizeclass.Of(len(m)); return true })
	case formZset:
		z := v.asZset()
		n -= z.tree().bytes
		for at := z.first(); at.ok(); at = at.next() {
			n += sizeclass.Of(len(at.member()))
		}
	default: // one piece, whose size is known
	}
	return n
}

// accounts checks what the engine says of its memory against a walk through
// all of it. Nobody else may use the engine.
func accounts(t testing.TB, e *Engine) {
	t.Helper()
	total := int64(0)
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		for db, ks := range sh.dbs {
			if ks == nil {
				continue
			}
			n := int64(0)
			ks.keys.each(func(it *item) bool {
				if it.val.state != 0 {
					t.Errorf("database %d, %q: state %d after the command", db, it.key, it.val.state)
				}
				n += footprint(it) - it.val.size() + it.val.recount()
				return true
			})
			if n != ks.used {
				t.Errorf("shard %d, database %d: %d bytes are accounted for, and there are %d", i, db, ks.used, n)
			}
			total += n
		}
		sh.mu.Unlock()
	}
	if used := e.memory.used.Load(); used != total {
		t.Errorf("%d bytes are accounted for in all, and there are %d", used, total)
	}
}

// TestAccounts runs random commands, time passing, and wants the accounts to
// be what a walk finds.
func TestAccounts(t *testing.T) {
	more := []string{
		"HPEXPIRE <k> <n> FIELDS 2 <m> <m>", "HSET <k> <m> <v>", "HSET <k> <m> <v>", "HPERSIST <k> FIELDS 1 <m>", "HGETDEL <k> FIELDS 1 <m>", "PEXPIRE <k> 3",
		"SPOP <k>", "SPOP <k> 3", "GET <k>", "HGETALL <k>", "LRANGE <k> 0 -1",
	}
	for name, own := range templates {
		t.Run(name, func(t *testing.T) {
			v, steps := newVocabulary(randtest.Rand(t)), randtest.Watch(t)
			clock := newFakeClock()
			e := open(t, Options{Clock: clock})
			s := e.Session()
			for i := range 3000 {
				list := own
				switch r := v.r.IntN(20); {
				case r < 4:
					list = general
				case r < 8:
					list = more
				}
				if v.r.IntN(300) == 0 {
					list = []string{"FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "SELECT 0"}
				}
				args := v.fill(list[v.r.IntN(len(list))])
				tryStep(steps, s, args)
				if v.r.IntN(10) == 0 {
					clock.advance(time.Duration(v.r.IntN(3000)) * time.Microsecond)
				}
				if i%10 == 0 {
					if accounts(t, e); t.Failed() {
						t.Fatalf("after %s", quote(args))
					}
				}
			}
			run(s, "DISCARD")
			run(s, "FLUSHALL")
			if used := e.memory.used.Load(); used != 0 {
				t.Errorf("%d bytes are left of an empty engine", used)
			}
		})
	}
}

// TestAccountsAreOfWhatIsThere compares the accounts with what Go's allocator
// has handed out.
func TestAccountsAreOfWhatIsThere(t *testing.T) {
	slow.Test(t, "it asks the allocator about 20,000 keys of each kind")
	const keys = 20_000
	for _, c := range []struct{ name, line string }{
		{"short strings", "SET k%d 0123456789"},
		{"strings", "SET key:%d " + xs(300)},
		{"small hashes", "HSET key:%d name 0123456789 email 0123456789abcdef"},
		{"lists", "RPUSH key:%d 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"},
		{"large hash", "HSET one field:%d 0123456789"},
		{"large set", "SADD one member:%d"},
		{"large sorted set", "ZADD one 1 member:%d"},
		{"long list", "RPUSH one element:%d"},
		{"counters", "INCR counter:%d"},
		{"bitmaps", "SETBIT key:%d 4000 1"},
		{"appended", "APPEND key:%d " + xs(100)},
		{"cardinalities", "PFADD key:%d a b c d"},
		{"long names", "SET " + xs(200) + "%d v"},
		{"keys with a time to live", "SET key:%d 0123456789 EX 1000"},
		{"sets of integers", "SADD key:%d 1 2 3 4 5 6 7 8 9 10"},
		{"small sets", "SADD key:%d 0123456789 0123456789abcdef"},
		{"large set of integers", "SADD one %d"},
		{"small sorted sets", "ZADD key:%d 1 0123456789 2.5 0123456789abcdef"},
		{"places", "GEOADD one 13.361389 38.115556 place:%d"},
		{"sets with large members", "SADD key:%d " + xs(100)},
		{"sorted sets with large members", "ZADD key:%d 1 " + xs(100)},
		{"hashes with large values", "HSET key:%d f " + xs(300)},
		{"large values of a hash", "HSET one field:%d " + xs(300)},
		{"long elements", "RPUSH key:%d " + xs(5000)},
		{"fields with a time to live", "HSETEX one EX 1000 FIELDS 1 field:%d 0123456789"},
		{"small hashes with a time to live", "HSETEX key:%d EX 1000 FIELDS 2 name 0123456789 email 0123456789abcdef"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := open(t, Options{Clock: newFakeClock()}) // whose timers keep no engine alive
			s := e.Session()
			before := liveBytes() // an empty engine counts nothing
			for i := range keys {
				s.Do(nil, split(sprint(c.line, i)))
			}
			live := liveBytes() - before
			used := e.memory.used.Load()
			t.Logf("%d bytes accounted for, %d live: %.2f", used, live, float64(live)/float64(used))
			if used > live*5/4 || live > used*5/4 {
				t.Errorf("%d bytes are accounted for, and %d are live", used, live)
			}
		})
	}
}
