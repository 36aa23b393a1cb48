package engine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/stream"
)

// config holds the settings that CONFIG can read and set. It has no entry for settings of Redis
// that the engine lacks.
type config struct {
	events atomic.Uint32
	// tracked is how many keys CLIENT TRACKING remembers at most, 0 for no limit. Beyond it clients
	// are told of changes of keys that have not changed.
	tracked atomic.Int64
	aclLog  atomic.Int64 // entries of ACL LOG
	mu      sync.Mutex
	values  map[string]string
	limits  atomic.Pointer[limits]
}

// limits say how large a value of a small form may grow before it takes the large form.
type limits struct {
	hashEntries, hashValue int
	setEntries             int
	zsetEntries, zsetValue int
	stream                 stream.Limits
}

var defaultLimits = limits{hashEntries: 512, hashValue: 64, setEntries: 512, zsetEntries: 128, zsetValue: 64, stream: stream.DefaultLimits}

func (c *call) limits() *limits { return c.e.config.limits.Load() }

// of finds the limit that a parameter sets, nil when it is none.
func (l *limits) of(name string) *int {
	switch strings.Replace(name, "ziplist", "listpack", 1) {
	case "hash-max-listpack-entries":
		return &l.hashEntries
	case "hash-max-listpack-value":
		return &l.hashValue
	case "set-max-intset-entries":
		return &l.setEntries
	case "zset-max-listpack-entries":
		return &l.zsetEntries
	case "zset-max-listpack-value":
		return &l.zsetValue
	case "stream-node-max-entries":
		return &l.stream.Entries
	case "stream-node-max-bytes":
		return &l.stream.Bytes
	}
	return nil
}

// A setting is a parameter with its default. check says why it can't have a value.
type setting struct {
	value string
	check func(string) error
}

func init() {
	maps.Copy(settings, memorySettings)
	maps.Copy(settings, idleSettings)
}

// idleSettings can be set and have no effect: the engine has no timer of this kind, always frees memory in the background, and
// sends replicas their copy at once, without a file where the replica can take it. Programs set them on any server.
var idleSettings = map[string]setting{
	"activerehashing":             {"yes", yesOrNo},
	"dynamic-hz":                  {"yes", yesOrNo},
	"lazyfree-lazy-eviction":      {"no", yesOrNo},
	"lazyfree-lazy-expire":        {"no", yesOrNo},
	"lazyfree-lazy-server-del":    {"no", yesOrNo},
	"lazyfree-lazy-user-del":      {"no", yesOrNo},
	"lazyfree-lazy-user-flush":    {"no", yesOrNo},
	"repl-diskless-sync":          {"yes", yesOrNo},
	"repl-diskless-sync-delay":    number("5", 0, math.MaxInt32),
	"replica-lazy-flush":          {"no", yesOrNo},
	"slave-lazy-flush":            {"no", yesOrNo},
	"stop-writes-on-bgsave-error": {"yes", yesOrNo},
}

