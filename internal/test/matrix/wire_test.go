package matrix

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

const (
	wireRESP3 = "RESP commands, RESP3"
	wireRESP2 = "RESP commands, RESP2"
)

// wires are the ways in of any Redis client. Only `redoubt serve` has the commands.
func wires() []way {
	open := func(protocol int) func(t *testing.T, on *reach) *door {
		return func(t *testing.T, on *reach) *door {
			if !on.serve {
				return nil
			}
			return onWire(newWire(t, on.one.Addr, protocol), newWire(t, on.one.Addr, protocol))
		}
	}
	return []way{{name: wireRESP3, open: open(3)}, {name: wireRESP2, open: open(2)}}
}

// A wire is a client that knows nothing of Redoubt. It gives up a command after prompt.
type wire struct{ rdb *redis.Client }

func newWire(t *testing.T, addr string, protocol int) wire {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1, ReadTimeout: prompt, PoolSize: 100})
	t.Cleanup(func() { _ = rdb.Close() })
	return wire{rdb}
}

// do sends a command, of words with blanks between them. A null is nil.
func (w wire) do(t *testing.T, command string) (any, error) {
	t.Helper()
	var args []any
	for f := range strings.FieldsSeq(command) {
		args = append(args, f)
	}
	v, err := w.rdb.Do(t.Context(), args...).Result()
	if err == redis.Nil { //nolint:errorlint // go-redis returns it bare
		return nil, nil
	}
	return v, err
}

// want sends a command and wants a reply, as fmt prints it.
func (w wire) want(t *testing.T, command, want string) {
	t.Helper()
	if v, err := w.do(t, command); fmt.Sprint(v) != want || err != nil {
		t.Errorf("%s: got %v, %v; want %s", command, v, err, want)
	}
}

// grant sends a command that acquires something, and returns the id and the token.
func (w wire) grant(t *testing.T, command string) (id string, token int64, err error) {
	t.Helper()
	v, err := w.do(t, command)
	if err != nil {
		return "", 0, err
	}
	a, _ := v.([]any)
	if len(a) != 3 {
		return "", 0, fmt.Errorf("%s: got %v, want id, token and ttl", command, v)
	}
	return a[0].(string), a[1].(int64), nil
}

// field sends a command that gives a map, which is flat in RESP2, and returns a field of it.
func (w wire) field(t *testing.T, command, name string) any {
	t.Helper()
	v, err := w.do(t, command)
	must(t, err)
	if m, ok := v.(map[any]any); ok {
		return m[name]
	}
	a, _ := v.([]any)
	for pair := range slices.Chunk(a, 2) {
		if len(pair) == 2 && pair[0] == name {
			return pair[1]
		}
	}
	t.Fatalf("%s: no field %q in %v", command, name, v)
	return nil
}

// A pair is two clients of one server.
type pair struct{ a, b wire }

func onWire(a, b wire) *door {
	p, names := &pair{a, b}, redistest.NewPrefix()
	d := &door{}
	for i, c := range []struct {
		name string
		hold func(p *pair, t *testing.T, name string)
	}{
		{exclusion, (*pair).exclusion},
		{wakeUp, (*pair).wakeUp},
		{fairness, (*pair).fairness},
		{fencing, (*pair).fencing},
		{semaphore, (*pair).semaphore},
		{readersWriters, (*pair).readersWriters},
		{tokenBucket, (*pair).tokenBucket},
		{waitForTokens, (*pair).waitForTokens},
		{window, (*pair).window},
		{quota, (*pair).quota},
		{queueBlock, (*pair).queueBlock},
		{queueDelay, (*pair).queueDelay},
		{queueCrash, (*pair).queueCrash},
		{stockSold, (*pair).stockSold},
		{stockRunsOut, (*pair).stockRunsOut},
		{bloomFilter, (*pair).bloomFilter},
		{geoIndex, (*pair).geoIndex},
		{ttlHash, (*pair).ttlHash},
		{scanKeys, (*pair).scanKeys},
	} {
		d.promises = append(d.promises, promise{c.name, func(t *testing.T) error {
			c.hold(p, t, fmt.Sprint(names, "-", i))
			return nil
		}})
	}
	return d
}

func (p *pair) exclusion(t *testing.T, name string) {
	var inside atomic.Int64
	var wg sync.WaitGroup
	for _, c := range []wire{p.a, p.b, p.a, p.b} {
		wg.Go(func() {
			for range 3 {
				id, _, err := c.grant(t, "LOCK.ACQUIRE "+name+" 120000 BLOCK 0")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				if _, err := c.do(t, "LOCK.INFO "+name); err != nil { // time for others to come in
					t.Error(err)
				}
				inside.Add(-1)
				c.want(t, "LOCK.RELEASE "+name+" "+id, "1")
			}
		})
	}
	wg.Wait()
	id, _, err := p.a.grant(t, "LOCK.ACQUIRE "+name+" 120000")
	must(t, err)
	p.b.want(t, "LOCK.ACQUIRE "+name+" 120000", "<nil>")
	p.b.want(t, "LOCK.RELEASE "+name+" wrong", "0")
	p.b.want(t, "LOCK.RELEASE "+name+" "+id, "1")
}

// waiting returns once as many wait.
func (w wire) waiting(t *testing.T, info string, n int64) {
	t.Helper()
	await.Soon(t, fmt.Sprint(n, " wait"), func() bool { return w.field(t, info, "waiters") == n })
}

