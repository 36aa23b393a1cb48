package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// memory has the limit of the memory of keys, and the policy beyond it.
type memory struct {
	_    [cacheLine]byte // used is written often, its neighbours are only read
	used atomic.Int64    // bytes that all keys take
	_    [cacheLine]byte

	peak      atomic.Int64 // the most of used, as far as it was seen
	limit     atomic.Int64 // 0 for none
	policy    atomic.Pointer[policy]
	counts    atomic.Bool // the policy's lfu
	samples   atomic.Int64
	tenacity  atomic.Int64
	logFactor atomic.Int64
	decay     atomic.Int64 // minutes

	evictor evictor
}

// A policy says which keys go when there are too many.
type policy struct {
	name     string
	volatile bool // only keys with a time to live
	choice   choice
}

type choice uint8

const (
	chooseNone choice = iota
	chooseIdle        // the longest unused
	chooseRare        // the least often used
	chooseSoon        // the next to expire
	chooseRandom
)

var evictionPolicies = []policy{
	{"volatile-lru", true, chooseIdle},
	{"volatile-lfu", true, chooseRare},
	{"volatile-random", true, chooseRandom},
	{"volatile-ttl", true, chooseSoon},
	{"allkeys-lru", false, chooseIdle},
	{"allkeys-lfu", false, chooseRare},
	{"allkeys-random", false, chooseRandom},
	{"noeviction", false, chooseNone},
}

