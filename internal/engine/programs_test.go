package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// programTemplates are groups of templates beside those in templates. A semicolon joins commands that
// belong together. EXEC in front of a command whose reply is random keeps it out of transactions. The word @dump is
// the latest payload of DUMP or FUNCTION DUMP on the other side.
var programTemplates = map[string][]string{
	"keys": {
		"SET <k> <v>", "SET <k> <i>", "RPUSH <k> <m> <i>", "SADD <k> <i> <n> <n>", "SADD <k> <m> <i>", "HSET <k> <m> <v>", "ZADD <k> <f> <m> <f> <m>", "XADD <k> <e> a <v>", "PFADD <k> <m>", "GEOADD <k> <lon> <lat> <m>",
		"EXEC ; DUMP <k> ; RESTORE <k> 0 @dump [||REPLACE|REPLACE ABSTTL|IDLETIME 5|FREQ 3|REPLACE IDLETIME 1 FREQ 1|foo]", "EXEC ; DUMP <k> ; RESTORE <k> [5000000000|5000000000|-1|x] @dump REPLACE", "EXEC ; DUMP <k> ; RESTORE <k> [0|1|33177117420000] @dump REPLACE ABSTTL", "RESTORE <k> 0 <v>", "RESTORE <k> [-1|x|5] <v> REPLACE",
		"SCAN 0 COUNT 1000 [||MATCH {t}<p>|MATCH <p>|TYPE string|TYPE hash|TYPE stream|TYPE foo]", "SCAN x", "SCAN 0 COUNT 0", "SCAN 0 foo", "SSCAN <k> 0 COUNT 1000 [||MATCH <p>]", "HSCAN <k> 0 COUNT 1000 [||MATCH <p>]", "ZSCAN <k> 0 COUNT 1000 [||MATCH <p>]", "ZSCAN <k> x", "SSCAN <k> 0 COUNT x",
		"EXEC ; RANDOMKEY", "EXEC ; SPOP <k>", "EXEC ; SPOP <k> <n>", "EXEC ; SRANDMEMBER <k>", "EXEC ; SRANDMEMBER <k> [<n>|-3|-7]", "EXEC ; HRANDFIELD <k>", "EXEC ; HRANDFIELD <k> [<n>|-3|-7] [||WITHVALUES]", "EXEC ; ZRANDMEMBER <k>", "EXEC ; ZRANDMEMBER <k> [<n>|-3|-7] [||WITHSCORES]",
		"EXEC ; PEXPIRE <k> 1 ; BLPOP {t}none 0.003", "EXEC ; SET <k> <v> PX 1 ; BLPOP {t}none 0.003",
		// SETRANGE breaks other keys, and then Redis reads beyond the last register; it tells no WATCH of TODENSE.
		"PFADD {t}hll <m> <m> ; PFDEBUG DECODE {t}hll", "PFADD {t}dense <m> ; PFDEBUG TODENSE {t}dense",
		"RPUSH {t}list <m> <v> ; SORT {t}list BY nosort [||DESC] LIMIT [1|0|-1] [2|-1|0] [||GET #] ; LTRIM {t}list -9 -1",
		"PEXPIREAT <k> [1|0|x|99999999999999|-1]", "OBJECT IDLETIME <k>", "OBJECT FREQ <k>", "OBJECT foo <k>", "OBJECT ENCODING", "SWAPDB <n> <n>", "MOVE <k> <n>", "SELECT <n>", "COPY <k> <k> DB <n> [||REPLACE]", "FLUSHALL [||SYNC|ASYNC|foo]", "KEYS <p>", "WATCH <k> <k>",
	},
	"functions": {
		"FUNCTION LOAD [||REPLACE] <lib>", "FUNCTION LOAD REPLACE <lib>", "FUNCTION LOAD <lib>", "FCALL <fn> <numkeys> <k> <v>", "FCALL <fn> 1 <k> <v>", "FCALL <fn> 1 <k> <v>", "FCALL_RO <fn> 1 <k> <v>", "FCALL_RO <fn> <numkeys> <k>", "FUNCTION LIST [||WITHCODE|LIBRARYNAME <p>|LIBRARYNAME a WITHCODE|foo]",
		"FUNCTION DELETE [a|b|c|x]", "FUNCTION FLUSH [||SYNC|ASYNC|foo]", "FUNCTION STATS", "FUNCTION KILL", "FUNCTION HELP", "FUNCTION foo", "EXEC ; FUNCTION DUMP ; FUNCTION RESTORE @dump [||FLUSH|APPEND|REPLACE|foo]", "FUNCTION RESTORE <v>", "SET <k> <v>", "RPUSH <k> <v>", "GET <k>", "MULTI", "EXEC", "DISCARD",
	},
	"primitives": {
		"EVAL <primitive>", "EVAL <primitive>", "EVAL <primitive>", "EVAL <primitive>", "EVAL <primitive>", "EVAL <primitive>", "EVAL <primitive>", "EVAL <primitive>", "EVAL_RO <primitive>", "MULTI", "EXEC",
	},
	"connection": {
		"ECHO <v>", "ECHO", "PING", "PING <v>", "PING a b", "SELECT [0|1|15|16|-1|x]", "CLIENT GETNAME", "CLIENT SETNAME <m>", "CLIENT SETNAME <v>", "CLIENT NO-EVICT [ON|OFF|foo]", "CLIENT GETREDIR", "CLIENT TRACKINGINFO", "CLIENT foo", "CLIENT UNBLOCK 0 [||ERROR|TIMEOUT|foo]", "CLIENT CACHING [YES|NO|x]", "CLIENT UNPAUSE",
		"RESET", "WAIT 0 0", "WAIT x 0", "PUBLISH <m> <v>", "SPUBLISH <k> <v>", "PUBSUB CHANNELS [||<p>]", "PUBSUB NUMSUB <m> <m>", "PUBSUB NUMPAT", "PUBSUB SHARDCHANNELS", "PUBSUB SHARDNUMSUB <m>", "PUBSUB foo",
		"COMMAND GETKEYS <any>", "COMMAND GETKEYS <any>", "COMMAND GETKEYSANDFLAGS <any>", "COMMAND GETKEYS", "COMMAND foo",
		"CONFIG SET <limits>", "CONFIG GET [hash-max-listpack-*|zset-max*|set-max-intset-entries|stream-node*|foo]", "CONFIG SET foo 1", "CONFIG SET hash-max-listpack-entries [x|-1|5]", "CONFIG foo", "SLOWLOG foo", "LATENCY foo", "MEMORY foo", "MEMORY USAGE {t}none", "MODULE LIST",
		"UNSUBSCRIBE x", "PUNSUBSCRIBE x", "SUNSUBSCRIBE x", "MULTI", "EXEC", "SET <k> <v>", "DEL <k>", "foo", "foo <k> <v>", "SET <k> <v> ; GET <k>",
	},
}