func (p *pair) wakeUp(t *testing.T, name string) {
	id, _, err := p.a.grant(t, "LOCK.ACQUIRE "+name+" 120000")
	must(t, err)
	done := promptly(t, func() error {
		_, _, err := p.b.grant(t, "LOCK.ACQUIRE "+name+" 120000 BLOCK 0")
		return err
	})
	p.a.waiting(t, "LOCK.INFO "+name, 1)
	p.a.want(t, "LOCK.RELEASE "+name+" "+id, "1")
	must(t, <-done)
}

func (p *pair) fairness(t *testing.T, name string) {
	id, _, err := p.a.grant(t, "LOCK.ACQUIRE "+name+" 120000 FAIR")
	must(t, err)
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		served []int
	)
	t.Cleanup(wg.Wait)
	for i, c := range []wire{p.b, p.a, p.b, p.b, p.a} {
		wg.Go(func() {
			id, _, err := c.grant(t, "LOCK.ACQUIRE "+name+" 120000 FAIR BLOCK 0")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			c.want(t, "LOCK.RELEASE "+name+" "+id, "1")
		})
		p.a.waiting(t, "LOCK.INFO "+name, int64(i+1))
	}
	p.a.want(t, "LOCK.RELEASE "+name+" "+id, "1")
	wg.Wait()
	if !slices.Equal(served, []int{0, 1, 2, 3, 4}) {
		t.Errorf("they queued as 0 to 4 and were served as %v", served)
	}
}

func (p *pair) fencing(t *testing.T, name string) {
	var tokens []int64
	for _, c := range []wire{p.a, p.b, p.a} {
		id, token, err := c.grant(t, "LOCK.ACQUIRE "+name+" 120000")
		must(t, err)
		tokens = append(tokens, token)
		c.want(t, "LOCK.RELEASE "+name+" "+id, "1")
	}
	if tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
		t.Errorf("the tokens are %v", tokens)
	}
	// The resource's key is on the server of its name.
	key := "{" + name + "}balance"
	p.b.want(t, fmt.Sprintf("FENCE.DO %s %d SET %s new", name, tokens[2], key), "OK")
	if v, err := p.a.do(t, fmt.Sprintf("FENCE.DO %s %d SET %s old", name, tokens[1], key)); err == nil || !strings.HasPrefix(err.Error(), "STALE") {
		t.Errorf("an old token: %v, %v", v, err)
	}
	p.a.want(t, "GET "+key, "new")
}

func (p *pair) semaphore(t *testing.T, name string) {
	acquire := "SEM.ACQUIRE " + name + " 2 120000"
	id, _, err := p.a.grant(t, acquire)
	must(t, err)
	_, _, err = p.b.grant(t, acquire)
	must(t, err)
	p.a.want(t, acquire, "<nil>")
	done := promptly(t, func() error {
		_, _, err := p.b.grant(t, acquire+" BLOCK 0")
		return err
	})
	p.a.waiting(t, "SEM.INFO "+name, 1)
	p.a.want(t, "SEM.RELEASE "+name+" "+id, "1")
	must(t, <-done)
}

func (p *pair) readersWriters(t *testing.T, name string) {
	acquire := "LOCK.ACQUIRE " + name + " 120000"
	x, _, err := p.a.grant(t, acquire+" SHARED")
	must(t, err)
	y, _, err := p.b.grant(t, acquire+" SHARED")
	must(t, err)
	done := promptly(t, func() error {
		_, _, err := p.b.grant(t, acquire+" BLOCK 0")
		return err
	})
	p.a.waiting(t, "LOCK.INFO "+name, 1)
	p.a.want(t, "LOCK.RELEASE "+name+" "+x, "1")
	await.Always(t, stays, "the writer waits beside a reader", func() bool { return len(done) == 0 })
	p.b.want(t, "LOCK.RELEASE "+name+" "+y, "1")
	must(t, <-done)
}

// allowed sends a command that takes from a limit some times, by one client and the other,
// and wants it to be allowed but for the last time.
func (p *pair) allowed(t *testing.T, command string, times int, yes int64) {
	t.Helper()
	for i := range times {
		v, err := []wire{p.a, p.b}[i%2].do(t, command)
		must(t, err)
		a, _ := v.([]any)
		want := yes
		if i == times-1 {
			want = 1 - yes
		}
		if len(a) != 5 || a[0] != want {
			t.Errorf("%s, call %d: %v; want %d first", command, i, v, want)
		}
	}
}

func (p *pair) tokenBucket(t *testing.T, name string) {
	p.allowed(t, "LIMIT.TAKE "+name+" 1 1 3600000 3", 4, 1)
	p.a.want(t, "LIMIT.RESET "+name, "1")
	p.allowed(t, "LIMIT.TAKE "+name+" 3 1 3600000 3", 2, 1)
	p.allowed(t, "CL.THROTTLE "+name+" 2 1 3600", 4, 0)
}

func (p *pair) waitForTokens(t *testing.T, name string) {
	const interval = 50 * time.Millisecond
	began := time.Now()
	for _, c := range []wire{p.a, p.b, p.a, p.b} {
		v, err := c.do(t, "LIMIT.WAIT "+name+" 1 1 50 1")
		must(t, err)
		if a, _ := v.([]any); len(a) != 5 || a[0] != int64(1) {
			t.Errorf("%v", v)
		}
	}
	if took := time.Since(began); took < 3*interval {
		t.Errorf("four tokens, one each %v, were there after %v", interval, took)
	}
}

func (p *pair) window(t *testing.T, name string) {
	p.allowed(t, "LIMIT.WINDOW "+name+" 1 3 3600000", 4, 1)
}

func (p *pair) quota(t *testing.T, name string) {
	p.allowed(t, "LIMIT.QUOTA "+name+" 1 3 YEAR UTC", 4, 1)
}
