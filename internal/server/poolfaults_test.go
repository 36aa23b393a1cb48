package server_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// proxyFaults says how many replies are checked: 10 million with PROXY_FAULTS=full.
func proxyFaults(short int64) int64 {
	if os.Getenv("PROXY_FAULTS") == "full" {
		return 10_000_000
	}
	return short
}

// A porter is a client of a pool whose servers fail. Every value names its key, so that
// it knows whose reply it has.
type porter struct {
	p       *poolOf
	rng     *rand.Rand
	name    string
	next    int
	last    map[string]written // what its own keys have; none while that is not known
	seen    *atomic.Int64
	batches atomic.Int64   // that it has begun
	failed  []atomic.Int64 // replies that were errors, by server
	faults  []faulty       // by server
}

// A faulty is what became of a server.
type faulty struct {
	now   atomic.Bool  // it has a fault
	times atomic.Int64 // how often it has had one: what it had before is lost
}

// A written is a value, and how many faults the server had had.
type written struct {
	value string
	times int64
}

// An allowed is what the reply to a command may be.
type allowed struct {
	command string
	exact   string   // this, or
	keys    []string // values of these, or an error of one of their servers
	array   bool
	number  bool
	wrote   string // the value that the one key has if all is well; -: it is not known
	done    string // the reply to what wrote it
	moved   string // the reply when its slot moved meanwhile: nothing was written
}

const porterKeys = 4

func (c *porter) own() string { return c.name + ":" + strconv.Itoa(c.rng.IntN(4*porterKeys)) }

func sharedKey(i int) string { return "shared:" + strconv.Itoa(i) }

// command appends one and returns what its replies may be.
func (c *porter) command(raw []byte) ([]byte, []allowed) {
	c.next++
	key := c.own()
	value := "value of " + key + " " + strconv.Itoa(c.next)
	switch c.rng.IntN(32) {
	case 0:
		token := c.name + strconv.Itoa(c.next)
		return resp.AppendCommand(raw, "ECHO", token), []allowed{{command: "ECHO", exact: bulk(token)}}
	case 1, 2:
		keys := []string{key, c.own(), sharedKey(c.rng.IntN(porterKeys))}
		return resp.AppendCommand(raw, append([]string{"MGET"}, keys...)...), []allowed{{command: "MGET", keys: keys, array: true}}
	case 3:
		raw = resp.AppendCommand(raw, "MULTI")
		raw = resp.AppendCommand(raw, "GET", key)
		return resp.AppendCommand(raw, "EXEC"), []allowed{
			{command: "MULTI", exact: "+OK\r\n"}, {command: "GET", exact: "+QUEUED\r\n"}, {command: "EXEC", keys: []string{key}, array: true},
		}
	case 4, 5, 6, 7, 8:
		return resp.AppendCommand(raw, "SET", key, value), []allowed{{command: "SET", keys: []string{key}, wrote: value, done: "+OK\r\n"}}
	case 9:
		if c.rng.IntN(16) == 0 { // holds its own connection
			raw = resp.AppendCommand(raw, "WATCH", key)
			raw = resp.AppendCommand(raw, "MULTI")
			raw = resp.AppendCommand(raw, "SET", key, value)
			return resp.AppendCommand(raw, "EXEC"), []allowed{
				{command: "WATCH", keys: []string{key}, wrote: "-", done: "+OK\r\n"}, {command: "MULTI", exact: "+OK\r\n"},
				{command: "SET", exact: "+QUEUED\r\n"},
				{command: "EXEC", keys: []string{key}, wrote: value, done: "*1\r\n+OK\r\n", moved: "*-1\r\n"},
			}
		}
	case 10:
		key = sharedKey(c.rng.IntN(porterKeys))
		return resp.AppendCommand(raw, "SET", key, "value of "+key+" by "+c.name), []allowed{{command: "SET", keys: []string{key}, wrote: "-", done: "+OK\r\n"}}
	case 11:
		key = faultsChannel(c.rng.IntN(channels))
		message := fmt.Sprintf("message of %s by %s %d", key, c.name, c.next)
		return resp.AppendCommand(raw, "PUBLISH", key, message), []allowed{{command: "PUBLISH", keys: []string{key}, number: true}}
	case 12, 13, 14:
		key = sharedKey(c.rng.IntN(porterKeys))
	case 15:
		if c.rng.IntN(16) == 0 { // holds its own connection
			return resp.AppendCommand(raw, "BLPOP", key+":list", "0.001"), []allowed{{command: "BLPOP", keys: []string{key + ":list"}, exact: "*-1\r\n"}}
		}
	}
	return resp.AppendCommand(raw, "GET", key), []allowed{{command: "GET", keys: []string{key}}}
}

// node returns which server has a key.
func (c *porter) node(key string) int {
	n := c.p.pool.Pick([]byte(key))
	for i, o := range c.p.pool.Nodes() {
		if o == n {
			return i
		}
	}
	return -1
}