// programWords stand for words of programTemplates.
var programWords = map[string][]string{
	"lib": {
		lib2("a", `redis.register_function('f1', function(keys, args) return redis.call('SET', keys[1], args[1]) end)`),
		lib2("a", `redis.register_function{function_name='f1', callback=function(keys, args) return redis.call('GET', keys[1]) end, flags={'no-writes'}}`),
		lib2("b", `local n = 0 redis.register_function('f2', function(keys, args) n = n + 1 redis.call('RPUSH', keys[1], n) return {n, keys, args} end)`),
		lib2("b", `redis.register_function('f3', function(keys, args) return redis.error_reply('MY ' .. #keys) end)`),
		lib2("c", `redis.register_function{function_name='f1', description='one', callback=function(keys, args) redis.setresp(3) return redis.call('HGETALL', keys[1]) end, flags={'no-writes', 'allow-stale'}}`),
		lib2("c", `redis.register_function('f4', function(keys, args) redis.call('HSET', keys[1], 'a', args[1] or 'none') return redis.pcall('INCR', keys[1]) end)`),
		lib2("a", "return 1"), lib2("b", "syntax error"), "#!lua", "#!js name=a\nx", "",
	},
	"fn": {"f1", "f1", "f2", "f2", "f3", "f4", "F2", "none", ""},
}

