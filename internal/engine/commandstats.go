package engine

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// commandStats count the calls of one command, for INFO commandstats and latencystats and for LATENCY
// HISTOGRAM. Reading the clock twice for each GET would slow it down. So only one in sampleEvery calls of a
// quick command is timed, and its time counts for all of them.
type commandStats struct {
	name             string
	calls            [statStripes]stripe // by session, so that cores share none
	rejected, failed atomic.Int64
	// Of the timed calls. Each counts as often as the number of calls that it stands for.
	weight, nanos atomic.Int64
	times         [timeBuckets]atomic.Int64
}

// A stripe is a counter with a cache line of its own.
type stripe struct {
	n atomic.Int64
	_ [cacheLine - 8]byte
}

const (
	statStripes = 32
	sampleEvery = 16
	// largeArg is the length in bytes of a last argument that makes a quick command slow.
	largeArg = 128 << 10
)

// Buckets of times: one below 1024 ns, and partsPerOctave for each power of two from there to 2^30 ns,
// which is about a second. All longer times are in the last one.
const (
	firstOctave    = 10
	octaves        = 20
	octavePartBits = 4
	partsPerOctave = 1 << octavePartBits
	timeBuckets    = 1 + octaves*partsPerOctave
)

func timeBucket(d time.Duration) int {
	n := min(uint64(max(d, 0)), 1<<(firstOctave+octaves)-1)
	if n < 1<<firstOctave {
		return 0
	}
	octave := bits.Len64(n) - 1 - firstOctave
	part := int(n>>(octave+firstOctave-octavePartBits)) & (partsPerOctave - 1) //nolint:gosec // few bits
	return 1 + octave*partsPerOctave + part
}

// bucketEnd is the longest time in a bucket, in ns.
func bucketEnd(i int) int64 {
	if i == 0 {
		return 1<<firstOctave - 1
	}
	octave, part := (i-1)/partsPerOctave, int64((i-1)%partsPerOctave)
	return (partsPerOctave+part+1)<<(octave+firstOctave-octavePartBits) - 1
}

func (st *commandStats) observe(took time.Duration, weight int64) {
	st.weight.Add(weight)
	st.nanos.Add(int64(took) * weight)
	st.times[timeBucket(took)].Add(weight)
}

// total is the number of calls.
func (st *commandStats) total() (n int64) {
	for i := range st.calls {
		n += st.calls[i].n.Load()
	}
	return n
}

// micros is the time of all calls.
func (st *commandStats) micros(calls int64) int64 {
	weight := st.weight.Load()
	if weight == 0 {
		return 0
	}
	return int64(float64(st.nanos.Load()) / 1000 * float64(calls) / float64(weight))
}

// percentile is the time in µs in which p percent of the calls ended.
func (st *commandStats) percentile(p float64) float64 {
	var counts [timeBuckets]int64
	sum := int64(0)
	for i := range counts {
		counts[i] = st.times[i].Load()
		sum += counts[i]
	}
	left := float64(sum) * p / 100
	for i, n := range counts {
		if left -= float64(n); n > 0 && left <= 0 {
			return float64(bucketEnd(i)) / 1000
		}
	}
	return 0
}

func (st *commandStats) reset() {
	for i := range st.calls {
		st.calls[i].n.Store(0)
	}
	for _, n := range []*atomic.Int64{&st.rejected, &st.failed, &st.weight, &st.nanos} {
		n.Store(0)
	}
	for i := range st.times {
		st.times[i].Store(0)
	}
}

// statsTable has the commandStats of an engine, each from its first use on.
type statsTable struct {
	own    []atomic.Pointer[commandStats] // by command.number
	mu     sync.Mutex
	others map[string]*commandStats // of commands that the engine doesn't know: see Session.Begin
}

func (t *statsTable) of(cmd *command) *commandStats {
	p := &t.own[cmd.number]
	if st := p.Load(); st != nil {
		return st
	}
	p.CompareAndSwap(nil, &commandStats{name: cmd.Name})
	return p.Load()
}