// check says what is wrong with a reply, or nothing.
func (c *porter) check(a allowed, raw []byte) string {
	c.seen.Add(1)
	if string(raw) == a.exact {
		return ""
	}
	wrong := func(why string) string {
		return fmt.Sprintf("%s: %s %q: %s: %.200q", c.name, a.command, a.keys, why, raw)
	}
	if len(a.keys) == 0 {
		return wrong("want " + a.exact)
	}
	if raw[0] == '-' {
		for _, k := range a.keys {
			delete(c.last, k)
			at := c.node(k)
			if !bytes.Contains(raw, []byte("back end redis-"+strconv.Itoa(at+1))) {
				continue
			}
			if !c.faults[at].now.Load() && !bytes.Contains(raw, []byte(" within ")) && !bytes.Contains(raw, []byte("in time")) {
				return wrong("an error of a server without a fault")
			}
			c.failed[at].Add(1)
			return ""
		}
		return wrong("an error of another server")
	}
	if a.number && raw[0] == ':' {
		return ""
	}
	if a.wrote != "" {
		if string(raw) == a.moved && c.p.pool.Slots() != nil {
			return ""
		}
		if string(raw) != a.done {
			return wrong("want " + a.done)
		}
		if a.wrote != "-" {
			c.note(a.keys[0], a.wrote)
		}
		return ""
	}
	v, _, err := resp.Parse(raw)
	values := []any{v}
	if a.array {
		values, _ = v.([]any)
	}
	if err != nil || len(values) != len(a.keys) {
		return wrong("not as many values as keys")
	}
	for i, k := range a.keys {
		text, ok := values[i].(string)
		f, last := &c.faults[c.node(k)], c.last[k]
		known := last.value != "" && !f.now.Load() && last.times == f.times.Load() // else the server may have lost it
		switch {
		case values[i] == nil && !known:
			delete(c.last, k)
		case !ok || !strings.HasPrefix(text, "value of "+k+" "):
			return wrong("a value of something else")
		case known && text != last.value:
			return wrong("not what was written last, " + last.value)
		case strings.HasPrefix(k, c.name+":"):
			c.note(k, text)
		}
	}
	return ""
}

// note remembers what a key has, unless its server may lose it.
func (c *porter) note(key, value string) {
	f := &c.faults[c.node(key)]
	times := f.times.Load()
	if delete(c.last, key); !f.now.Load() {
		c.last[key] = written{value, times}
	}
}

// work sends batches and checks their replies until stop is closed.
func (c *porter) work(t *testing.T, stop <-chan struct{}) {
	conn, err := net.Dial("tcp", c.p.addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	var scanner resp.ReplyScanner
	var raw, in []byte
	chunk := make([]byte, 64<<10)
	steps := randtest.Watch(t)
	defer steps.End()
	for {
		select {
		case <-stop:
			return
		default:
		}
		c.batches.Add(1)
		var want []allowed
		raw = raw[:0]
		for range 1 + c.rng.IntN(64) {
			var a []allowed
			raw, a = c.command(raw)
			want = append(want, a...)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		steps.Begin(func() string { return fmt.Sprintf("the batch of %s that wants %.500v", c.name, want) })
		if _, err := conn.Write(raw); err != nil {
			t.Errorf("%s: %v", c.name, err)
			return
		}
		for _, a := range want {
			n, err := scanner.Next(in)
			for n == 0 && err == nil {
				var m int
				m, err = conn.Read(chunk)
				in = append(in, chunk[:m]...)
				if err == nil {
					n, err = scanner.Next(in)
				}
			}
			if err != nil {
				t.Errorf("%s: %s: %v", c.name, a.command, err)
				return
			}
			if fault := c.check(a, in[:n]); fault != "" {
				t.Error(fault)
				return
			}
			in = in[n:]
		}
	}
}

// TestPoolFaults: while servers are killed, frozen and restarted under load, errors come
// for their own keys alone, every client has its replies in order, and each value is that
// of its key. Checks 10 million replies with PROXY_FAULTS=full.
func TestPoolFaults(t *testing.T) {
	slow.Test(t, "it kills and pauses the servers of a pool")
	// The time-out is one that servers without a fault keep on a busy machine too: a
	// WATCH that is late costs its connection, and says so.
	for name, timeout := range map[string]time.Duration{"patient": 0, "timeout": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) { poolFaults(t, timeout, proxyFaults(100_000)/2) })
	}
}

// A portage is porters at work, until its end.
type portage struct {
	porters []*porter
	seed    uint64
	seen    atomic.Int64
	failed  []atomic.Int64 // of each node
	faults  []faulty
	stop    chan struct{}
	working sync.WaitGroup
	end     func()
}

func startPorters(t *testing.T, p *poolOf, n int) *portage {
	l := &portage{seed: randtest.Seed(t), failed: make([]atomic.Int64, len(p.nodes)), faults: make([]faulty, len(p.nodes)), stop: make(chan struct{})}
	l.end = sync.OnceFunc(func() {
		close(l.stop)
		l.working.Wait()
	})
	for i := range n {
		c := &porter{p: p, rng: rand.New(rand.NewPCG(l.seed, uint64(i))), name: fmt.Sprintf("porter%d", i),
			last: map[string]written{}, seen: &l.seen, failed: l.failed, faults: l.faults}
		l.porters = append(l.porters, c)
		l.working.Go(func() { c.work(t, l.stop) })
	}
	return l
}