func lib2(name, body string) string { return "#!lua name=" + name + "\n" + body }

// notCompared are commands whose replies can't be compared here, and why.
var notCompared = map[string]string{
	"auth": "users", "client|kill": "other connections", "client|list": "the process", "client|info": "the process", "client|id": "the process", "client|no-touch": "not in Redis 7.0", "client|pause": "time", "client|reply": "no reply to compare", "client|setinfo": "not in Redis 7.0", "client|tracking": "messages come between replies: tracking_test.go",
	"subscribe": "messages come between replies: tests of the server", "psubscribe": "as subscribe", "ssubscribe": "as subscribe", "hello": "the version", "quit": "it ends the program", "monitor": "messages", "info": "the process", "time": "time",
	"debug": "documented", "command|list": "Redoubt's own commands are in the reply", "command|count": "as command|list", "command|docs": "documented", "command|info": "commandinfo_test.go", "config|rewrite": "there is no file", "config|resetstat": "the process",
	"latency|doctor": "time", "latency|histogram": "time", "latency|history": "time", "latency|latest": "time", "latency|reset": "time", "slowlog|get": "time", "slowlog|len": "time", "slowlog|reset": "time",
	"memory|malloc-stats": "the process", "memory|purge": "the process", "memory|doctor": "the process", "memory|stats": "the process", "object|refcount": "the process", "lolwut": "documented",
	"save": "a file", "bgsave": "a file", "lastsave": "time", "bgrewriteaof": "a file", "shutdown": "it ends the server", "replicaof": "another server", "slaveof": "another server", "role": "another server", "migrate": "another server", "pfselftest": "it takes seconds", "script|debug": "it ends the connection",
	"hexpire": "not in Redis 7.0", "hpexpire": "not in Redis 7.0", "hexpireat": "not in Redis 7.0", "hpexpireat": "not in Redis 7.0", "httl": "not in Redis 7.0", "hpttl": "not in Redis 7.0", "hexpiretime": "not in Redis 7.0", "hpexpiretime": "not in Redis 7.0", "hpersist": "not in Redis 7.0", "hgetex": "not in Redis 7.0", "hsetex": "not in Redis 7.0", "hgetdel": "not in Redis 7.0",
}

// allTemplates are the groups that programs are made of.
func allTemplates() map[string][]string {
	all := maps.Clone(templates)
	maps.Copy(all, programTemplates)
	all["general"] = general
	return all
}

// TestProgramsHaveAllCommands wants each command of the engine in a template, or in notCompared.
func TestProgramsHaveAllCommands(t *testing.T) {
	has := map[string]bool{}
	for _, list := range allTemplates() {
		for _, template := range list {
			for part := range strings.SplitSeq(template, " ; ") {
				words := strings.Fields(strings.ToLower(part))
				has[words[0]] = true
				if len(words) > 1 {
					has[words[0]+"|"+words[1]] = true
				}
			}
		}
	}
	each := func(index rediscmd.Index[*command], f func(*command)) {
		for _, cmd := range index {
			f(cmd)
		}
	}
	var known []string
	each(commands, func(cmd *command) {
		known = append(known, cmd.Name)
		each(cmd.subIndex, func(sub *command) { known = append(known, sub.Name) })
	})
	for _, name := range known {
		if name == "panics" || name == "breaks" { // a test's own
			continue
		}
		if strings.HasSuffix(name, "|help") {
			continue // the engine lists its own subcommands
		}
		if why := notCompared[name]; has[name] == (why != "") {
			t.Errorf("%s: in a template: %v, in notCompared: %q", name, has[name], why)
		}
	}
	for name := range notCompared {
		if !slices.Contains(known, name) {
			t.Errorf("%s is no command", name)
		}
	}
}

