package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// longCommands are commands that go over much data. Each of the keys has some megabytes, 20,000
// elements, or 70,000 if it is long.
var longCommands = []string{
	"LCS text text2", "LCS text text2 LEN", "LCS text text2 IDX",
	"SORT list", "SORT list ALPHA DESC", "SORT list BY w:* GET v:* GET #", "SORT list BY nosort GET v:*", "SORT list STORE out", "SORT_RO set ALPHA LIMIT 0 1", "SORT zset LIMIT 0 1",
	"SINTER set set2", "SUNION set set2", "SDIFF set none", "SINTERSTORE out set set2", "SUNIONSTORE out set set2", "SDIFFSTORE out set none", "SINTERCARD 2 set set2",
	"ZINTER 2 zset zset2", "ZUNION 2 zset set", "ZDIFF 2 zset none", "ZINTERSTORE out 2 zset zset2", "ZUNIONSTORE out 2 zset zset2", "ZDIFFSTORE out 2 zset none", "ZINTERCARD 2 zset zset2",
	"ZRANGESTORE out zset 0 -1", "ZRANGE zset 0 -1 WITHSCORES",
	"BITOP AND out bits bits bits", "BITOP NOT out bits", "BITOP XOR out bits bits", "BITCOUNT bits", "BITCOUNT bits 8 -1", "BITPOS bits 0",
	"PFCOUNT" + strings.Repeat(" hll none", 20), "PFMERGE out" + strings.Repeat(" hll none", 20),
	"KEYS *", "KEYS *a*b*c", "SCAN 0 COUNT 1000000 MATCH *a*b*c", "HSCAN hash 0 COUNT 1000000 MATCH *a*b*c", "SSCAN set 0 COUNT 1000000 MATCH *a*b*c", "ZSCAN zset 0 COUNT 1000000 MATCH *a*b*c",
	"GEOSEARCH zset FROMLONLAT 0 0 BYRADIUS 30000 km ASC", "GEOSEARCHSTORE out zset FROMLONLAT 0 0 BYRADIUS 30000 km",
	"LPOS long none", "LINSERT long BEFORE none x", "LREM long 1 none", "LREM long -1 none", "COPY zlong out; ZREMRANGEBYRANK out 0 -1",
	"COPY list out", "COPY set out", "COPY zset out", "COPY hash out",
	"LRANGE long 0 -1", "SMEMBERS set", "HGETALL hash",

	"DUMP list", "DUMP set", "DUMP zset", "DUMP hash", "DUMP bits",
	"RESTORE out 0 DUMP:list", "RESTORE out 0 DUMP:set", "RESTORE out 0 DUMP:zset", "RESTORE out 0 DUMP:hash", "RESTORE out 0 DUMP:bits", "RESTORE out 0 LZF",
	"SET out 3MB", "SET bits 3MB GET", "MSET out 3MB out 3MB", "GETSET bits 3MB", "COPY bits out", "COPY bits out; GETDEL out",
	"COPY bits out; APPEND out x", "COPY bits out; SETRANGE out 4000000 x", "COPY bits out; SETBIT out 32000000 1", "COPY bits out; BITFIELD out SET u8 32000000 1",
	"COPY long out; LPOP out 70000", "COPY long out; RPOP out 69000", "COPY long out; LMPOP 1 out RIGHT COUNT 69000", "COPY same out; LREM out 0 x", "COPY same out; LREM out -69999 x", "COPY long out; LREM out 1 69000", "COPY long out; LREM out -1 1",
	"COPY heavy out; LMOVE out out LEFT RIGHT", "COPY wide out; HGETEX out PXAT 1 FIELDS 2 a b",
	"COPY set out; SPOP out 20000", "COPY slong out; SPOP out 69000",
	"COPY zset out; ZPOPMIN out 20000", "COPY zlong out; ZPOPMAX out 69000", "COPY zlong out; ZMPOP 1 out MIN COUNT 69000", "COPY zlong out; ZREMRANGEBYSCORE out 1 69000",
}

// longData are the keys that longCommands name.
func longData(e *Engine) {
	s := e.Session()
	for _, kind := range []string{"RPUSH list %d", "SADD set %d", "SADD set2 %d", "ZADD zset %d %d", "ZADD zset2 %d %d", "HSET hash f%d %d", "SET w:%d %d", "SET v:%d %d"} {
		fill(e, kind, 20_000)
	}
	fill(e, "RPUSH long %d", 70_000)
	fill(e, "RPUSH same x", 70_000)
	fill(e, "SADD slong %d", 70_000)
	fill(e, "ZADD zlong %d %d", 70_000)
	run(s, "SET text "+strings.Repeat("abcde", 300))
	run(s, "SET text2 "+strings.Repeat("edcba", 300))
	run(s, "SET bits "+strings.Repeat("\xff", 3<<20))
	run(s, "RPUSH heavy "+strings.Repeat("x", 3<<20)+" y")
	run(s, "HSET wide a x b "+strings.Repeat("x", 3<<20))
	run(s, "PFADD hll a b c")
}

