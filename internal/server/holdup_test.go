package server_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	bloomwire "github.com/redoubt-go/redoubt/internal/wire/bloom"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// longest is for how long a command of ours may hold up a Redis in one script.
const longest = 20 * time.Millisecond

// A holdup measures for how long commands hold up a Redis.
type holdup struct {
	*testing.T
	redis, w *wire
	scripts  map[string]string // names by digest
	bulk     string            // of 4 MiB
	fault    string            // the error that the command is refused with; empty: it is not
}

// A worst is a case of a command that is meant to take long.
type worst struct {
	what   string
	before func(h *holdup) // makes what it works on; nil: nothing
	args   func(h *holdup) []string
}

// No command of ours holds up a Redis for longer than 20 ms at once, whatever its legal
// arguments, but for what the README and BF.RESERVE say. SLOWLOG shows the elapsed time of
// each command. That includes the time in which other processes ran, so the test scales a
// longer time by the CPU time of Redis' thread and by the speed of the processor, and tries the case again.
func TestNoCommandHoldsUpTheServer(t *testing.T) {
	slow.Test(t, "there are many cases, and they are large: 20 s, minutes on a busy machine")
	r := redistest.Start(t, "--slowlog-max-len", "100000")
	// However busy the machine is, an answer is waited for.
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr(), ReadTimeout: patience, WriteTimeout: patience})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := redoubt.New(clienttest.Wrap(t, rdb), redoubt.Options{DownAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_, addr := start(t, r.URL(), func(o *server.Options) { o.Client = client })
	h := &holdup{T: t, redis: dial(t, r.Addr()), w: dial(t, addr), scripts: map[string]string{}, bulk: strings.Repeat("x", 4<<20)}
	for _, s := range command.Scripts() {
		h.scripts[s.Digest()] = s.Name()
	}
	for _, c := range command.All() {
		if len(worstOf[c.Name]) == 0 {
			t.Errorf("%s: there is no case here that takes long", c.Name)
		}
		for _, x := range worstOf[c.Name] {
			h.measure(c.Name, x)
		}
	}
}

// measure runs a case until it is short enough, a few times at most.
func (h *holdup) measure(name string, x worst) {
	h.Helper()
	shortest, slowest := time.Duration(math.MaxInt64), ""
	for try := 0; try < 30 && shortest > longest; try++ {
		h.redis.want("+OK\r\n", "CONFIG SET slowlog-log-slower-than -1")
		h.redis.want("+OK\r\n", "FLUSHALL")
		h.fault = ""
		if x.before != nil {
			x.before(h)
		}
		args := append([]string{name}, x.args(h)...)
		h.redis.want("+OK\r\n", "SLOWLOG RESET")
		h.redis.want("+OK\r\n", "CONFIG SET slowlog-log-slower-than 0")
		used := h.used()
		reply := h.w.do(args...)
		used = h.used() - used
		if strings.HasPrefix(reply, "-") != (h.fault != "") || !strings.Contains(reply, h.fault) {
			h.Fatalf("%s, %s: %.200q", name, x.what, reply)
		}
		took, what := h.longest(used)
		if took > longest {
			took = time.Duration(float64(took) * h.speed())
		}
		if took < shortest {
			shortest, slowest = took, what
		}
	}
	if shortest > longest {
		h.Errorf("%s, %s: %s took %v, want at most %v", name, x.what, slowest, shortest, longest)
	} else if testing.Verbose() {
		h.Logf("%-16s %-40s %6.1f ms %s", name, x.what, float64(shortest)/1e6, slowest)
	}
}

// used is the processor time that the thread of the server's commands has used.
func (h *holdup) used() (sum time.Duration) {
	info, _ := h.redis.value("INFO", "CPU").(string)
	for line := range strings.Lines(info) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); strings.HasSuffix(key, "_main_thread") {
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				h.Fatal(err)
			}
			sum += time.Duration(s * float64(time.Second))
		}
	}
	return sum
}

// speed returns how fast the processor is now, where 1 is the speed at which the limit holds. A thread on
// the other half of the core, or another virtual machine on it, makes it slower.
func (h *holdup) speed() float64 {
	const loop, usual = "local x = 0 for i = 1, 1000000 do x = x + i % 7 end return x", 12 * time.Millisecond
	before := h.used()
	h.redis.value("EVAL", loop, "0")
	return min(1, float64(usual)/float64(max(h.used()-before, 1)))
}