// A unit is one command, or several that belong together.
type unit [][][]byte

// A programmer makes programs.
type programmer struct {
	vocabulary
	all   map[string][]string
	names []string
}

func newProgrammer() *programmer {
	all := allTemplates()
	return &programmer{all: all, names: slices.Sorted(maps.Keys(all))}
}

// program returns up to 200 units, of one to three groups.
func (p *programmer) program(seed uint64) []unit {
	p.vocabulary = newVocabulary(rand.New(rand.NewPCG(seed, 0)))
	var lists [][]string
	mayLimit := true
	for range 1 + p.r.IntN(3) {
		name := p.names[p.r.IntN(len(p.names))]
		if name == "primitives" { // their replies have the order of small hashes, where it is defined
			lists, mayLimit = [][]string{p.all[name]}, false
			break
		}
		lists = append(lists, p.all[name])
	}
	var units []unit
	if p.r.IntN(2) == 0 && mayLimit {
		units = append(units, unit{p.fill("CONFIG SET <limits>")})
	}
	for range 1 + p.r.IntN(200) {
		list := lists[p.r.IntN(len(lists))]
		if p.r.IntN(8) == 0 {
			list = general
		}
		units = append(units, p.unit(list[p.r.IntN(len(list))]))
	}
	return units
}

func (p *programmer) unit(template string) (u unit) {
	for part := range strings.SplitSeq(template, " ; ") {
		args := p.fill(part)
		if p.r.IntN(20) == 0 {
			args = p.mangle(args)
		}
		switch name := strings.ToLower(string(args[0])); {
		case strings.HasPrefix(name, "sort"):
			// SORT of Redis 7.0 takes an errno for its own that an earlier command
			// left, as ZADD k 1e400 m does. This one clears it, and does nothing else.
			u = append(u, split("ZUNION 1 none WEIGHTS 1"))
		case name == "dbsize": // a key whose time has passed counts until somebody finds it
			u = append(u, split("EXISTS {t}1 {t}2 {t}3 {t}4 {t}5"))
		}
		u = append(u, args)
	}
	return u
}

// mangle changes an argument, or the number of arguments, of a command for which that is harmless: any number does not
// make it wait, reply at length, depend on the time, or on chance.
func (p *programmer) mangle(args [][]byte) [][]byte {
	cmd := commands[strings.ToLower(string(args[0]))]
	if cmd == nil || len(args) < 2 || slices.ContainsFunc(args, func(a []byte) bool { return string(a) == "{t}6" || string(a) == "{t}7" }) || cmd.Flags&(rediscmd.Blocking|rediscmd.Admin|rediscmd.PubSub) != 0 {
		return args
	}
	switch cmd.Name {
	case "expire", "pexpire", "expireat", "pexpireat", "set", "setex", "psetex", "getex", "restore", "xadd", "xclaim", "xautoclaim", "xpending", "spop", "srandmember", "hrandfield", "zrandmember",
		"scan", "sscan", "hscan", "zscan", "client", "wait", "memory", "object", "slowlog", "latency", "command", "config", "script", "function", "debug", "eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro":
		return args
	}
	words := []string{anyWords[p.r.IntN(len(anyWords))], extremes[p.r.IntN(len(extremes))], extremeFloats[p.r.IntN(len(extremeFloats))]}
	word, at := []byte(words[p.r.IntN(len(words))]), 1+p.r.IntN(len(args)-1)
	changed := slices.Clone(args)
	switch p.r.IntN(5) {
	case 0:
		changed = slices.Delete(changed, at, at+1)
	case 1:
		changed = slices.Insert(changed, at, word)
	case 2:
		changed = slices.Insert(changed, at, args[at])
	default:
		changed[at] = word
	}
	if !harmless(changed) {
		return args
	}
	return changed
}

