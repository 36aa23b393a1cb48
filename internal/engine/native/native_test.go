package native_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	bitmapwire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
	bloomwire "github.com/redoubt-go/redoubt/internal/wire/bloom"
	geowire "github.com/redoubt-go/redoubt/internal/wire/geo"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
	ratelimitwire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	stockwire "github.com/redoubt-go/redoubt/internal/wire/stock"
	ttlhashwire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// A manual clock is moved by the test.
type manual struct {
	mu  sync.Mutex
	now time.Time
}

func (c *manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manual) move(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}

// AfterFunc never fires: keys expire when they are looked at.
func (*manual) AfterFunc(time.Duration, func()) engine.Timer { return idle{} }

type idle struct{}

func (idle) Stop() bool { return true }

// A journal keeps what would be logged.
type journal struct{ b bytes.Buffer }

func (j *journal) Append(e engine.Effect) {
	for _, args := range e.Commands {
		fmt.Fprintf(&j.b, "%d %q\n", e.DB, args)
	}
	fmt.Fprintf(&j.b, "%q\n", e.Keys)
}

// A side is an engine, with a subscriber of some channels.
type side struct {
	s       *engine.Session
	journal journal
	pushed  bytes.Buffer
	events  bytes.Buffer
	used    map[string]int // how often a function did the work, by digest
}

