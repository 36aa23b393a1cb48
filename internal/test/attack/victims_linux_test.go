package attack

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// victims are clients that do known work until they are told to stop.
type victims struct {
	r       *round
	end     atomic.Bool
	masters [2]string // of quorum locks, beside the target
	all     sync.WaitGroup
	warm    sync.WaitGroup

	mu    sync.Mutex
	inUse map[string]holders // of the names for which several victims contend

	conns []net.Conn
	cut   bool // one of them has failed, so the others are ended
	victimStats
}

// victimStats is what the victims saw.
type victimStats struct {
	commands int64
	longest  time.Duration
	slowest  string // the command that took longest
	wrong    []string
}

// giveUp is how long a victim waits for a reply before it counts as lost.
const giveUp = 45 * time.Second

// ordinary are the victims that speak RESP.
var ordinary = map[string]func(*victim) error{
	"strings": keepsStrings, "collections": keepsCollections, "pipeline": pipelines, "transactions": transacts,
	"lock a": contends("lock"), "lock b": contends("lock"),
	"fair a": contends("fair", "FAIR"), "fair b": contends("fair", "FAIR"),
	"reader a": contends("book", "SHARED"), "reader b": contends("book", "SHARED"), "writer": contends("book"),
	"queue": queues, "subscriber": subscribes,
	"quorum a": holdsQuorum, "quorum b": holdsQuorum, "cache": keepsCache, "leases": leasesTokens,
}

// tag is what the keys of a victim have between their braces.
func tag(name string) string { return strings.ReplaceAll(name, " ", "-") }

// start starts them and returns when each has done its work once.
func (g *victims) start() {
	work := ordinary
	if g.r.on == memcached {
		work = map[string]func(*victim) error{"values a": keepsValues, "values b": keepsValues, "counters": counts, "many": getsMany}
	}
	for name, f := range work {
		g.all.Add(1)
		g.warm.Add(1)
		go g.work(name, f)
	}
	g.warm.Wait()
}

func (g *victims) stop() victimStats {
	g.end.Store(true)
	g.all.Wait()
	return g.victimStats
}

func (g *victims) work(name string, f func(*victim) error) {
	defer g.all.Done()
	v := &victim{g: g, name: tag(name)}
	defer v.close()
	v.n = 1
	err := f(v)
	g.warm.Done()
	// They leave the attackers some of the machine.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for err == nil && !g.end.Load() {
		v.n++
		err = f(v)
		<-tick.C
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && !g.cut {
		g.wrong = append(g.wrong, fmt.Sprintf("%s, turn %d: %v", name, v.n, err))
		// The others have a moment to tell what they see. One may wait for a lock that
		// this one holds.
		time.AfterFunc(time.Second, g.endAll)
	}
	g.commands += v.commands
	if v.longest > g.longest {
		g.longest, g.slowest = v.longest, v.slowest
	}
}

func (g *victims) endAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = true
	for _, c := range g.conns {
		_ = c.Close()
	}
}

// A victim is one client.
type victim struct {
	g        *victims
	name     string
	n        int // its turn
	conns    []*bufio.ReadWriter
	raw      []net.Conn
	commands int64
	longest  time.Duration
	slowest  string
	fence    int64
	library  *library
}

func (v *victim) close() {
	if v.library != nil {
		v.library.close()
	}
	for _, c := range v.raw {
		_ = c.Close()
	}
}

// conn returns one of its connections.
func (v *victim) conn(i int) (*bufio.ReadWriter, error) {
	for len(v.conns) <= i {
		c, err := v.g.r.connect(giveUp)
		if err != nil {
			return nil, err
		}
		v.raw = append(v.raw, c)
		v.g.mu.Lock()
		v.g.conns = append(v.g.conns, c)
		v.g.mu.Unlock()
		v.conns = append(v.conns, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)))
		if password := passwordOf(v.g.r.serve); password != "" {
			if _, err := v.on(len(v.conns)-1, "AUTH", password); err != nil {
				return nil, err
			}
		}
	}
	_ = v.raw[i].SetDeadline(time.Now().Add(giveUp)) // It fails only if closed.
	return v.conns[i], nil
}

func passwordOf(args []string) string {
	for _, a := range args {
		if p, ok := strings.CutPrefix(a, "--password="); ok {
			return p
		}
	}
	return ""
}

// key is a key of its own.
func (v *victim) key(part string) string { return "victim:{" + v.name + "}:" + part }

// timed notes how long n commands took.
func (v *victim) timed(n int, what string, began time.Time) {
	v.commands += int64(n)
	if d := time.Since(began); d > v.longest {
		v.longest, v.slowest = d, what
	}
}