// A comparison runs programs on an engine and on a redis-server.
type comparison struct {
	t     testing.TB
	e     *Engine
	o     *oracle
	proto resp.Protocol
	steps *randtest.Steps

	s       *Session
	pending []exchange
	out     []byte   // for Redis
	queued  []string // the commands of a transaction
	dumps   [2][]byte
	loaded  bool // scripts or functions, which Redis needs a millisecond to forget
	began   time.Time
}

// An exchange is a command with the reply of the engine. Redis gets it too, and the commands behind it.
type exchange struct {
	args   [][]byte
	name   string
	got    []byte
	queued []string // for EXEC
	more   int
	judge  func(want [][]byte) bool // nil: the replies are equal
}

func newComparison(t testing.TB, proto resp.Protocol) *comparison {
	c := &comparison{t: t, proto: proto, steps: randtest.Watch(t), o: dialOracle(t, startOracle(t))}
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.e = e
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	c.o.do(split("CONFIG SET hz 500")) // so that a client that waits is looked after soon
	return c
}

// setup makes both sides as new.
func (c *comparison) setup() {
	if c.s != nil {
		c.s.Close()
	}
	c.s = c.e.Session()
	c.s.SetProtocol(c.proto)
	c.pending, c.out, c.queued, c.dumps = nil, nil, nil, [2][]byte{}
	c.o.do(split("RESET"))
	c.o.do(split(fmt.Sprint("HELLO ", int(c.proto))))
	lines := []string{"FLUSHALL", "CONFIG SET " + normalLimits}
	if c.loaded {
		lines, c.loaded = append(lines, "FUNCTION FLUSH", "SCRIPT FLUSH"), false
	}
	for _, line := range lines {
		got, want := run(c.s, line), string(c.o.do(split(line)))
		if got != "+OK\r\n" || want != got {
			c.t.Fatalf("%s: %q, %q", line, got, want)
		}
	}
}

// run returns the first difference, "" for none.
func (c *comparison) run(units []unit) string {
	c.setup()
	c.began = time.Now()
	for _, u := range units {
		for _, args := range u {
			if slices.ContainsFunc(args, func(a []byte) bool { return string(a) == "@dump" }) {
				if d := c.flush(); d != "" {
					return d
				}
			}
			c.add(args)
		}
	}
	if d := c.flush(); d != "" {
		return d
	}
	// And the data at the end.
	c.add(split("DISCARD"))
	c.add(split("FUNCTION LIST WITHCODE"))
	for db := range 16 {
		c.add(split(fmt.Sprint("SELECT ", db)))
		for _, key := range leaves(c.add(split("KEYS *"))) {
			for _, command := range []string{"TYPE", "OBJECT ENCODING", "PEXPIRETIME"} {
				c.add(append(split(command), key))
			}
			for command := range strings.SplitSeq(contentsBy[string(c.do(append(split("TYPE"), key)))], " ; ") {
				c.add(split(strings.Replace(command, "<k>", string(key), 1)))
			}
		}
	}
	if d := c.flush(); d != "" {
		return "at the end: " + d
	}
	return ""
}

var contentsBy = map[string]string{
	"+string\r\n": "GET <k>", "+list\r\n": "LRANGE <k> 0 -1", "+set\r\n": "SMEMBERS <k>", "+hash\r\n": "HGETALL <k>", "+zset\r\n": "ZRANGE <k> 0 -1 WITHSCORES", "+stream\r\n": "XINFO STREAM <k> FULL COUNT 0 ; XRANGE <k> - +",
}

func (c *comparison) do(args [][]byte) []byte {
	c.steps.Begin(func() string { return quote(args) })
	got, wait := c.s.Do(nil, args)
	if wait != nil {
		<-wait.Done()
		got = wait.Append(got)
	}
	return got
}