// named is of for a name, like client|list.
func (t *statsTable) named(name string) *commandStats {
	top, sub, isSub := strings.Cut(name, "|")
	cmd := commands[top]
	if cmd != nil && isSub {
		cmd = cmd.subIndex[sub]
	}
	if cmd != nil {
		return t.of(cmd)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.others[name]
	if st == nil {
		st = &commandStats{name: name}
		if t.others == nil {
			t.others = map[string]*commandStats{}
		}
		t.others[name] = st
	}
	return st
}

// all returns the statistics that have counted something, by name.
func (t *statsTable) all() (all []*commandStats) {
	for i := range t.own {
		if st := t.own[i].Load(); st != nil {
			all = append(all, st)
		}
	}
	t.mu.Lock()
	for _, st := range t.others {
		all = append(all, st)
	}
	t.mu.Unlock()
	all = slices.DeleteFunc(all, func(st *commandStats) bool {
		return st.total() == 0 && st.rejected.Load() == 0 && st.failed.Load() == 0
	})
	slices.SortFunc(all, func(a, b *commandStats) int { return strings.Compare(a.name, b.name) })
	return all
}

func (t *statsTable) reset() {
	for _, st := range t.all() {
		st.reset()
	}
}

var processBegan = time.Now()

// clockNow is a reading of the monotonic clock.
func clockNow() time.Duration { return time.Since(processBegan) }

// handle runs the handler of the command, and counts and times it. A command that waits is counted when
// it has its reply.
func (c *call) handle() {
	if c.e.loading {
		c.cmd.handler(c)
		return
	}
	cmd, args, from := c.cmd, c.args, len(c.w)
	st := c.s.as
	if st == nil || cmd.flags&flagScript == 0 {
		st = c.e.commandStats.of(cmd)
	}
	calls := &st.calls[c.s.stripe].n
	outer, began := c.weight, c.began // EXEC runs its commands in its own call
	if c.weight = c.weigh(cmd, args, calls.Load()); c.weight > 0 {
		c.began = clockNow()
	}
	cmd.handler(c)
	if c.wait == nil {
		calls.Add(1)
		if len(c.w) > from && c.w[from] == '-' {
			st.failed.Add(1)
		}
		if c.weight > 0 {
			took := clockNow() - c.began
			st.observe(took, c.weight)
			c.e.took(c, cmd, args, took)
		}
	}
	c.weight, c.began = outer, began
}

// weigh returns how many calls this one stands for, if it is to be timed, and 0 if it is not.
func (c *call) weigh(cmd *command, args [][]byte, calls int64) int64 {
	quick := cmd.flags&flagQuick != 0
	if cmd.flags&flagScript != 0 {
		last := c.s.lastScript
		quick = last != nil && last.native != nil && last.digest == text(args[1])
	}
	quick = quick || c.scripted && c.running == nil // a native gives its commands little work
	switch {
	case !quick, c.e.slow.exact.Load(), len(args[len(args)-1]) >= largeArg:
		return 1
	case calls%sampleEvery == 0:
		return sampleEvery
	}
	return 0
}

// timeFromNow begins to time a command that weigh took for quick and that is not.
func (c *call) timeFromNow() {
	if c.weight == 0 {
		c.weight, c.began = 1, clockNow()
	}
}

// took notes how long a command took, with its original arguments.
func (e *Engine) took(c *call, cmd *command, args [][]byte, d time.Duration) {
	if slower := e.slow.slower.Load(); slower >= 0 && int64(d) >= slower {
		e.slow.add(c, cmd, args, d)
	}
	if least := e.latency.threshold.Load(); least > 0 && d.Milliseconds() >= least {
		e.latency.add(cmd, e.clock.Now().Unix(), d.Milliseconds())
	}
}

// countReply counts a command that has waited, with its reply.
func (w *Wait) countReply(reply []byte) {
	st := w.s.e.commandStats.of(w.cmd)
	st.calls[w.s.stripe].n.Add(1)
	if reply[0] == '-' {
		st.failed.Add(1)
		w.s.e.errors.count(reply)
	}
}

// countServed notes the time of a command that got what it waited for, without the wait. As on Redis, a
// command that timed out has no time and is not in the slow log.
func (w *Wait) countServed() {
	w.s.e.commandStats.of(w.cmd).observe(0, 1)
	w.s.e.took(&call{e: w.s.e, s: w.s}, w.cmd, w.args, 0)
}

// Begin says that the session runs scripts for a command that the engine doesn't know, until End. The
// statistics and the slow log show the command instead of the scripts. name is in lower case, and there is a
// bounded number of names. args must not change until End.
func (s *Session) Begin(name string, args [][]byte) {
	if s.asName != name {
		s.asName, s.lastAs = name, s.e.commandStats.named(name)
	}
	s.as, s.asArgs, s.ran = s.lastAs, args, false
	// Commands of the caller's own may wait for others. So does CLIENT UNBLOCK.
	s.asTimed = (s.e.slow.exact.Load() || s.as.calls[s.stripe].n.Load()%sampleEvery == 0) && name != "client|unblock" && len(args) > 0 && (isACL(name) || s.find(args[0]) != nil)
	if s.asTimed {
		s.asBegan = clockNow()
	}
}

// End says that the command of Begin has its reply. A command for which the engine ran nothing counts only if
// the caller has answered it. failed says that the answer was an error.
func (s *Session) End(answered, failed bool) { //nolint:revive // the parameters are the state
	if answered && !s.ran {
		s.as.calls[s.stripe].n.Add(1)
		if failed {
			s.as.failed.Add(1)
		}
		if s.asTimed {
			s.answered(clockNow() - s.asBegan)
		}
	}
	s.as, s.asArgs = nil, nil
}

// Answered counts a command that the caller has answered without Begin. name is as for Begin. Any goroutine may call it.
func (s *Session) Answered(name string, failed bool) { //nolint:revive // the parameter is the state
	st := s.e.commandStats.named(name)
	st.calls[s.stripe].n.Add(1)
	if failed {
		st.failed.Add(1)
	}
}

// Refused counts a command that the caller has refused because its client has no right to it. name is as for Begin.
func (s *Session) Refused(name string) { s.e.commandStats.named(name).rejected.Add(1) }

// ACLLogLen is how many entries ACL LOG has at most.
func (s *Session) ACLLogLen() int { return int(s.e.config.aclLog.Load()) }

// countError counts an error reply. It leaves out the reply of a script that has the error of a command of the script.
func (s *Session) countError(reply []byte) {
	if h := s.host; h != nil && len(h.failed) > 0 {
		counted := bytes.HasPrefix(reply, h.failed)
		if h.failed = h.failed[:0]; counted {
			return
		}
	}
	s.e.errors.count(reply)
}

// CountError counts an error reply of the caller's. Any goroutine may call it.
func (s *Session) CountError(text string) { s.e.errors.count([]byte("-" + text)) }

// answered notes how long a command took that the caller has answered.
func (s *Session) answered(took time.Duration) {
	weight := int64(sampleEvery)
	if s.e.slow.exact.Load() {
		weight = 1
	}
	s.as.observe(took, weight)
	cmd := s.runnable(s.asArgs)
	if isACL(s.asName) {
		cmd = &command{Command: rediscmd.Command{Name: s.asName}}
	}
	if cmd != nil {
		s.e.took(&call{e: s.e, s: s}, cmd, s.asArgs, took)
	}
}

// isACL reports whether a command is ACL's, which Redis times and the engine doesn't know.
func isACL(name string) bool { return strings.HasPrefix(name, "acl|") }

func (e *Engine) infoCommands(_ *call, b *strings.Builder) {
	for _, st := range e.commandStats.all() {
		calls := st.total()
		micros := st.micros(calls)
		each := 0.0
		if calls > 0 {
			each = float64(micros) / float64(calls)
		}
		fmt.Fprintf(b, "cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d\r\n",
			st.name, calls, micros, each, st.rejected.Load(), st.failed.Load())
	}
}

func (e *Engine) infoLatencies(_ *call, b *strings.Builder) {
	percentiles := e.latency.percentiles.Load()
	if percentiles == nil || len(*percentiles) == 0 || e.latency.off.Load() {
		return
	}
	for _, st := range e.commandStats.all() {
		if st.weight.Load() == 0 {
			continue
		}
		for i, p := range *percentiles {
			if i == 0 {
				fmt.Fprintf(b, "latency_percentiles_usec_%s:", st.name)
			} else {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "p%s=%.3f", strconv.FormatFloat(p, 'g', -1, 64), st.percentile(p))
		}
		b.WriteString("\r\n")
	}
}