// on sends a command on one connection and returns its reply, which is no error. It
// sends it again when the server answers BUSY: a script holds all keys, and has run
// for lua-time-limit.
func (v *victim) on(i int, args ...string) (any, error) {
	began := time.Now()
	for {
		got, err := v.try(i, began, args...)
		if refused, ok := errors.AsType[resp.Error](err); !ok || refused.Code() != "BUSY" || time.Since(began) > giveUp {
			return got, err
		}
	}
}

// try sends a command once. Its time counts from began.
func (v *victim) try(i int, began time.Time, args ...string) (any, error) {
	c, err := v.conn(i)
	if err != nil {
		return nil, err
	}
	_, _ = c.Write(resp.AppendCommand(nil, args...)) // Flush returns its error.
	if err := c.Flush(); err != nil {
		return nil, fmt.Errorf("%q: %w", args, err)
	}
	got, err := readReply(c.Reader)
	v.timed(1, args[0], began)
	if refused, ok := got.(resp.Error); ok {
		err = refused
	}
	if err != nil {
		return nil, fmt.Errorf("%q after %v: %w", args, time.Since(began).Round(time.Millisecond), err)
	}
	return got, nil
}

// wants sends a command and compares its reply.
func (v *victim) wants(want any, args ...string) error {
	got, err := v.on(0, args...)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%q: the reply is %s, want %s", args, short(fmt.Sprint(got), 200), short(fmt.Sprint(want), 200))
	}
	return nil
}

// first returns the first error of several commands, each sent when the one before
// held.
func (v *victim) first(steps ...func() error) error {
	for _, s := range steps {
		if err := s(); err != nil {
			return err
		}
	}
	return nil
}

func (v *victim) step(want any, args ...string) func() error {
	return func() error { return v.wants(want, args...) }
}

func keepsStrings(v *victim) error {
	value := strings.Repeat(strconv.Itoa(v.n)+";", 1+v.n%300)
	return v.first(
		v.step("OK", "SET", v.key("s"), value),
		v.step(value, "GET", v.key("s")),
		v.step(int64(v.n), "INCR", v.key("n")),
		v.step(int64(len(value)+1), "APPEND", v.key("s"), "!"),
		v.step(value+"!", "GET", v.key("s")),
		v.step(int64(1), "DEL", v.key("s")),
		v.step(nil, "GET", v.key("s")),
	)
}

func keepsCollections(v *victim) error {
	n := strconv.Itoa(v.n)
	return v.first(
		v.step(int64(2), "RPUSH", v.key("l"), n, "x"),
		v.step([]any{n, "x"}, "LRANGE", v.key("l"), "0", "-1"),
		v.step([]any{n, "x"}, "LPOP", v.key("l"), "9"),
		v.step(int64(1), "HSET", v.key("h"), n, "v"+n),
		v.step("v"+n, "HGET", v.key("h"), n),
		v.step(int64(1), "HDEL", v.key("h"), n),
		v.step(int64(1), "ZADD", v.key("z"), n, "m"+n),
		v.step([]any{"m" + n, n}, "ZPOPMIN", v.key("z")),
	)
}

// pipelines sends many commands at once; their replies come in order.
func pipelines(v *victim) error {
	c, err := v.conn(0)
	if err != nil {
		return err
	}
	began := time.Now()
	const deep = 40
	for i := range deep {
		_, _ = c.Write(resp.AppendCommand(nil, "SET", v.key(strconv.Itoa(i)), strconv.Itoa(v.n*deep+i)))
		_, _ = c.Write(resp.AppendCommand(nil, "GET", v.key(strconv.Itoa(i)))) // Flush returns its error.
	}
	if err := c.Flush(); err != nil {
		return err
	}
	busy := false
	for i := range 2 * deep {
		want := "OK"
		if i%2 == 1 {
			want = strconv.Itoa(v.n*deep + i/2)
		}
		got, err := readReply(c.Reader)
		if refused, ok := got.(resp.Error); ok && refused.Code() == "BUSY" {
			busy = true
		} else if err != nil || got != want && !busy { // Behind a SET that was refused is an older value.
			return fmt.Errorf("reply %d of a pipeline is %v, %w; want %q", i, got, cmp.Or(err, errNoReply), want)
		}
	}
	v.timed(2*deep, "a pipeline of SET and GET", began)
	return nil
}