// add runs a command on the engine, and leaves it to flush to send it to Redis.
func (c *comparison) add(args [][]byte) []byte {
	theirs := args
	if i := slices.IndexFunc(args, func(a []byte) bool { return string(a) == "@dump" }); i > 0 {
		args, theirs = slices.Clone(args), slices.Clone(args)
		args[i], theirs[i] = c.dumps[1], c.dumps[0]
	}
	x := exchange{args: args, name: strings.ToLower(string(args[0])), got: c.do(args)}
	c.out = resp.AppendCommand(c.out, theirs...)
	c.loaded = c.loaded || strings.HasPrefix(x.name, "eval") || x.name == "script" || x.name == "function"
	switch {
	case string(x.got) == "+QUEUED\r\n":
		c.queued = append(c.queued, x.name)
	case x.name == "exec":
		x.queued, c.queued = c.queued, nil
	case x.name == "discard" || x.name == "reset":
		c.queued = nil
	case x.got[0] != '-':
		c.byChance(&x)
	}
	c.pending = append(c.pending, x)
	return x.got
}

// byChance checks a reply that the engine chose at random, by further commands to Redis.
func (c *comparison) byChance(x *exchange) {
	chosen := leaves(x.got)
	ask := func(name string, args ...[]byte) {
		x.more++
		c.out = resp.AppendCommand(c.out, slices.Concat([][]byte{[]byte(name)}, args)...)
	}
	all := func(reply []byte, one string) bool { return bytes.Count(reply, []byte(one)) == len(chosen) }
	switch withMore := len(x.args) > 3; {
	case x.name == "randomkey" && len(chosen) == 1:
		ask("EXISTS", chosen...)
		x.judge = func(want [][]byte) bool { return string(want[1]) == ":1\r\n" }
	case x.name == "spop":
		// The program goes on with the same set on both sides.
		c.out = resp.AppendCommand(c.out[:len(c.out)-len(resp.AppendCommand(nil, x.args...))], slices.Concat([][]byte{[]byte("SRANDMEMBER")}, x.args[1:])...)
		ask("SREM", slices.Concat(x.args[1:2], chosen)...)
		x.judge = func(want [][]byte) bool {
			removed := fmt.Sprintf(":%d\r\n", len(chosen))
			return len(leaves(want[0])) == len(chosen) && (len(chosen) == 0 || string(want[1]) == removed)
		}
	case x.name == "srandmember" && len(chosen) > 0:
		ask("SMISMEMBER", slices.Concat(x.args[1:2], chosen)...)
		x.judge = func(want [][]byte) bool {
			return len(leaves(want[0])) == len(chosen) && all(want[1], ":1\r\n") && c.distinct(x, chosen)
		}
	case (x.name == "hrandfield" || x.name == "zrandmember") && len(chosen) > 0:
		names, values := chosen, [][]byte(nil)
		if withMore {
			names = nil
			for pair := range slices.Chunk(chosen, 2) {
				names, values = append(names, pair[0]), append(values, pair[1])
			}
		}
		ask(map[string]string{"hrandfield": "HMGET", "zrandmember": "ZMSCORE"}[x.name], slices.Concat(x.args[1:2], names)...)
		x.judge = func(want [][]byte) bool {
			found := leaves(want[1])
			return len(leaves(want[0])) == len(chosen) && len(found) == len(names) && (!withMore || slices.EqualFunc(values, found, bytes.Equal)) && c.distinct(x, names)
		}
	}
}

// distinct says whether names that a count of at least 0 asked for are different ones.
func (c *comparison) distinct(x *exchange, names [][]byte) bool {
	if len(x.args) > 2 && x.args[2][0] == '-' {
		return true
	}
	seen := map[string]bool{}
	for _, name := range names {
		seen[string(name)] = true
	}
	return len(seen) == len(names)
}

