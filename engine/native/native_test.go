package native_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/engine/native"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/ratelimit"
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
	used    int // how often a native did the work
}

func newSide(t testing.TB, clock *manual, natives map[string]engine.Native) *side {
	t.Helper()
	sd := &side{}
	e, err := engine.New(engine.Options{Clock: clock, Natives: natives, Journal: &sd.journal})
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
	for _, list := range [][]*redoubt.Script{lock.Scripts(), ratelimit.Scripts()} {
		for _, sc := range list {
			sd.do("SCRIPT", "LOAD", sc.Source())
		}
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

// both runs the same on two engines, of which one has the functions.
type both struct {
	clock     *manual
	lua, goes *side
}

func newBoth(t testing.TB) *both {
	t.Helper()
	b := &both{clock: &manual{now: time.Unix(1_732_147_200, 123_456_000)}}
	b.lua = newSide(t, b.clock, nil)
	counted := map[string]engine.Native{}
	for digest, f := range native.All() {
		counted[digest] = func(tx *engine.Tx) bool {
			done := f(tx)
			if done {
				b.goes.used++
			}
			return done
		}
	}
	b.goes = newSide(t, b.clock, counted)
	return b
}

// do runs a command on both and wants the same reply, the same log, the same
// messages, and the same state of the keys given.
func (b *both) do(t testing.TB, keys []string, args ...string) {
	t.Helper()
	got, want := b.goes.do(args...), b.lua.do(args...)
	if got != want {
		t.Fatalf("%q\n is %q\nlua %q", args, got, want)
	}
	if g, l := b.goes.journal.b.String(), b.lua.journal.b.String(); g != l {
		t.Fatalf("%q logged\n   %q\nlua %q", args, g, l)
	}
	if g, l := b.goes.pushed.String(), b.lua.pushed.String(); g != l {
		t.Fatalf("%q published\n   %q\nlua %q", args, g, l)
	}
	b.goes.journal.b.Reset()
	b.lua.journal.b.Reset()
	b.goes.pushed.Reset()
	b.lua.pushed.Reset()
	for _, k := range keys {
		for _, look := range [][]string{{"TYPE", k}, {"GET", k}, {"HGETALL", k}, {"PEXPIRETIME", k}} {
			if g, l := b.goes.do(look...), b.lua.do(look...); g != l {
				t.Fatalf("after %q, %q\n is %q\nlua %q", args, look, g, l)
			}
		}
	}
}

func script(name string) *redoubt.Script {
	for _, list := range [][]*redoubt.Script{lock.Scripts(), ratelimit.Scripts()} {
		for _, sc := range list {
			if sc.Name() == name {
				return sc
			}
		}
	}
	panic("no script " + name)
}

func TestEveryScriptHasAFunction(t *testing.T) {
	if got, want := len(native.All()), len(lock.Scripts())+len(ratelimit.Scripts()); got != want {
		t.Fatalf("%d functions for %d scripts", got, want)
	}
}

type picker struct{ *rand.Rand }

func (p picker) of(words ...string) string { return words[p.IntN(len(words))] }

// odd is an argument that is no ordinary integer.
func (p picker) odd() string {
	return p.of("", "x", "1.5", "-1", "0", "01", "-0", " 5", "1e3", "0x10", "9007199254740993", "99999999999999999999", "-99999999999999999999", "nan", "inf", "2251799813685248")
}

func (p picker) number(n int64) string {
	if p.IntN(25) == 0 {
		return p.odd()
	}
	return fmt.Sprint(p.Int64N(n))
}

// call is a random call of a random script; now and then the key is spoilt.
func (p picker) call(key string) []string {
	id := p.of("id1", "id2", "id3", "id4", "")
	waiter := p.of("", "", "PUBLISH ch1", "PUBLISH nobody", "SPUBLISH ch2", "PUBLISH no more", "SPUBLISH gone")
	if p.IntN(60) == 0 {
		waiter = p.of("nonsense", "GET x", "tail", "PUBLISH", "PUBLISH ")
	}
	ttl := fmt.Sprint(p.IntN(3) * p.IntN(2_000_000))
	if p.IntN(25) == 0 {
		ttl = p.odd()
	}
	keep := p.number(70000)
	eval := func(name string, args ...string) []string {
		if p.IntN(60) == 0 {
			args = args[:p.IntN(len(args)+1)]
		}
		return append([]string{"EVALSHA", script(name).Digest(), "1", key}, args...)
	}
	switch p.IntN(12) {
	case 0, 1, 2:
		return eval("lock.acquire", id, ttl, keep, p.of("", "label"), waiter)
	case 3:
		return eval("lock.extend", id, ttl, keep)
	case 4, 5, 6:
		return eval("lock.release", id, waiter, p.of("0", "1", "1"))
	case 7:
		return eval("lock.info")
	case 8:
		switch p.IntN(12) {
		case 0:
			return []string{"SET", key, p.of("x", p.odd(), "1732147200123456000", "1732147201000000001", "1732147200", "5")}
		case 1:
			return []string{"LPUSH", key, "x"}
		case 2:
			return []string{"HSET", key, p.of("until", "fence", "wait", "label", "last", "void", "1", "2"), p.odd()}
		case 6:
			return []string{"HSET", key, p.of("head", "tail"), p.of("", "x", "1.5", "-1", "0", "01", "3", "70")}
		case 3:
			return []string{"HSET", key, "until", "1732147299000000", "fence", fmt.Sprint(1732147200123456 + p.Int64N(1e9))}
		case 4, 5:
			return []string{"DEL", key}
		}
		return []string{"HDEL", key, p.of("label", "head", "tail", "wait", "1", "2", "3")}
	}
	return nil
}

func (p picker) limit(key string) []string {
	inc := p.of("0", "0", "0", "1", "2", "-1", "-3")
	if p.IntN(30) == 0 {
		inc = p.odd()
	}
	nanos := p.number(1_000_000_000)
	if p.IntN(4) == 0 {
		nanos = p.of("0", "1", "1000000", "1000001", "999999999")
	}
	switch p.IntN(40) {
	case 0:
		return []string{"SET", key, p.of("x", p.odd(), "1732147200123456000", "1732147290000000001", "1732147200", "5")}
	case 1:
		return []string{"LPUSH", key, "x"}
	case 2, 3:
		return []string{"DEL", key}
	}
	return []string{"EVALSHA", script("ratelimit.gcra").Digest(), "1", key, inc, nanos, p.number(5), p.number(1_000_000_000)}
}

func TestSameAsLua(t *testing.T) {
	for name, next := range map[string]func(picker, string) []string{"lock": picker.call, "gcra": picker.limit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Log("seed", seed)
			p := picker{rand.New(rand.NewPCG(seed, 1))}
			calls := 0
			b := newBoth(t)
			for range 20000 {
				key := p.of("{k}1", "{k}2", "k3")
				b.clock.move(time.Duration(p.IntN(4)*p.IntN(400_000)) * time.Microsecond)
				if p.IntN(500) == 0 {
					b.clock.move(-2 * time.Second)
				}
				if args := next(p, key); args != nil {
					calls++
					b.do(t, []string{key}, args...)
				}
			}
			if b.goes.used < calls/4 {
				t.Errorf("only %d of %d calls were done by the functions", b.goes.used, calls)
			}
			t.Logf("%d of %d calls by the functions", b.goes.used, calls)
		})
	}
}

func FuzzSameAsLua(f *testing.F) {
	f.Add("lock.acquire", "id", "1000", "61000", "", "PUBLISH ch1", uint8(5))
	f.Add("lock.release", "id", "PUBLISH ch1", "1", "", "", uint8(3))
	f.Add("lock.extend", "id", "1000", "61000", "", "", uint8(3))
	f.Add("lock.info", "", "", "", "", "", uint8(0))
	f.Add("ratelimit.gcra", "0", "1000000", "1", "0", "", uint8(4))
	b := newBoth(f)
	f.Fuzz(func(t *testing.T, name, a1, a2, a3, a4, a5 string, n uint8) {
		known := map[string]bool{"lock.acquire": true, "lock.release": true, "lock.extend": true, "lock.info": true, "ratelimit.gcra": true}
		if !known[name] {
			return
		}
		for range 2 {
			args := []string{"EVALSHA", script(name).Digest(), "1", "k", a1, a2, a3, a4, a5}
			b.do(t, []string{"k"}, args[:4+min(int(n), 5)]...)
			b.clock.move(300 * time.Microsecond)
		}
		b.do(t, nil, "DEL", "k")
	})
}