// settings are the parameters.
var settings = map[string]setting{
	"hash-max-listpack-entries": number("512", 0, math.MaxInt64),
	"hash-max-ziplist-entries":  number("512", 0, math.MaxInt64),
	"hash-max-listpack-value":   number("64", 0, math.MaxInt64),
	"hash-max-ziplist-value":    number("64", 0, math.MaxInt64),
	"set-max-intset-entries":    number("512", 0, math.MaxInt64),
	"zset-max-listpack-entries": number("128", 0, math.MaxInt64),
	"zset-max-ziplist-entries":  number("128", 0, math.MaxInt64),
	"zset-max-listpack-value":   number("64", 0, math.MaxInt64),
	"zset-max-ziplist-value":    number("64", 0, math.MaxInt64),
	"stream-node-max-entries":   number("100", 0, math.MaxInt64),
	"stream-node-max-bytes":     {"4096", mustBe(func(s string) bool { _, ok := parseMemory(s); return ok }, "argument must be a memory value")},
	"list-max-listpack-size":    number("-2", math.MinInt64, math.MaxInt64), // read by tools, without effect: chunks have one size
	"list-max-ziplist-size":     number("-2", math.MinInt64, math.MaxInt64),
	"list-compress-depth":       number("0", math.MinInt64, math.MaxInt64),
	"hll-sparse-max-bytes":      number("3000", 0, math.MaxInt64),
	"tracking-table-max-keys":   number("1000000", 0, math.MaxInt64),
	"notify-keyspace-events":    {"", mustBe(func(s string) bool { _, ok := parseEvents(s); return ok }, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")},
	"databases":                 {"16", immutable},
	"proto-max-bulk-len":        {"536870912", immutable},
	"save":                      {"", mustBe(func(s string) bool { return s == "" }, "argument must be empty: there are no snapshots")},
	"appendonly":                {"no", yesOrNo},
	"appendfsync":               {"everysec", immutable},
	"dir":                       {"", immutable},
	"dbfilename":                {"dump.rdb", mustBe(func(string) bool { return false }, "can't set protected config")},
	"cluster-enabled":           {"no", immutable},
	"active-expire-effort":      number("1", 1, 10),
	"slave-read-only":           {"yes", yesOrNo},
	"replica-read-only":         {"yes", yesOrNo},
	"slave-serve-stale-data":    {"yes", yesOrNo},
	"replica-serve-stale-data":  {"yes", yesOrNo},
	"min-replicas-to-write":     number("0", 0, math.MaxInt32),
	"min-slaves-to-write":       number("0", 0, math.MaxInt32),
	"min-replicas-max-lag":      number("10", 0, math.MaxInt32),
	"min-slaves-max-lag":        number("10", 0, math.MaxInt32),
	"replica-priority":          number("100", 0, math.MaxInt32), // for Sentinel, which reads it from INFO
	"slave-priority":            number("100", 0, math.MaxInt32),
	"replica-announced":         {"yes", yesOrNo},
	"replica-announce-ip":       {"", anyText},
	"slave-announce-ip":         {"", anyText},
	"replica-announce-port":     number("0", 0, 65535),
	"slave-announce-port":       number("0", 0, 65535),
	"repl-ping-replica-period":  number("10", 1, math.MaxInt32),
	"repl-ping-slave-period":    number("10", 1, math.MaxInt32),
	"repl-timeout":              number("60", 1, math.MaxInt32),
	"repl-backlog-size":         {"1048576", mustBe(func(s string) bool { n, ok := parseMemory(s); return ok && n > 0 }, "argument must be a memory value")},
	"repl-backlog-ttl":          number("3600", 0, math.MaxInt32),
	"masteruser":                {"", anyText},
	"masterauth":                {"", anyText},
	"tls-replication":           {"no", yesOrNo},
	"lua-time-limit":            number("5000", 0, math.MaxInt64),
	"busy-reply-threshold":      number("5000", 0, math.MaxInt64),
	"slowlog-log-slower-than":   number("10000", -1, math.MaxInt64),
	"slowlog-max-len":           number("128", 0, math.MaxInt64),
	"acllog-max-len":            number("128", 0, 100_000), // for the server, which has the log
	"latency-monitor-threshold": number("0", 0, math.MaxInt64),
	"latency-tracking":          {"yes", yesOrNo},
	"latency-tracking-info-percentiles": {"50 99 99.9", func(s string) error {
		_, err := parsePercentiles(s)
		return err
	}},
}

// OuterSettings are the parameters of the server in front of the engine. Any goroutine may call the methods.
type OuterSettings = interface {
	// Settings returns all parameters with their values now. Each is one of outerSettings.
	Settings() map[string]string
	// SetSettings sets parameters to values that the engine has checked, all or none. With an error it returns the
	// name of the parameter at fault.
	SetSettings(values map[string]string) (name string, err error)
}

// outerSettings say which values parameters of [OuterSettings] may have.
var outerSettings = map[string]setting{
	"requirepass": {"", anyText},
	"timeout":     number("0", 0, math.MaxInt32),
	"port":        {"", immutable},
	"maxclients":  {"", immutable},
}

// otherNames are the parameters that have two names.
var otherNames = func() map[string]string {
	both := make(map[string]string)
	for name, other := range map[string]string{
		"lua-time-limit": "busy-reply-threshold", "slave-read-only": "replica-read-only",
		"min-slaves-to-write": "min-replicas-to-write", "min-slaves-max-lag": "min-replicas-max-lag", "slave-priority": "replica-priority",
		"slave-announce-ip": "replica-announce-ip", "slave-announce-port": "replica-announce-port", "slave-lazy-flush": "replica-lazy-flush",
		"slave-serve-stale-data": "replica-serve-stale-data", "repl-ping-slave-period": "repl-ping-replica-period",
	} {
		both[name], both[other] = other, name
	}
	return both
}()

// mustBe is a check that returns reason for a value that is not ok.
func mustBe(ok func(string) bool, reason string) func(string) error {
	err := errors.New(reason)
	return func(s string) error {
		if ok(s) {
			return nil
		}
		return err
	}
}

var (
	immutable = mustBe(func(string) bool { return false }, "can't set immutable config")
	yesOrNo   = mustBe(func(s string) bool { return s == "yes" || s == "no" }, "argument must be 'yes' or 'no'")

	anyText = func(string) error { return nil }

	errNoInteger = errors.New("argument couldn't be parsed into an integer")
)

// number is a setting that takes integers from least to most.
func number(value string, least, most int64) setting {
	outside := fmt.Errorf("argument must be between %d and %d inclusive", least, most)
	return setting{value, func(s string) error {
		switch n, ok := parseInt([]byte(s)); {
		case !ok:
			return errNoInteger
		case n < least || n > most:
			return outside
		}
		return nil
	}}
}

func (cf *config) init() {
	l := defaultLimits
	cf.limits.Store(&l)
	cf.values = map[string]string{}
	cf.tracked.Store(1_000_000)
	for name, s := range settings {
		cf.values[name] = s.value
	}
}

func cmdConfigGet(c *call) {
	values := make(map[string]string, len(settings)+len(outerSettings))
	if c.s.outer != nil {
		maps.Copy(values, c.s.outer.Settings())
	}
	cf := &c.e.config
	cf.mu.Lock()
	maps.Copy(values, cf.values)
	cf.mu.Unlock()
	var names []string
	for name := range values {
		for _, pattern := range c.args[2:] {
			if glob.MatchFold(pattern, []byte(name)) {
				names = append(names, name)
				break
			}
		}
	}
	slices.Sort(names)
	c.mapHead(len(names))
	for _, name := range names {
		c.str(name)
		c.str(values[name])
	}
}

func cmdConfigSet(c *call) {
	pairs := c.args[2:]
	if len(pairs)%2 != 0 {
		c.err("ERR wrong number of arguments for 'config|set' command")
		return
	}
	cf := &c.e.config
	outer := make(map[string]string)
	before := cf.tracked.Load()
	defer func() {
		if cf.tracked.Load() != before {
			c.forgetMany()
		}
	}()
	defer c.e.scripts.find(c.e.scriptLimit) // by the limit that is true then
	defer c.e.shed(c)
	cf.mu.Lock()
	defer cf.mu.Unlock()
	seen := make(map[string]bool, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, value := strings.ToLower(string(pairs[i])), string(pairs[i+1])
		s, ok := settings[name]
		if !ok && c.s.outer != nil {
			if s, ok = outerSettings[name]; ok {
				outer[name] = value
			}
		}
		if !ok {
			c.err("ERR Unknown option or number of arguments for CONFIG SET - '" + clip(pairs[i], 128) + "'")
			return
		}
		if seen[name] {
			c.err("ERR CONFIG SET failed (possibly related to argument '" + clip(pairs[i], 128) + "') - duplicate parameter")
			return
		}
		seen[name] = true
		if err := s.check(value); err != nil {
			c.err("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + err.Error())
			return
		}
		if name == "appendonly" && value != cf.values[name] {
			c.err("ERR CONFIG SET failed (possibly related to argument 'appendonly') - it is decided when the engine is opened, by its directory")
			return
		}
	}
	if len(outer) > 0 {
		if name, err := c.s.outer.SetSettings(outer); err != nil {
			c.err("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + err.Error())
			return
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		name, value := strings.ToLower(string(pairs[i])), string(pairs[i+1])
		if _, ok := outer[name]; ok {
			continue
		}
		if name == "notify-keyspace-events" {
			flags, _ := parseEvents(value)
			cf.events.Store(flags)
			value = formatEvents(flags)
		}
		if name == "latency-tracking-info-percentiles" {
			list, _ := parsePercentiles(value)
			value = formatPercentiles(list)
		}
		if name == "tracking-table-max-keys" {
			n, _ := parseInt([]byte(value))
			cf.tracked.Store(n)
		}
		if name == "repl-backlog-size" {
			n, _ := parseMemory(value)
			value = strconv.FormatInt(n, 10)
		}
		next := *cf.limits.Load()
		if p := next.of(name); p != nil {
			n, ok := parseInt([]byte(value))
			if !ok { // stream-node-max-bytes takes units
				n, _ = parseMemory(value)
				value = strconv.FormatInt(n, 10)
			}
			*p = int(n)
			cf.limits.Store(&next)
			cf.values[strings.Replace(name, "listpack", "ziplist", 1)] = value
			name = strings.Replace(name, "ziplist", "listpack", 1)
		}
		if _, ok := memorySettings[name]; ok {
			value = c.e.memory.set(name, value)
		}
		cf.values[name] = value
		if other := otherNames[name]; other != "" {
			cf.values[other] = value
		}
	}
	c.e.applyTiming()
	c.ok()
}

// applyTiming applies the settings of the slow log, of LATENCY and of replication. cf.mu is held, if there are other
// goroutines.
func (e *Engine) applyTiming() {
	number := func(name string) int64 {
		n, _ := parseInt([]byte(e.config.values[name]))
		return n
	}
	e.slow.set(number("slowlog-log-slower-than"), number("slowlog-max-len"))
	e.replication.noStale.Store(e.config.values["replica-serve-stale-data"] == "no")
	e.replication.writable.Store(e.config.values["replica-read-only"] == "no")
	e.replication.backlog.Store(number("repl-backlog-size"))
	e.replication.ping.Store(number("repl-ping-replica-period"))
	e.replication.timeout.Store(number("repl-timeout"))
	e.replication.ttl.Store(number("repl-backlog-ttl"))
	e.replication.least.Store(number("min-replicas-to-write"))
	e.replication.mostLag.Store(number("min-replicas-max-lag"))
	e.latency.threshold.Store(number("latency-monitor-threshold"))
	e.config.aclLog.Store(number("acllog-max-len"))
	e.latency.off.Store(e.config.values["latency-tracking"] == "no")
	list, _ := parsePercentiles(e.config.values["latency-tracking-info-percentiles"])
	e.latency.percentiles.Store(&list)
}

func cmdConfigResetstat(c *call) {
	s := &c.e.stats
	for _, n := range []*atomic.Int64{&s.commands, &s.expired, &s.expiredFields, &s.connections, &s.evicted, &c.e.replication.full, &c.e.replication.ok, &c.e.replication.miss} {
		n.Store(0)
	}
	c.e.eachShard(c, func(sh *shard) { sh.counters = counters{dirty: sh.counters.dirty} })
	c.e.errors.reset()
	c.e.commandStats.reset()
	c.ok()
}

func cmdConfigRewrite(c *call) { c.err("ERR The server is running without a config file") }

// setting returns the value of a parameter.
func (e *Engine) setting(name string) string {
	e.config.mu.Lock()
	defer e.config.mu.Unlock()
	return e.config.values[name]
}