// flush has Redis run what the engine has run, and returns the first difference.
func (c *comparison) flush() string {
	c.steps.Begin(func() string { return "Redis" })
	c.o.send(c.out)
	c.out = nil
	d := ""
	for _, x := range c.pending {
		var want [][]byte
		for range 1 + x.more {
			want = append(want, c.o.read())
		}
		if x.name == "dump" || x.name == "function" && len(x.args) > 1 && strings.EqualFold(string(x.args[1]), "dump") {
			c.dumps = [2][]byte{first(leaves(x.got)), first(leaves(want[0]))}
			if c.dumps[0] != nil && c.dumps[1] != nil {
				continue // RESTORE compares more
			}
		}
		slack := time.Since(c.began)
		switch {
		case d != "":
		case x.judge != nil && x.judge(want), x.judge == nil && x.equal(want[0], slack):
		default:
			from := 0 // what is long and equal is left out
			for from < min(len(x.got), len(want[0])) && x.got[from] == want[0][from] {
				from++
			}
			from = max(0, from-200)
			d = fmt.Sprintf("%s from %d on\n got %.400q\nwant %.400q, %.400q", quote(x.args), from, x.got[from:], want[0][min(from, len(want[0])):], want[1:])
		}
	}
	c.pending = c.pending[:0]
	return d
}

func first(list [][]byte) []byte {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func (x *exchange) equal(want []byte, slack time.Duration) bool {
	if x.name != "exec" {
		return sameReply(x.name, x.got, want, slack)
	}
	gotHead, got := elements(x.got)
	wantHead, wanted := elements(want)
	if !bytes.Equal(gotHead, wantHead) || len(got) != len(wanted) {
		return false
	}
	for i := range got {
		if i >= len(x.queued) || !sameReply(x.queued[i], got[i], wanted[i], slack) {
			return false
		}
	}
	return true
}

// leaves returns the texts in a reply, however deep.
func leaves(reply []byte) (texts [][]byte) {
	for len(reply) > 0 {
		i := bytes.IndexByte(reply, '\n') + 1
		line := reply[:i]
		reply = reply[i:]
		switch line[0] {
		case '$', '=':
			if n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:]))); err == nil && n >= 0 {
				texts = append(texts, reply[:n])
				reply = reply[n+2:]
			}
		case ',':
			texts = append(texts, bytes.TrimSpace(line[1:]))
		}
	}
	return texts
}

// shrink removes all units without which the sides still differ.
func (c *comparison) shrink(units []unit, difference string) ([]unit, string) {
	for size := len(units) / 2; size > 0; {
		removed := false
		for from := 0; from < len(units); {
			fewer := slices.Delete(slices.Clone(units), from, min(from+size, len(units)))
			if d := c.run(fewer); d != "" {
				units, difference, removed = fewer, d, true
			} else {
				from += size
			}
		}
		if !removed || size > len(units) {
			size /= 2
		}
	}
	return units, difference
}

func listing(units []unit) string {
	var b strings.Builder
	for _, u := range units {
		for _, args := range u {
			fmt.Fprintf(&b, "\t%s\n", quote(args))
		}
	}
	return b.String()
}

// commandsToCompare is how many commands TestDifferential runs; COMMANDS sets another number.
func commandsToCompare(t *testing.T) int {
	text := os.Getenv("COMMANDS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("COMMANDS is %q; want a number", text)
	}
	return n
}

// TestDifferential runs random programs of all commands on the engine and on redis-server, and compares the replies,
// and at the end all keys. It prints a program that differs with its seed, without the
// commands that don't matter. `make fuzz-engine` runs more of them.
//
// Promise: The engine's replies equal the replies of Redis 7.0.
func TestDifferential(t *testing.T) {
	const parts = 8 // each has a redis-server, and waits for commands that wait
	most := commandsToCompare(t) / parts
	for part := range parts {
		proto := []resp.Protocol{resp.RESP2, resp.RESP3}[part%2]
		t.Run(fmt.Sprintf("RESP%d/%d", proto, part), func(t *testing.T) {
			t.Parallel()
			seed, p, c := randtest.Seed(t), newProgrammer(), newComparison(t, proto)
			failed, next := 0, time.Now().Add(10*time.Second)
			for n := 0; n < most; seed++ {
				units := p.program(seed)
				if d := c.run(units); d != "" {
					less, d := c.shrink(units, d)
					t.Errorf("SEED=%d: %s\nafter:\n%s", seed, d, listing(less))
					if failed++; failed >= 5 {
						return
					}
				}
				for _, u := range units {
					n += len(u)
				}
				if time.Now().After(next) {
					fmt.Fprintf(os.Stderr, "%s: %d of %d commands, SEED=%d\n", t.Name(), n, most, seed)
					next = time.Now().Add(10 * time.Second)
				}
			}
		})
	}
}