// A noJournal has the engine note what commands change.
type noJournal struct{}

func (noJournal) Append(Effect) {}

// longWords returns the arguments of a command. DUMP:key stands for what DUMP gives, LZF for a
// payload that unpacks to a megabyte, and 3MB for a value of so much.
func longWords(t *testing.T, s *Session, line string) (words [][]byte) {
	t.Helper()
	for w := range strings.FieldsSeq(line) {
		arg := []byte(w)
		switch key, dump := strings.CutPrefix(w, "DUMP:"); {
		case dump:
			ks := s.e.shards[shardOf([]byte(key))].dbs[0]
			arg = rdb.Payload(nil, ks.keys.get([]byte(key)).val.export(func(int) {}))
		case w == "3MB":
			arg = bytes.Repeat([]byte("\x01"), 3<<20)
		case w == "LZF":
			const turns = 4000 // each repeats one byte 264 times
			packed := append([]byte{0, 'a'}, bytes.Repeat([]byte{0xe0, 255, 0}, turns)...)
			arg = binary.BigEndian.AppendUint32([]byte{0, 0xc3, 0x80}, uint32(len(packed)))
			arg = binary.BigEndian.AppendUint32(append(arg, 0x80), 1+264*turns)
			arg = append(append(arg, packed...), rdb.Version, 0)
			sum := uint64(0)
			for _, b := range arg {
				sum ^= uint64(b)
				for range 8 {
					sum = sum>>1 ^ sum&1*0x95ac9329ac4bc9b5
				}
			}
			arg = binary.LittleEndian.AppendUint64(arg, sum)
		}
		words = append(words, arg)
	}
	return words
}

// TestCommandsOfScriptsStop has each command run in a script that has to end. It wants the
// command to end at its first look, and the data to be as it was. When the script may go on
// the command looks at least once, and replies. It takes some seconds on a busy machine
// because the keys need so many elements.
func TestCommandsOfScriptsStop(t *testing.T) {
	slow.Test(t, "it stops each command that may take long")
	e := open(t, Options{Journal: noJournal{}})
	longData(e)
	for _, line := range longCommands {
		s := e.Session()
		before, command, found := strings.Cut(line, "; ")
		if !found {
			before, command = "PING", line
		}
		run(s, before)
		words := longWords(t, s, command)
		if find(words[0]) == nil {
			t.Fatal(line)
		}
		inScript := func(stop bool) (reply string, looks int) {
			h := &scriptHost{outer: &call{e: e, s: s, all: true}}
			h.outer.held.fill()
			h.running = &h.run
			h.run.onCheck = func() {
				looks++
				if stop {
					h.run.interrupt.Set()
				}
			}
			s.host = h
			e.lock(&h.outer.held)
			defer e.unlock(&h.outer.held)
			reply = string(h.command(nil, resp.RESP2, words))
			if n := len(h.outer.effects.commands); stop && n > 0 {
				t.Errorf("%s: it was stopped, and %d commands are logged", line, n)
			}
			h.outer.releaseEffects()
			h.reserve(0)
			return reply, looks
		}
		state := func() string {
			return run(s, "DBSIZE") + run(s, "LLEN list") + run(s, "MEMORY USAGE bits") + run(s, "MEMORY USAGE out") + run(s, "LLEN out") + run(s, "SCARD out") + run(s, "ZCARD out")
		}
		was := state()
		if reply, looks := inScript(true); reply != "-"+errStopped+"\r\n" || looks != 1 {
			t.Errorf("%s: %.80q after %d looks", line, reply, looks)
		}
		if is := state(); is != was {
			t.Errorf("%s: it was stopped, and %q is %q", line, was, is)
		}
		reply, looks := inScript(false)
		if reply[0] == '-' || looks < 1 {
			t.Errorf("%s: %.80q after %d looks", line, reply, looks)
		}
		if found {
			in := run(s, "EXISTS out") + run(s, "SCARD out") + run(s, "ZCARD out")
			value := run(s, "DUMP out")
			run(s, before+" REPLACE")
			client, _ := s.Do(nil, words)
			as := run(s, "EXISTS out") + run(s, "SCARD out") + run(s, "ZCARD out")
			random := is(words[0], "spop")
			if in != as || !random && (reply != string(client) || value != run(s, "DUMP out")) {
				t.Errorf("%s: in a script %.80q and then %q, of a client %.80q and %q", line, reply, in, client, as)
			}
		}
		run(s, "DEL out")
		s.Close()
	}
	if n := e.stats.panics.Load(); n != 0 {
		t.Errorf("%d panics", n)
	}
}