// longest returns the command of SLOWLOG that took longest, when all took used of the
// processor.
func (h *holdup) longest(used time.Duration) (took time.Duration, what string) {
	entries, _ := h.redis.value("SLOWLOG", "GET", "-1").([]any)
	all := time.Duration(0)
	for _, e := range entries {
		e := e.([]any)
		us, args := e[2].(int64), e[3].([]any)
		d := time.Duration(us) * time.Microsecond
		if first := strings.ToLower(args[0].(string)); first == "info" || first == "config" || first == "slowlog" {
			continue
		}
		if all += d; d < took {
			continue
		}
		took, what = d, fmt.Sprint(args[0])
		if len(args) > 1 && h.scripts[args[1].(string)] != "" {
			what = h.scripts[args[1].(string)]
		}
	}
	if took > longest && used < all {
		took = time.Duration(float64(took) * float64(used) / float64(all))
	}
	return took, what
}

// many sends n commands, and reads their replies.
func (h *holdup) many(n int, args func(i int) []string) {
	h.Helper()
	for from := 0; from < n; from += 1000 {
		var b []byte
		to := min(from+1000, n)
		for i := from; i < to; i++ {
			b = resp.AppendCommand(b, args(i)...)
		}
		h.w.write(string(b))
		for range to - from {
			if reply := h.w.read(); strings.HasPrefix(reply, "-") {
				h.Fatalf("%.200q", reply)
			}
		}
	}
}

func (h *holdup) run(line string, more ...string) {
	h.Helper()
	h.many(1, func(int) []string { return append(strings.Fields(line), more...) })
}

// number returns n words that begin with prefix.
func number(prefix string, n int) (words []string) {
	for i := range n {
		words = append(words, prefix+strconv.Itoa(i))
	}
	return words
}

// repeated is one case, of words and then n times others.
func repeated(what, words, again string, n int) []worst {
	return []worst{{what, nil, func(*holdup) []string {
		return append(strings.Fields(words), slices.Repeat(strings.Fields(again), n)...)
	}}}
}

// after is one case that comes after others.
func after(what string, before func(h *holdup), words string, more ...string) worst {
	return worst{what, before, func(*holdup) []string { return append(strings.Fields(words), more...) }}
}

var (
	longID   = strings.Repeat("i", 255)
	longName = strings.Repeat("n", 512)
	rates    = func(what, words string) []worst { return repeated(what, words, "1000000 1000 1000000", 8) }
	window   = strconv.Itoa(ratelimit.MaxWindow)
)

func holders(command string) func(h *holdup) {
	return func(h *holdup) {
		h.many(2000, func(i int) []string { return append(strings.Fields(command), strconv.Itoa(i)) })
	}
}

func names(command string) func(h *holdup) {
	return func(h *holdup) {
		h.many(2000, func(i int) []string { return strings.Fields(fmt.Sprintf(command, i)) })
	}
}

// queued puts n messages, some of them in groups.
func queued(n, size int) func(h *holdup) {
	payload := strings.Repeat("x", size)
	return func(h *holdup) {
		h.many(n, func(i int) []string {
			return []string{"QUEUE.PUT", "q", payload, "ID", strconv.Itoa(i), "GROUP", strconv.Itoa(i)}
		})
	}
}

// scheduled gives the queue n schedules.
func scheduled(n, size int) func(h *holdup) {
	payload := strings.Repeat("x", size)
	return func(h *holdup) {
		h.many(n, func(i int) []string {
			return []string{"QUEUE.SCHEDULE", "q", strconv.Itoa(i), payload, "EVERY", "3600000"}
		})
	}
}

// takenBy takes n messages of the queue and returns their receipts.
func takenBy(h *holdup, n int) (receipts []string) {
	h.Helper()
	for len(receipts) < n {
		got, _ := h.w.value("QUEUE.TAKE", "q", strconv.Itoa(min(n-len(receipts), 1000)), "60000").([]any)
		if len(got) == 0 {
			h.Fatalf("%d messages, want %d", len(receipts), n)
		}
		for _, m := range got {
			receipts = append(receipts, m.([]any)[0].(string))
		}
	}
	return receipts
}