func newSide(t testing.TB, clock *manual, natives map[string]engine.Native) *side {
	t.Helper()
	sd := &side{used: map[string]int{}}
	counted := map[string]engine.Native{}
	for digest, f := range natives {
		counted[digest] = func(tx *engine.Tx) bool {
			done := f(tx)
			if done {
				sd.used[digest]++
			}
			return done
		}
	}
	e, err := engine.New(engine.Options{Clock: clock, Natives: counted, Journal: &sd.journal, Events: func(ev engine.Event) {
		fmt.Fprintf(&sd.events, "%c %s %d %q\n", ev.Class, ev.Name, ev.DB, ev.Key)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	sd.s = e.Session()
	sub := e.Session()
	sub.OnPush(func(frame []byte) { sd.pushed.Write(frame) })
	sub.Do(nil, [][]byte{[]byte("SUBSCRIBE"), []byte("ch1")})
	sub.Do(nil, [][]byte{[]byte("SSUBSCRIBE"), []byte("ch2")})
	for _, sc := range scripts() {
		sd.do("SCRIPT", "LOAD", sc.Source())
	}
	return sd
}

func (sd *side) do(args ...string) string {
	a := make([][]byte, len(args))
	for i := range args {
		a[i] = []byte(args[i])
	}
	out, _ := sd.s.Do(nil, a)
	return string(out)
}

// hash returns what is in a hash, whose order is not defined; nil for what is
// none.
func (sd *side) hash(t testing.TB, key string) map[string]string {
	t.Helper()
	v, _, err := resp.Parse([]byte(sd.do("HGETALL", key)))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := v.([]any)
	h := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		h[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return h
}

// both runs the same on two engines; one has the functions.
type both struct {
	clock     *manual
	lua, goes *side
	flip      bool
}

func newBoth(t testing.TB) *both {
	t.Helper()
	b := &both{clock: &manual{now: time.Unix(1_732_147_200, 123_456_000)}}
	b.lua = newSide(t, b.clock, nil)
	b.goes = newSide(t, b.clock, native.All())
	return b
}

// do runs a command on both and wants the same reply, the same log, the same
// messages, and the same state of the keys given.
func (b *both) do(t testing.TB, keys []string, args ...string) {
	t.Helper()
	// Every other command in RESP3, in which more replies differ.
	b.flip = !b.flip
	for _, sd := range []*side{b.goes, b.lua} {
		sd.s.SetProtocol(resp.RESP2)
		if b.flip {
			sd.s.SetProtocol(resp.RESP3)
		}
	}
	got, want := b.goes.do(args...), b.lua.do(args...)
	b.goes.s.SetProtocol(resp.RESP2)
	b.lua.s.SetProtocol(resp.RESP2)
	if got != want {
		t.Fatalf("%q\n is %q\nlua %q", args, got, want)
	}
	for what, of := range map[string]func(*side) *bytes.Buffer{
		"logged":    func(sd *side) *bytes.Buffer { return &sd.journal.b },
		"published": func(sd *side) *bytes.Buffer { return &sd.pushed },
		"notified":  func(sd *side) *bytes.Buffer { return &sd.events },
	} {
		if g, l := of(b.goes).String(), of(b.lua).String(); g != l {
			t.Fatalf("%q %s\n   %q\nlua %q", args, what, g, l)
		}
		of(b.goes).Reset()
		of(b.lua).Reset()
	}
	for _, k := range keys {
		for _, look := range [][]string{{"TYPE", k}, {"GET", k}, {"PEXPIRETIME", k}, {"ZRANGE", k, "0", "-1", "WITHSCORES"}} {
			if g, l := b.goes.do(look...), b.lua.do(look...); g != l {
				t.Fatalf("after %q, %q\n is %q\nlua %q", args, look, g, l)
			}
		}
		if g, l := b.goes.hash(t, k), b.lua.hash(t, k); !maps.Equal(g, l) {
			t.Fatalf("after %q %q\n is %q\nlua %q", args, k, g, l)
		}
	}
}

func scripts() []*redoubt.Script {
	return slices.Concat(bitmapwire.Scripts(), bloomwire.Scripts(), geowire.Scripts(), lockwire.Scripts(), queuewire.Scripts(),
		ratelimitwire.Scripts(), stockwire.Scripts(), ttlhashwire.Scripts())
}

func script(name string) *redoubt.Script {
	for _, sc := range scripts() {
		if sc.Name() == name {
			return sc
		}
	}
	panic("no script " + name)
}

type picker struct{ *rand.Rand }

func (p picker) of(words ...string) string { return words[p.IntN(len(words))] }

func (p picker) one(in int) bool { return p.IntN(in) == 0 }

// pick is picker.of for anything.
func pick[T any](p picker, of ...T) T { return of[p.IntN(len(of))] }

// odd is an argument that is no ordinary integer.
func (p picker) odd() string {
	return p.of("", "x", "1.5", "-1", "0", "01", "-0", " 5", "1e3", "0x10", "9007199254740993", "99999999999999999999", "-99999999999999999999", "nan", "inf", "2251799813685248")
}

func (p picker) number(n int64) string {
	if p.one(25) {
		return p.odd()
	}
	return fmt.Sprint(p.Int64N(n))
}

// A history makes random calls of the scripts that have a function, and what else
// may befall their keys.
type history struct {
	next     func(p picker, key string) [][]string
	suffixes []string // of the keys of one name
	steps    int      // what is compared after each differs in size
}

var histories = map[string]history{
	"lock":        {picker.lock, []string{""}, 20000},
	"gcra":        {picker.gcra, []string{""}, 20000},
	"stock":       {picker.stock, stockKeys, 6000},
	"window":      {picker.window, []string{""}, 6000},
	"quota":       {picker.quota, []string{""}, 8000},
	"semaphore":   {picker.semaphore, semaphoreKeys, 3000},
	"rwmutex":     {picker.rwmutex, rwmutexKeys, 4000},
	"queue":       {picker.queue, queueKeys, 2000},
	"bloom":       {picker.bloom, bloomKeys, 3000},
	"ttlhash":     {picker.ttlhash, ttlhashKeys, 4000},
	"bitmap":      {picker.bitmap, []string{""}, 4000},
	"record":      {picker.record, []string{""}, 4000},
	"geo":         {picker.geo, geoKeys, 3000},
	"concurrency": {picker.concurrency, []string{""}, 8000},
}

// pause stands for a command: it moves the clock by a second.
const pause = "pause"

// keysOf returns the keys of a name.
func keysOf(name string, suffixes []string) (keys []string) {
	for _, s := range suffixes {
		keys = append(keys, name+s)
	}
	return keys
}

// TestSameAsLua holds each function identical to its Lua: reply, log, messages,
// keyspace events, what the key is and for how long. Each of them must have
// done a quarter of the calls itself: the histories below leave them between a
// third and seven eighths. With the race detector, which has nothing to find in a
// history of one goroutine, they are short.
func TestSameAsLua(t *testing.T) {
	var mu sync.Mutex
	used, called := map[string]int{}, map[string]int{}
	t.Run("histories", func(t *testing.T) {
		for name, h := range histories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p, watched := picker{randtest.Rand(t)}, randtest.Watch(t)
				b := newBoth(t)
				calls, steps := map[string]int{}, h.steps
				if slow.Race {
					steps /= 16
				}
				for range steps {
					key := p.of("{k}1", "{k}2", "k3")
					b.clock.move(time.Duration(p.IntN(4)*p.IntN(400_000)) * time.Microsecond)
					if p.one(500) {
						b.clock.move(-2 * time.Second)
					}
					for _, args := range h.next(p, key) {
						keys := keysOf(key, h.suffixes)
						watched.Begin(func() string { return fmt.Sprintf("%q", args) })
						if args[0] == pause {
							b.clock.move(time.Second)
							continue
						}
						b.do(t, keys, args...)
						if args[0] == "EVALSHA" {
							calls[args[1]]++
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for digest, n := range calls {
					called[digest] += n
					used[digest] += b.goes.used[digest]
				}
			})
		}
	})
	least := 1000
	if slow.Race {
		least = 50
	}
	for digest := range native.All() {
		if n := called[digest]; n < least || used[digest] < n/4 {
			t.Errorf("the function of %s did %d of %d calls, want at least a quarter of at least %d", digest, used[digest], n, least)
		}
	}
}

// fuzzed are the scripts that have a function, and the keys of each.
func fuzzed() map[string][]string {
	of := map[string][]string{
		"stock.reserve": stockKeys, "stock.settle": stockKeys, "bloom.add": bloomKeys, "ttlhash.set": ttlhashKeys, "geo.put": geoKeys,
		"lock.sem_acquire": semaphoreKeys, "lock.sem_release": semaphoreKeys, "lock.rw_read": rwmutexKeys, "lock.rw_release": rwmutexKeys,
		"queue.put": queueKeys[:7], "queue.pump": queueKeys,
	}
	for _, sc := range scripts() {
		if native.All()[sc.Digest()] != nil && of[sc.Name()] == nil {
			of[sc.Name()] = []string{""}
		}
	}
	return of
}

// TestSameAsLuaWhenWritesAreRefused: where Lua gets an error for its first write, or for one that needs memory, so does the
// caller of a function, also when that has nothing to change.
func TestSameAsLuaWhenWritesAreRefused(t *testing.T) {
	for setting, values := range map[string][2]string{"min-replicas-to-write": {"1", "0"}, "maxmemory": {"1", "0"}} {
		for name, h := range histories {
			t.Run(setting+"/"+name, func(t *testing.T) {
				t.Parallel()
				p, watched := picker{randtest.Rand(t)}, randtest.Watch(t)
				b, steps := newBoth(t), 1200
				if slow.Race {
					steps /= 10
				}
				for step := range steps {
					key := p.of("{k}1", "{k}2", "k3")
					b.clock.move(time.Duration(p.IntN(400_000)) * time.Microsecond)
					if step%20 == 0 { // refused for a while, and then allowed
						b.do(t, nil, "CONFIG", "SET", setting, values[step/20%2])
					}
					for _, args := range h.next(p, key) {
						watched.Begin(func() string { return fmt.Sprintf("%q", args) })
						if args[0] == pause {
							b.clock.move(time.Second)
							continue
						}
						b.do(t, keysOf(key, h.suffixes), args...)
					}
				}
			})
		}
	}
}

func FuzzSameAsLua(f *testing.F) {
	known := fuzzed()
	for name := range known {
		f.Add(name, "id", "1000", "61000", "", "PUBLISH ch1", "0", uint8(6))
	}
	f.Add("lock.release", "id", "PUBLISH ch1", "1", "", "", "", uint8(3))
	f.Add("lock.extend", "id", "1000", "61000", "", "", "", uint8(3))
	f.Add("lock.sem_acquire", "=id", "1000", "label", "", "3", "", uint8(5))
	f.Add("lock.sem_release", "=id", "", "0", "3", "", "", uint8(4))
	f.Add("lock.rw_read", "id", "1000", "label", "", "group", "", uint8(5))
	f.Add("lock.rw_release", "id", "", "0", "", "", "", uint8(3))
	f.Add("ratelimit.gcra", "0", "0", "0", "1000000", "1", "0", uint8(6))
	f.Add("ratelimit.window", "1", "1", "2", "1000000", "", "", uint8(4))
	f.Add("ratelimit.enter", "id", "1000", "2", "", "", "", uint8(3))
	f.Add("ratelimit.stay", "id", "1000", "", "", "", "", uint8(2))
	f.Add("stock.reserve", ":id", "1", "1000", "1000", "", "", uint8(4))
	f.Add("stock.settle", ":id", "1", "1000", "", "", "", uint8(3))
	f.Add("queue.put", "id", "0", "0", "\x02\x00\x0amessage", "", "", uint8(4))
	f.Add("queue.pump", "take000000000001", "1", "30000", "0", "0", "0", uint8(6))
	f.Add("bloom.add", "16", "0", "0", "0", "1", "\x07\x00\x00\x00", uint8(6))
	f.Add("ttlhash.set", "1", "0", "any", "field", "value", "1000", uint8(6))
	f.Add("bitmap.map_set", "1", "1", "0", "7", "", "", uint8(4))
	f.Add("bitmap.record_update", "1000", "INCRBY", "u8", "0", "1", "", uint8(5))
	f.Add("geo.put", "m", "5", "", "", "", "", uint8(2))
	b := newBoth(f)
	f.Fuzz(func(t *testing.T, name, a1, a2, a3, a4, a5, a6 string, n uint8) {
		keys := keysOf("k", known[name])
		args := []string{a1, a2, a3, a4, a5, a6}
		switch {
		case keys == nil:
			return
		case strings.HasPrefix(name, "bitmap.") && slices.ContainsFunc(args, func(a string) bool { return len(a) > 6 }):
			return // an offset that is far away takes a large string
		case strings.HasPrefix(name, "stock."):
			b.do(t, keys, slices.Concat([]string{"EVALSHA", script("stock.count").Digest(), "3"}, keys, []string{"set", "5", "1000", "1000"})...)
		case name == "geo.put":
			b.do(t, keys, "ZADD", keys[1], "1", a1)
		case name == "bloom.add":
			b.do(t, keys, "SET", keys[0], strings.Repeat("\x00", 16))
			near := []byte(a6)
			for i := range near {
				near[i] &= byte(0xff >> (8 * (i % 4 / 2))) // as above
			}
			args[5] = string(near)
		}
		call := slices.Concat([]string{"EVALSHA", script(name).Digest(), fmt.Sprint(len(keys))}, keys, args[:min(int(n), 6)])
		watched := randtest.Watch(t)
		watched.Begin(func() string { return fmt.Sprintf("%q", call) })
		for range 2 {
			b.do(t, keys, call...)
			b.clock.move(300 * time.Microsecond)
		}
		b.do(t, nil, append([]string{"DEL"}, keys...)...)
	})
}
