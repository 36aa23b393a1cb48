package engine

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/lua"
)

const (
	busy         = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	busyFunction = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
	busyExec     = "EXECABORT Transaction discarded because of: " + busy
)

// A scriptRun is a script that is running.
type scriptRun struct {
	interrupt lua.Interrupt
	group     *Group    // of the session, nil for none
	deadline  time.Time // zero for none
	onCheck   func()    // for tests: called by checkInterrupt
	wrote     atomic.Bool
	began     time.Time
	function  string          // the name; empty: it is a script of EVAL
	command   func() [][]byte // copies FCALL's arguments
	held      shardSet
	all       bool
	slow      chan struct{} // not nil once it has run for longer than lua-time-limit, closed at its end
}

// scriptRuns has the scripts that run, and marks scripts that run for too long. It uses the system's
// clock: a script takes real time whatever the engine's clock shows.
type scriptRuns struct {
	shards   *[shardCount]shard
	slow     atomic.Int32 // how many are slow
	mu       sync.Mutex
	runs     map[*scriptRun]struct{}
	watchdog *time.Timer   // calls find; nil when no call is due
	over     chan struct{} // closed by stopAll
	loads    lua.Interrupt // of libraries that are being loaded
}

// begin adds a run, and starts the watchdog if it isn't running. limit returns the time after which
// a run is slow, 0 for never.
func (rs *scriptRuns) begin(r *scriptRun, limit func() time.Duration) {
	r.began = time.Now()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.runs == nil {
		rs.runs = map[*scriptRun]struct{}{}
	}
	rs.runs[r] = struct{}{}
	if rs.stopped() || r.group.stopped() {
		r.interrupt.Set()
	}
	if rs.watchdog == nil && !rs.stopped() {
		if d := limit(); d > 0 {
			rs.watchdog = time.AfterFunc(d, func() { rs.find(limit) })
		}
	}
}

func (rs *scriptRuns) end(r *scriptRun) {
	rs.mu.Lock()
	delete(rs.runs, r)
	rs.mu.Unlock()
	if r.slow == nil {
		return
	}
	r.held.each(func(i int) { rs.shards[i].mu.shut() })
	close(r.slow)
	r.slow = nil
	rs.slow.Add(-1)
}

// find marks the slow runs, opens their locks, and sets the watchdog for the next run that may
// become slow. No run stops the timer at its end: scripts are short and many.
func (rs *scriptRuns) find(limit func() time.Duration) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.watchdog != nil {
		rs.watchdog.Stop()
		rs.watchdog = nil
	}
	d := limit()
	if d <= 0 {
		return
	}
	next := time.Duration(0)
	for r := range rs.runs {
		left := d - time.Since(r.began)
		if left <= 0 && r.slow == nil {
			r.slow = make(chan struct{})
			rs.slow.Add(1)
			r.held.each(func(i int) { rs.shards[i].mu.open(r.slow) })
		}
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	if next > 0 {
		rs.watchdog = time.AfterFunc(next, func() { rs.find(limit) })
	}
}

// killable is how long a run takes before it can be killed, if it isn't slow before. Redis answers the command once the
// run is slow. Here it is answered meanwhile, and must not hit a run that is short.
const killable = 100 * time.Millisecond

// kill stops the killable runs that have written nothing: scripts of EVAL, or functions. other reports
// whether there are killable runs of the other kind.
func (rs *scriptRuns) kill(eval bool) (killed, unkillable int, other bool) { //nolint:revive // the parameter is what to kill
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r := range rs.runs {
		switch {
		case r.slow == nil && time.Since(r.began) < killable:
		case r.wrote.Load():
			unkillable++
		case eval != (r.function == ""):
			other = true
		default:
			r.interrupt.Set()
			killed++
		}
	}
	return killed, unkillable, other
}

// function returns the slow function that has run for longest, or nil. eval reports whether a script of EVAL is slow.
// The caller holds mu.
func (rs *scriptRuns) function() (longest *scriptRun, eval bool) {
	for r := range rs.runs {
		switch {
		case r.slow == nil:
		case r.function == "":
			eval = true
		case longest == nil || r.began.Before(longest.began):
			longest = r
		}
	}
	return longest, eval
}

// stats returns the name of the function that has run for longest, its command, and when it began. eval reports whether
// a script of EVAL is slow.
func (rs *scriptRuns) stats() (name string, command [][]byte, since time.Time, eval bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, eval := rs.function()
	for other := range rs.runs { // also runs that are not slow
		if other.function != "" && (r == nil || other.began.Before(r.began)) {
			r = other
		}
	}
	if r == nil {
		return "", nil, since, eval
	}
	return r.function, r.command(), r.began, eval
}

// busyWith is the error of a command that a slow run is in the way of.
func (rs *scriptRuns) busyWith() string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, eval := rs.function(); r != nil && !eval {
		return busyFunction
	}
	return busy
}

// stopAll stops every run, whatever it has written, and each run that begins later.
func (rs *scriptRuns) stopAll() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !rs.stopped() {
		close(rs.over)
	}
	rs.loads.Set()
	for r := range rs.runs {
		r.interrupt.Set()
	}
}

// stopWatchdog ends the timer, which would keep a closed engine in memory until it fires.
func (rs *scriptRuns) stopWatchdog() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.watchdog != nil {
		rs.watchdog.Stop()
		rs.watchdog = nil
	}
}

func (rs *scriptRuns) stopped() bool {
	select {
	case <-rs.over:
		return true
	default:
		return false
	}
}

// inTheWay reports whether a slow run holds one of set, or everything.
func (rs *scriptRuns) inTheWay(set *shardSet) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r := range rs.runs {
		if r.slow != nil && (r.all || set.minus(&r.held) != *set) {
			return true
		}
	}
	return false
}

// busyFor reports whether a command would have to wait for a slow script.
func (c *call) busyFor(cmd *command) bool {
	if cmd.flags&flagAllowBusy != 0 {
		return false
	}
	var set shardSet
	switch {
	case cmd.Name == "exec":
		for _, q := range c.s.queue {
			if !c.lockKeys(&set, q.cmd, q.args) {
				set.fill()
			}
		}
		for _, w := range c.s.watching {
			set.add(shardOf(view(w.key)))
		}
	case !c.lockKeys(&set, cmd, c.args):
		set.fill()
	}
	return c.e.scripts.inTheWay(&set)
}

// scriptLimit is after how long a script is slow, 0 for never.
func (e *Engine) scriptLimit() time.Duration {
	e.config.mu.Lock()
	text := e.config.values["lua-time-limit"]
	e.config.mu.Unlock()
	ms, _ := strconv.ParseInt(text, 10, 64) // CONFIG SET has checked it
	return time.Duration(min(ms, int64(1)<<40)) * time.Millisecond
}