// filled writes n messages of a state into the queue, faster than commands would. Waiting messages share
// one group. Other messages that have a group each have their own.
func filled(h *holdup, state string, n, size int, group string) {
	h.Helper()
	if v := h.redis.value("EVAL", `
		local state, size, group = ARGV[1], tonumber(ARGV[3]), ARGV[4]
		for i = 0, ARGV[2] - 1 do
			local head = '\1\0\10'
			if group ~= '' then
				if state ~= 'waiting' then group = 'g' .. i end
				head = '\5\0\10' .. string.char(#group) .. group
				if state ~= 'dead' then redis.call('ZADD', KEYS[2], 0, string.char(#group) .. group .. struct.pack('>I6', i + 1) .. i) end
			end
			redis.call('HSET', KEYS[1], i, head .. string.rep('x', size))
			if state == 'running' then redis.call('ZADD', KEYS[3], 9000000000000, string.rep('t', 16) .. i) end
			if state == 'due' then redis.call('ZADD', KEYS[4], 9000000000000, i) end
			if state == 'dead' then redis.call('ZADD', KEYS[5], 1, i) end
		end
		return 'done'`, "5", "rd:{q}:queue", "rd:{q}:queue:groups", "rd:{q}:queue:leases", "rd:{q}:queue:due", "rd:{q}:queue:dead",
		state, strconv.Itoa(n), strconv.Itoa(size), group); v != "done" {
		h.Fatalf("%v", v)
	}
}

// receiptsOf returns the receipts of the messages that filled has written.
func receiptsOf(n int) []string { return number(strings.Repeat("t", 16), n) }

func dead(h *holdup) {
	queued(1000, 100)(h)
	for _, r := range takenBy(h, 1000) {
		h.run("QUEUE.NACK q", r, "DEAD")
	}
}

var allIDs = number("", 1000)

// ones makes a filter that has one link for each item, and nearly the most links possible.
func ones(h *holdup) {
	h.run("BF.RESERVE f 0.0001 1 EXPANSION 1")
	h.run("BF.MADD f", number("", 1040)...)
}

// links is a filter with as many links as a dump may have, which are half full.
func links(h *holdup) {
	const each = 192
	var head, bits []byte
	head = binary.LittleEndian.AppendUint64(head, 0)
	head = binary.LittleEndian.AppendUint32(head, bloomwire.MaxChainLinks)
	head = binary.LittleEndian.AppendUint32(head, 1|4)
	head = binary.LittleEndian.AppendUint32(head, 1)
	perItem := -math.Log(1e-9) / 0.480453013918201
	for range bloomwire.MaxChainLinks {
		for _, v := range []uint64{each, 8 * each, 0, math.Float64bits(1e-9), math.Float64bits(perItem)} {
			head = binary.LittleEndian.AppendUint64(head, v)
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(math.Ceil(0.693147180559945*perItem)))
		head = append(binary.LittleEndian.AppendUint64(head, 100), 0)
	}
	h.run("BF.LOADCHUNK f 1", string(head))
	for i := range each {
		bits = append(bits, 0x0f<<(i%2*4))
	}
	_ = h.redis.do("SETRANGE", "f", "0", strings.Repeat(string(bits), bloomwire.MaxChainLinks))
}

// large is a filter of nearly 16 MiB. Redis takes longer to make a larger one.
func large(h *holdup) { h.run("BF.RESERVE f 0.01 14000000 NONSCALING") }

func fields(n int) func(h *holdup) {
	return func(h *holdup) {
		value := strings.Repeat("v", 100)
		h.many(n, func(i int) []string { return []string{"TTLHASH.SET", "h", strconv.Itoa(i), value, "100000"} })
	}
}

// places are 3,000 members, in one place or over the world.
func places(apart float64) (args []string) {
	const n = 3000
	for i := range n {
		f := float64(i%1000)/500 - 1
		args = append(args, fmt.Sprint(170*apart*f), fmt.Sprint(80*apart*float64(i)/float64(n)), "m"+strconv.Itoa(i))
	}
	return args
}

func placed(apart float64) func(h *holdup) {
	return func(h *holdup) { h.run("GEOIDX.ADD g", places(apart)...) }
}

var together = number("", ttlhash.MaxTogether)