func transacts(v *victim) error {
	n := strconv.Itoa(v.n)
	for began := time.Now(); ; {
		for _, args := range [][]string{{"MULTI"}, {"INCR", v.key("n")}, {"SET", v.key("s"), n}} {
			if _, err := v.try(0, began, args...); err != nil && !isBusy(err) {
				return err
			}
		}
		got, err := v.try(0, began, "EXEC")
		switch {
		case err != nil && isBusy(err) && time.Since(began) < giveUp: // Nothing of it was run.
			continue
		case err != nil:
			return err
		case !reflect.DeepEqual(got, []any{int64(v.n), "OK"}):
			return fmt.Errorf("EXEC: the reply is %v, want [%d OK]", got, v.n)
		}
		return v.wants(n, "GET", v.key("s"))
	}
}

// isBusy says that the server refused, since a script holds all keys.
func isBusy(err error) bool {
	refused, ok := errors.AsType[resp.Error](err)
	return ok && (refused.Code() == "BUSY" || refused.Code() == "EXECABORT")
}

// contends returns a victim that contends with others for one lock. An exclusive holder is alone, and its fencing
// token is larger than the one before; a reader's is no smaller.
func contends(name string, options ...string) func(*victim) error {
	shared := slices.Contains(options, "SHARED")
	return func(v *victim) error {
		got, err := v.on(0, append([]string{"LOCK.ACQUIRE", name, "600000", "BLOCK", "0"}, options...)...)
		if err != nil {
			return err
		}
		lease, _ := got.([]any)
		if len(lease) != 3 {
			return fmt.Errorf("LOCK.ACQUIRE: the reply is %v", got)
		}
		id, _ := lease[0].(string)
		fence, _ := lease[1].(int64)
		if err := v.holds(name, fence, shared); err != nil {
			return err
		}
		_, err = v.on(0, "PING") // meanwhile a second holder would be noticed
		v.g.leaves(name, shared)
		if err != nil {
			return err
		}
		return v.wants(int64(1), "LOCK.RELEASE", name, id)
	}
}

// holders are the victims that hold a lock.
type holders struct{ alone, shared int }

// holds notes that the victim holds a lock. It returns an error when others hold it as well, or the token is too small.
func (v *victim) holds(name string, fence int64, shared bool) error {
	if fence < v.fence || fence == v.fence && !shared {
		return fmt.Errorf("%s: fencing token %d comes after %d", name, fence, v.fence)
	}
	v.fence = fence
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	h := v.g.inUse[name]
	if shared {
		h.shared++
	} else {
		h.alone++
	}
	v.g.inUse[name] = h
	if h.alone > 1 || h.alone == 1 && h.shared > 0 {
		return fmt.Errorf("%s: %d clients hold the lock alone, and %d share it", name, h.alone, h.shared)
	}
	return nil
}

// leaves notes that a victim is about to release a lock.
func (g *victims) leaves(name string, shared bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.inUse[name]
	if shared {
		h.shared--
	} else {
		h.alone--
	}
	g.inUse[name] = h
}

func queues(v *victim) error {
	payload := "message " + strconv.Itoa(v.n)
	if _, err := v.on(0, "QUEUE.PUT", v.name, payload); err != nil {
		return err
	}
	got, err := v.on(0, "QUEUE.TAKE", v.name, "1", "600000")
	if err != nil {
		return err
	}
	var message []any
	if list, _ := got.([]any); len(list) == 1 {
		message, _ = list[0].([]any)
	}
	if len(message) != 4 || message[3] != payload {
		return fmt.Errorf("QUEUE.TAKE: the reply is %v, want one message %q", got, payload)
	}
	receipt, _ := message[0].(string)
	return v.wants(int64(1), "QUEUE.ACK", v.name, receipt)
}

// subscribes listens on one connection to what it publishes on another.
func subscribes(v *victim) error {
	channel := v.key("channel")
	if v.n == 1 {
		if _, err := v.on(1, "SUBSCRIBE", channel); err != nil {
			return err
		}
	}
	began := time.Now()
	text := strconv.Itoa(v.n)
	got, err := v.on(0, "PUBLISH", channel, text)
	if err != nil {
		return err
	}
	if heard, _ := got.(int64); heard < 1 {
		return fmt.Errorf("PUBLISH: %v heard it, want 1 or more", got)
	}
	c, err := v.conn(1)
	if err != nil {
		return err
	}
	message, err := readReply(c.Reader)
	if err != nil {
		return fmt.Errorf("the subscriber's message: %w", err)
	}
	if want := []any{"message", channel, text}; !reflect.DeepEqual(message, want) {
		return fmt.Errorf("the subscriber has %v; want %v", message, want)
	}
	v.timed(1, "a message", began)
	return nil
}