// TestProgramsThatDiffered runs the programs that TestDifferential has found.
func TestProgramsThatDiffered(t *testing.T) {
	c := newComparison(t, resp.RESP3)
	for _, program := range []string{
		"SSCAN {t}1 0 COUNT x ; HSCAN {t}1 0 COUNT 0 ; ZSCAN {t}1 0 foo ; ZSCAN {t}1 x ; SET {t}1 a ; SSCAN {t}1 0 COUNT x ; SADD {t}2 a ; SSCAN {t}2 0 COUNT x",
		"SCAN +0 ; SSCAN {t}1 - ; SSCAN {t}1 + ; SSCAN {t}1 '' ; SSCAN {t}1 -1 ; SSCAN {t}1 99999999999999999999 ; SSCAN {t}1 1_0",
		"ZADD {t}1 123456789012345678 a 4611686018427387904 b 9223372036854775807 c 1e15 d -1e17 e 0.5 f -0 g ; ZSCAN {t}1 0 COUNT 100 ; CONFIG SET zset-max-listpack-entries 0 ; ZADD {t}2 1e17 a 1 b ; ZSCAN {t}2 0 COUNT 100",
		"ZADD {t}1 0 m ; ZRANGE {t}1 - [m BYLEX REV REV ; ZRANGESTORE {t}2 {t}1 - [m BYLEX REV REV",
		"PUBSUB CHANNELS a b ; PUBSUB SHARDCHANNELS a b ; PUBSUB CHANNELS",
		"PFADD {t}1 ; DUMP {t}1 ; RESTORE {t}2 0 @dump ; OBJECT ENCODING {t}2 ; PFCOUNT {t}2 ; OBJECT ENCODING {t}2",
		"PFADD {t}1 ; DUMP {t}1 ; RESTORE {t}2 0 @dump ; PFADD {t}2 ; OBJECT ENCODING {t}2",
		"PFADD {t}1 ; DUMP {t}1 ; RESTORE {t}2 0 @dump ; PFDEBUG DECODE {t}2 ; OBJECT ENCODING {t}2",
		"PFADD {t}1 ; DUMP {t}1 ; RESTORE {t}2 0 @dump ; PFMERGE {t}2 {t}1 ; OBJECT ENCODING {t}2",
		"XADD {t}1 1-1 f v ; XADD {t}1 1-2 f v ; XADD {t}1 1-3 f v ; XGROUP CREATE {t}1 g 0 ; XCLAIM {t}1 g c1 0 1-1 FORCE ; XCLAIM {t}1 g c1 0 1-2 FORCE JUSTID ; XCLAIM {t}1 g c1 0 1-3 FORCE RETRYCOUNT 5 ; XPENDING {t}1 g - + 10",
		"ZADD {t}1 1 a ; ZCOUNT {t}1 \x00 2 ; ZCOUNT {t}1 -inf (\x001 ; ZCOUNT {t}1 1\x00x 2",
		"FUNCTION DUMP ; RESTORE {t}1 0 @dump",
	} {
		var units []unit
		for line := range strings.SplitSeq(program, " ; ") {
			units = append(units, unit{split(line)})
		}
		if d := c.run(units); d != "" {
			t.Errorf("%s\nof:\n%s", d, listing(units))
		}
	}
}