func poolFaults(t *testing.T, timeout time.Duration, most int64) {
	p := startPool(t, 3, func(o *proxy.PoolOptions) { o.Timeout = timeout })
	all := startPorters(t, p, 16)
	defer all.end()
	failed, faults, porters := all.failed, all.faults, all.porters
	var listeners [channels]*faultsListener
	for i := range listeners {
		l := &faultsListener{channel: faultsChannel(i), faults: faults, last: map[string]int{}}
		listeners[i] = l
		all.working.Go(func() { l.work(t, p.addr, all.stop) })
	}
	fault := func(at int) {
		errorsBefore := failed[at].Load()
		faults[at].now.Store(true)
		faults[at].times.Add(1)
		var joined [channels]int64
		for i, l := range listeners {
			joined[i] = l.joined.Load()
		}
		p.nodes[at].Kill()
		eventually(t, "its keys fail", func() bool { return failed[at].Load() > errorsBefore || t.Failed() })
		p.nodes[at].Restart()
		eventually(t, "it is back", func() bool { // for clients of both protocols
			for _, s := range p.pool.Nodes()[at].Stats() {
				if !s.Up {
					return false
				}
			}
			return true
		})
		for i, l := range listeners { // they may have missed what it has published
			eventually(t, l.channel+" is subscribed to anew", func() bool { return l.joined.Load() > joined[i] || t.Failed() })
		}
		errorsBefore = failed[at].Load()
		p.nodes[at].Pause()
		if timeout > 0 {
			eventually(t, "its keys are late", func() bool { return failed[at].Load() > errorsBefore || t.Failed() })
		} else {
			p.nodes[0].CLI("PING")
		}
		p.nodes[at].Resume()
		eventually(t, "it answers again", func() bool { return p.pool.Nodes()[at].Up() })
		// From now on an error is wrong again, but in what was sent before.
		begun := make([]int64, len(porters))
		for i, c := range porters {
			begun[i] = c.batches.Load()
		}
		for i, c := range porters {
			eventually(t, "the load goes on", func() bool { return c.batches.Load() > begun[i] || t.Failed() })
		}
		for _, l := range listeners {
			heard := l.heard.Load()
			eventually(t, l.channel+" is heard", func() bool { return l.heard.Load() > heard || t.Failed() })
		}
		faults[at].now.Store(false)
		now := all.seen.Load()
		eventually(t, "the load goes on", func() bool { return all.seen.Load() > now+1000 || t.Failed() })
	}
	for !t.Failed() {
		fault(1)
		fault(2)
		if all.seen.Load() >= most {
			break
		}
	}
	all.end()
	t.Logf("seed %d: %d replies, errors by server %d %d %d", all.seed, all.seen.Load(), failed[0].Load(), failed[1].Load(), failed[2].Load())
	eventually(t, "nobody has a connection of their own", func() bool { return p.Stats().Dedicated == 0 })
}

// TestPoolCrowd: many idle clients and busy ones have at most two connections to each
// server between them: one for each version of RESP. 5,000 and 500 with
// PROXY_FAULTS=full.
func TestPoolCrowd(t *testing.T) {
	slow.Test(t, "very many clients use a pool at once")
	idle, busy := 500, 50
	if os.Getenv("PROXY_FAULTS") == "full" {
		idle, busy = 5000, 500
	}
	p := startPool(t, 3)
	crowd := make([]*wire, idle)
	for i := range crowd {
		crowd[i] = dial(t, p.addr)
		key := fmt.Sprintf("idle:%d", i)
		crowd[i].want("+OK\r\n", "SET "+key+" "+key)
	}
	var wg sync.WaitGroup
	for i := range busy {
		wg.Go(func() {
			w := dial(t, p.addr)
			key := fmt.Sprintf("busy:%d", i)
			if i%2 == 0 {
				w.sendQuietly("HELLO", "3")
				if _, err := w.next(); err != nil {
					t.Errorf("HELLO: %v", err)
				}
			}
			for j := range 200 {
				value := fmt.Sprintf("value of %s %d", key, j)
				w.writeQuietly(resp.AppendCommand(resp.AppendCommand(nil, "SET", key, value), "GET", key))
				ok, _ := w.next()
				if got, err := w.next(); ok != "+OK\r\n" || got != bulk(value) {
					t.Errorf("%s: %q, %q, %v", key, ok, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i, n := range p.nodes {
		list := n.CLI("CLIENT", "LIST", "TYPE", "normal")
		if has := strings.Count(list, "id=") - 1; has < 1 || has > 2 { // but for redis-cli
			t.Errorf("redis-%d has %d connections:\n%s", i+1, has, list)
		}
	}
	for i, w := range crowd {
		key := fmt.Sprintf("idle:%d", i)
		w.want(bulk(key), "GET "+key)
	}
}