// TestExpiryOfFieldsStops has a command of a script meet a hash with many expired fields.
// They expire in steps, and the script can be stopped between two of them.
func TestExpiryOfFieldsStops(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock})
	const n = 3000
	fill(e, "HSET hash f%d v", n)
	fill(e, "HPEXPIRE hash 1000 FIELDS 1 f%d", n)
	h := asHash(e.shards[shardOf([]byte("hash"))].dbs[0].keys.get([]byte("hash")))
	clock.mu.Lock()
	clock.now = clock.now.Add(time.Minute) // and nobody sweeps
	clock.mu.Unlock()
	s := e.Session()
	host := &scriptHost{outer: &call{e: e, s: s, all: true}}
	host.outer.held.fill()
	host.running = &host.run
	s.host = host
	looks := 0
	host.run.onCheck = func() {
		if looks++; looks == 2 {
			host.run.interrupt.Set()
		}
	}
	e.lock(&host.outer.held)
	defer e.unlock(&host.outer.held)
	if reply := string(host.command(nil, resp.RESP2, argv("HSET", "hash", "new", "v"))); reply != "-"+errStopped+"\r\n" || h.len() != n-2*fieldStep {
		t.Errorf("%q, and %d fields are left", reply, h.len())
	}
	host.run.interrupt.Clear()
	if reply := string(host.command(nil, resp.RESP2, argv("HLEN", "hash"))); reply != ":0\r\n" {
		t.Errorf("%q fields are left", reply)
	}
}

// TestScriptsStopWithinCommands stops a script by its time limit, by SCRIPT KILL and by the
// end of the engine while its one command runs, and wants that to be the command's only look.
func TestScriptsStopWithinCommands(t *testing.T) {
	for _, stop := range []string{"kill", "close", "time-out"} {
		t.Run(stop, func(t *testing.T) {
			e := open(t, Options{ScriptTimeout: 50 * time.Millisecond})
			want := "-ERR script exceeded its time limit"
			if stop != "time-out" {
				e.opts.ScriptTimeout = 0
				want = "-ERR Script killed by user"
			}
			s, other := e.Session(), e.Session()
			begins(t, runScript(s, "CONFIG", "SET", "lua-time-limit", "1"), "+OK")
			runScript(s, "SET", "{t}a", strings.Repeat("a", 3_000))
			runScript(s, "SET", "{t}b", strings.Repeat("ab", 1_500))
			begins(t, runScript(s, "EVAL", "return 1", "0"), ":1")
			looks := 0
			s.host.run.onCheck = func() {
				looks++
				switch stop {
				case "kill":
					running(t, e)
					begins(t, runScript(other, "SCRIPT", "KILL"), "+OK")
				case "close":
					e.StopScripts()
				default:
					eventually(t, "the time is over", func() bool { return time.Now().After(s.host.run.deadline) })
				}
			}
			begins(t, runScript(s, "EVAL", "return redis.pcall('LCS', KEYS[1], KEYS[2], 'LEN')", "2", "{t}a", "{t}b"), want)
			if looks != 1 {
				t.Errorf("LCS looked %d times", looks)
			}
		})
	}
}

// slowLCS is the algorithm of redis-server, with the whole table.
func slowLCS(a, b string) (matches [][4]int, text string) {
	best := make([][]int, len(a)+1)
	for i := range best {
		best[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			if a[i] == b[j] {
				best[i+1][j+1] = best[i][j] + 1
			} else {
				best[i+1][j+1] = max(best[i][j+1], best[i+1][j])
			}
		}
	}
	open := false
	for i, j := len(a), len(b); i > 0 && j > 0; {
		if a[i-1] == b[j-1] {
			text = a[i-1:i] + text
			if !open {
				matches = append(matches, [4]int{i - 1, i - 1, j - 1, j - 1})
			} else {
				m := &matches[len(matches)-1]
				m[0]--
				m[2]--
			}
			i--
			j--
			open = true
			continue
		}
		open = false
		if best[i-1][j] > best[i][j-1] {
			i--
		} else {
			j--
		}
	}
	return matches, text
}

// TestLCSIsThatOfTheTable compares LCS, which keeps two rows, with the whole table.
func TestLCSIsThatOfTheTable(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	r, steps := randtest.Rand(t), randtest.Watch(t)
	letters := func() string {
		b := make([]byte, 1+r.IntN(70))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 500 {
		a, b := letters(), letters()
		run(s, "SET {t}a "+a)
		run(s, "SET {t}b "+b)
		steps.Begin(func() string { return a + " " + b })
		matches, text := slowLCS(a, b)
		want(t, s, "LCS {t}a {t}b", fmt.Sprintf("$%d\r\n%s\r\n", len(text), text))
		want(t, s, "LCS {t}a {t}b LEN", fmt.Sprintf(":%d\r\n", len(text)))
		reply := fmt.Sprintf("*4\r\n$7\r\nmatches\r\n*%d\r\n", len(matches))
		for _, m := range matches {
			reply += fmt.Sprintf("*2\r\n*2\r\n:%d\r\n:%d\r\n*2\r\n:%d\r\n:%d\r\n", m[0], m[1], m[2], m[3])
		}
		want(t, s, "LCS {t}a {t}b IDX", reply+fmt.Sprintf("$3\r\nlen\r\n:%d\r\n", len(text)))
		steps.End()
	}
}