func policyNames() string {
	var names []string
	for _, p := range evictionPolicies {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func findPolicy(name string) *policy {
	i := slices.IndexFunc(evictionPolicies, func(p policy) bool { return strings.EqualFold(p.name, name) })
	if i < 0 {
		return nil
	}
	return &evictionPolicies[i]
}

// checkMemory checks MaxMemory and MaxMemoryPolicy.
func (o *Options) checkMemory() (err error) {
	if o.MaxMemory < 0 {
		err = fmt.Errorf("engine: MaxMemory is %d; want at least 0", o.MaxMemory)
	}
	if o.MaxMemoryPolicy != "" && findPolicy(o.MaxMemoryPolicy) == nil {
		err = errors.Join(err, fmt.Errorf("engine: MaxMemoryPolicy is %q; want one of %s", o.MaxMemoryPolicy, policyNames()))
	}
	return err
}

// memorySettings are the parameters of memory.
var memorySettings = map[string]setting{
	"maxmemory":                   {"0", mustBe(func(s string) bool { _, ok := parseMemory(s); return ok }, "argument must be a memory value")},
	"maxmemory-policy":            {"noeviction", mustBe(func(s string) bool { return findPolicy(s) != nil }, "argument(s) must be one of the following: "+policyNames())},
	"maxmemory-samples":           number("5", 1, 1<<31-1),
	"maxmemory-eviction-tenacity": number("10", 0, 100),
	"lfu-log-factor":              number("10", 0, 1<<31-1),
	"lfu-decay-time":              number("1", 0, 1<<31-1),
}

// parseMemory reads a number of bytes with a unit, as redis.conf has it: 100,
// 100b, 1k is 1000, 1kb is 1024, and so for m, mb, g and gb.
func parseMemory(s string) (int64, bool) {
	digits := strings.TrimRight(strings.ToLower(s), "bkmg")
	times := int64(1)
	switch strings.ToLower(s[len(digits):]) {
	case "", "b":
	case "k":
		times = 1e3
	case "kb":
		times = 1 << 10
	case "m":
		times = 1e6
	case "mb":
		times = 1 << 20
	case "g":
		times = 1e9
	case "gb":
		times = 1 << 30
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > (1<<63-1)/times { //nolint:gosec // 63 bits
		return 0, false
	}
	return int64(n) * times, true //nolint:gosec // 63 bits
}

// set sets a parameter to a checked value, and returns the value for CONFIG GET.
func (m *memory) set(name, value string) string {
	n, _ := parseInt([]byte(value))
	switch name {
	case "maxmemory":
		n, _ = parseMemory(value)
		m.limit.Store(n)
		return strconv.FormatInt(n, 10)
	case "maxmemory-policy":
		p := findPolicy(value)
		m.policy.Store(p)
		m.counts.Store(p.choice == chooseRare)
		m.evictor.reset()
		return p.name
	case "maxmemory-samples":
		m.samples.Store(n)
	case "maxmemory-eviction-tenacity":
		m.tenacity.Store(n)
	case "lfu-log-factor":
		m.logFactor.Store(n)
	case "lfu-decay-time":
		m.decay.Store(n)
	}
	return value
}

// MaxMemory returns how many bytes the keys may take with their values, 0 for no limit. It
// is the current limit: CONFIG SET changes it.
func (e *Engine) MaxMemory() int64 { return e.memory.limit.Load() }

// UsedMemory is how many bytes the keys with their values take, as used_memory of INFO.
func (e *Engine) UsedMemory() int64 { return e.memory.used.Load() }

// ScriptMemory is how many bytes the scripts that run hold together.
func (e *Engine) ScriptMemory() int64 { return e.lua.Held() }

func (m *memory) over() bool {
	limit := m.limit.Load()
	return limit != 0 && m.used.Load() > limit
}

// patience is how long a command evicts for others before it goes on.
func (m *memory) patience() time.Duration {
	t := m.tenacity.Load()
	switch {
	case t <= 10:
		return time.Duration(t) * 50 * time.Microsecond
	case t == 100:
		return 1<<63 - 1
	}
	d := float64(500 * time.Microsecond)
	for ; t > 10; t-- {
		d *= 1.15
	}
	return time.Duration(d)
}

const errOOM = "OOM command not allowed when used memory > 'maxmemory'."

// crowded makes room for cmd when the keys take more than the limit. It returns why the command
// can't run, "" when it can.
//
// Redis evicts before reads as well. Here only commands that may need more memory evict; the rest
// above the limit goes in the background. A script runs, and its commands, or the script as a
// whole, are refused later.
func (c *call) crowded(cmd *command) string {
	c.oom = false
	s := c.s
	queues := s.inMulti && cmd.flags&flagControl == 0
	exec := s.inMulti && cmd.Name == "exec"
	if cmd.flags&(flagDenyOOM|flagScript) == 0 && !queues && !exec || c.e.loading || c.e.master.Load() != nil || !c.e.memory.over() {
		return ""
	}
	c.oom = c.e.makeRoom() == roomNone
	switch {
	case !c.oom:
		return ""
	case exec:
		if slices.ContainsFunc(s.queue, func(q queued) bool { return c.denied(q.cmd, q.args) }) {
			s.discard()
			return "EXECABORT Transaction discarded because of: " + errOOM
		}
	case queues || cmd.flags&flagDenyOOM != 0:
		return errOOM
	}
	return ""
}

// denied says whether a queued command may not be run above the limit. A script
// may when it has no flags in its first line; then its commands are refused.
func (c *call) denied(cmd *command, args [][]byte) bool {
	if cmd.flags&flagScript == 0 {
		return cmd.flags&flagDenyOOM != 0
	}
	if cmd.flags&flagFunction != 0 {
		f := c.e.functions.find(args[1])
		return f != nil && f.needsRoom()
	}
	sc := c.e.scriptOf(cmd, args)
	return sc != nil && sc.needsRoom()
}

// scriptOf returns the script that EVAL, EVALSHA and their relatives would run, or nil if there is none.
func (e *Engine) scriptOf(cmd *command, args [][]byte) *script {
	if strings.HasPrefix(cmd.Name, "evalsha") {
		return e.cache.find(args[1])
	}
	sc, err := e.cache.load(args[1], false, e)
	if err != nil {
		return nil
	}
	return sc
}

// onlyReads reports whether a command that runs a script can't change keys or publish a message: the command
// says so by its name, or the script by its flags.
func (e *Engine) onlyReads(cmd *command, args [][]byte) bool {
	if strings.HasSuffix(cmd.Name, "_ro") {
		return true
	}
	if cmd.flags&flagFunction != 0 {
		f := e.functions.find(args[1])
		return f != nil && f.readOnly
	}
	sc := e.scriptOf(cmd, args)
	return sc != nil && sc.readOnly
}

// needsRoom says whether a script as a whole is refused above the limit.
func (sc *script) needsRoom() bool { return sc.mayWrite && !sc.allowOOM }

// sharesNoValues reports whether Redis would share no values between keys, because each key has an
// access time of its own. Here no keys share values; OBJECT REFCOUNT answers as Redis does.
func (m *memory) sharesNoValues() bool {
	choice := m.policy.Load().choice
	return m.limit.Load() != 0 && (choice == chooseIdle || choice == chooseRare)
}

// initMemory sets the parameters from the options.
func (e *Engine) initMemory() {
	for name, s := range memorySettings {
		e.memory.set(name, s.value)
	}
	e.config.values["maxmemory"] = e.memory.set("maxmemory", strconv.FormatInt(e.opts.MaxMemory, 10))
	if p := e.opts.MaxMemoryPolicy; p != "" {
		e.config.values["maxmemory-policy"] = e.memory.set("maxmemory-policy", p)
	}
}
