package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// follows runs lines of a command and the beginning of its reply behind an arrow, in which a space stands
// for the end of a line.
func follows(t *testing.T, s *Session, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		cmd, reply, ok := strings.Cut(strings.TrimSpace(line), " → ")
		if cmd == "" {
			continue
		}
		got := strings.TrimSpace(strings.ReplaceAll(run(s, cmd), "\r\n", " "))
		if ok && got != reply && (!strings.HasSuffix(reply, "…") || !strings.HasPrefix(got, strings.TrimSuffix(reply, "…"))) {
			t.Errorf("%s\n got %q\nwant %q", cmd, got, reply)
		}
	}
}

// TestStreamRules holds what is easily got wrong of streams.
func TestStreamRules(t *testing.T) {
	for name, lines := range map[string]string{
		"a sequence is made for equal milliseconds only": `
			XADD s 5-* f v → $3 5-0
			XADD s 5-* f v → $3 5-1
			XADD s 4-* f v → -ERR The ID specified in XADD is equal or smaller than the target stream top item
			XADD s 0-0 f v → -ERR The ID specified in XADD must be greater than 0-0
			XADD t 0-* f v → $3 0-1`,
		"there is no ID behind the largest": `
			XADD s 7-18446744073709551615 f v → $22 7-18446744073709551615
			XADD s 7-* f v → -ERR The ID specified in XADD is equal or smaller…
			XADD s 18446744073709551615-18446744073709551615 f v → $41…
			XADD s * f v → -ERR The stream has exhausted the last possible ID…
			XADD s 18446744073709551615-* f v → -ERR The stream has exhausted the last possible ID…`,
		"trimming to nothing keeps the key": `
			XADD s 1-1 f v
			XTRIM s MAXLEN 0 → :1
			EXISTS s → :1
			XADD s MAXLEN 0 1-2 f v → $3 1-2
			XLEN s → :0
			TYPE s → +stream
			OBJECT ENCODING s → $6 stream`,
		"LIMIT needs ~": `
			XADD s 1-1 f v
			XTRIM s MAXLEN 0 LIMIT 1 → -ERR syntax error, LIMIT cannot be used without the special ~ option
			XTRIM s LIMIT 1 → -ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
			XTRIM s MAXLEN 0 MINID 1 → -ERR syntax error, MAXLEN and MINID options at the same time are not compatible`,
		"the history has deleted entries": `
			XADD s 1-1 f v
			XADD s 1-2 f v
			XGROUP CREATE s g 0 → +OK
			XREADGROUP GROUP g c STREAMS s > → *1 *2 $1 s *2 *2 $3 1-1 *2 $1 f $1 v *2 $3 1-2 *2 $1 f $1 v
			XDEL s 1-1 → :1
			XREADGROUP GROUP g c STREAMS s 0 → *1 *2 $1 s *2 *2 $3 1-1 *-1 *2 $3 1-2 *2 $1 f $1 v`,
		"XCLAIM forgets deleted entries": `
			XADD s 1-1 f v
			XADD s 1-2 f v
			XGROUP CREATE s g 0
			XREADGROUP GROUP g c STREAMS s >
			XDEL s 1-1
			XCLAIM s g d 0 1-1 1-2 JUSTID → *1 $3 1-2
			XPENDING s g → *4 :1 $3 1-2 $3 1-2 *1 *2 $1 d $1 1`,
		"XAUTOCLAIM lists deleted entries": `
			XADD s 1-1 f v
			XADD s 1-2 f v
			XADD s 1-3 f v
			XGROUP CREATE s g 0
			XREADGROUP GROUP g c STREAMS s >
			XDEL s 1-1
			XAUTOCLAIM s g d 0 0 COUNT 2 JUSTID → *3 $3 1-3 *1 $3 1-2 *1 $3 1-1
			XPENDING s g → *4 :2 $3 1-2 $3 1-3 *2 *2 $1 c $1 1 *2 $1 d $1 1`,
		"XREAD knows no +": `
			XADD s 1-1 f v
			XREAD STREAMS s + → -ERR Invalid stream ID specified as stream command argument
			XREAD STREAMS s > → -ERR The > ID can be specified only when calling XREADGROUP…`,
		"the lag": `
			XADD s 1-0 f v
			XADD s 2-0 f v
			XADD s 3-0 f v
			XADD s 4-0 f v
			XGROUP CREATE s g 0
			XREADGROUP GROUP g c COUNT 1 STREAMS s >
			XINFO GROUPS s → *1 *12 $4 name $1 g $9 consumers :1 $7 pending :1 $17 last-delivered-id $3 1-0 $12 entries-read :1 $3 lag :3
			XDEL s 3-0
			XINFO GROUPS s → *1 *12 $4 name $1 g $9 consumers :1 $7 pending :1 $17 last-delivered-id $3 1-0 $12 entries-read :1 $3 lag $-1
			XREADGROUP GROUP g c COUNT 1 STREAMS s >
			XINFO GROUPS s → *1 *12 $4 name $1 g $9 consumers :1 $7 pending :2 $17 last-delivered-id $3 2-0 $12 entries-read $-1 $3 lag $-1
			XREADGROUP GROUP g c STREAMS s >
			XINFO GROUPS s → *1 *12 $4 name $1 g $9 consumers :1 $7 pending :3 $17 last-delivered-id $3 4-0 $12 entries-read :4 $3 lag :0
			XGROUP SETID s g 2
			XINFO GROUPS s → *1 *12 $4 name $1 g $9 consumers :1 $7 pending :3 $17 last-delivered-id $3 2-0 $12 entries-read $-1 $3 lag $-1`,
		"XSETID refuses what can't be": `
			XADD s 5-0 f v
			XADD s 6-0 f v
			XSETID s 5-9 → -ERR The ID specified in XSETID is smaller than the target stream top item
			XSETID s 7 ENTRIESADDED 1 → -ERR The entries_added specified in XSETID is smaller than the target stream length
			XSETID s 7 MAXDELETEDID 8 → -ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id
			XSETID none 7 → -ERR no such key
			XSETID s 7 ENTRIESADDED 9 MAXDELETEDID 6-5 → +OK
			XADD s 6-9 f v → -ERR The ID specified in XADD is equal or smaller than the target stream top item
			XINFO STREAM s → *20 $6 length :2 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 $17 last-generated-id $3 7-0 $20 max-deleted-entry-id $3 6-5 $13 entries-added :9…`,
		"a script may not block": `
			EVAL return(redis.call('XREAD','BLOCK','0','STREAMS',KEYS[1],'$')) 1 s → -ERR XREAD command is not allowed with BLOCK option from scripts…`,
		"a transaction does not block": `
			MULTI
			XREAD BLOCK 0 STREAMS s $
			EXEC → *1 *-1`,
	} {
		t.Run(name, func(t *testing.T) {
			follows(t, open(t, Options{}).Session(), lines)
		})
	}
}

// TestApproximateTrimming holds that only whole nodes go, and no more than LIMIT.
func TestApproximateTrimming(t *testing.T) {
	s := open(t, Options{}).Session()
	for i := range 1050 {
		run(s, fmt.Sprintf("XADD s 1-%d f v", i+1))
	}
	follows(t, s, `
		XTRIM s MAXLEN ~ 1000 → :0
		XTRIM s MAXLEN ~ 950 → :100
		XTRIM s MINID ~ 1-199 → :0
		XTRIM s MAXLEN ~ 0 LIMIT 250 → :200
		XTRIM s MAXLEN ~ 0 LIMIT 50 → :0
		XTRIM s MAXLEN 740 → :10
		XTRIM s MINID ~ 1-401 → :90
		XTRIM s MAXLEN ~ 0 LIMIT 0 → :650
		CONFIG SET stream-node-max-entries 10 → +OK`)
	for i := range 25 {
		run(s, fmt.Sprintf("XADD s 2-%d f v", i))
	}
	follows(t, s, `
		XTRIM s MAXLEN ~ 1 → :20
		CONFIG SET stream-node-max-bytes 1kb → +OK
		CONFIG GET stream-node-max-bytes → *2 $21 stream-node-max-bytes $4 1024`)
}

// waits starts a command that has to wait.
func waits(t *testing.T, e *Engine, line string) *Wait {
	t.Helper()
	out, w := e.Session().Do(nil, split(line))
	if w == nil {
		t.Fatalf("%s did not wait: %q", line, out)
	}
	return w
}

func served(t *testing.T, w *Wait, reply string) {
	t.Helper()
	select {
	case <-w.Done():
	default:
		t.Errorf("a command still waits, want %q", reply)
		w.Cancel()
		return
	}
	if got := strings.TrimSpace(strings.ReplaceAll(string(w.Append(nil)), "\r\n", " ")); got != reply {
		t.Errorf("a command that waited got %q, want %q", got, reply)
	}
}

func stillWaits(t *testing.T, w *Wait) {
	t.Helper()
	select {
	case <-w.Done():
		t.Errorf("a command that should wait got %q", w.Append(nil))
	default:
	}
}

// TestBlockedReaders holds what wakes XREAD and XREADGROUP, and with which reply.
func TestBlockedReaders(t *testing.T) {
	const gone, noGroup = "-UNBLOCKED the stream key no longer exists", "-NOGROUP the consumer group this client was blocked on no longer exists"
	const one = "*1 *2 $1 s *1 *2 $3 9-0 *2 $1 f $1 v"
	for _, c := range []struct{ name, do, read, group string }{ // the replies, "" for none
		{"XADD", "XADD s 9-0 f v", one, one},
		{"XADD by a script", "EVAL redis.call('XADD','s','9-0','f','v') 1 s", one, one},
		{"two XADD in a transaction", "MULTI;XADD s 9-0 f v;XADD s 10-0 f v;EXEC", "*1 *2 $1 s *2 *2 $3 9-0 *2 $1 f $1 v *2 $4 10-0 *2 $1 f $1 v", "*1 *2 $1 s *2 *2 $3 9-0 *2 $1 f $1 v *2 $4 10-0 *2 $1 f $1 v"},
		{"XADD and XDEL in a transaction", "MULTI;XADD s 9-0 f v;XDEL s 9-0;EXEC", "*1 *2 $1 s *0", "*1 *2 $1 s *0"},
		{"an ID below", "XSETID s 3-0;XADD s 2-0 f v", "", ""},
		{"DEL", "DEL s", "", gone},
		{"UNLINK", "UNLINK s", "", gone},
		{"SET", "SET s v", "", gone},
		{"RENAME to another", "RENAME s other", "", gone},
		{"RENAME of another over it", "RPUSH l v;RENAME l s", "", gone},
		{"SUNIONSTORE", "SADD x 1;SUNIONSTORE s x", "", gone},
		{"expiry at once", "PEXPIRE s -1", "", gone},
		{"FLUSHALL", "FLUSHALL", "", gone},
		{"FLUSHDB", "FLUSHDB", "", gone},
		{"MOVE", "MOVE s 1", "", gone},
		{"SWAPDB with nothing", "SWAPDB 0 1", "", gone},
		{"DEL and XADD in a transaction", "MULTI;DEL s;XADD s 9-0 f v;EXEC", one, noGroup},
		{"XGROUP DESTROY", "XGROUP DESTROY s g", "", noGroup},
		{"XGROUP DESTROY of another", "XGROUP CREATE s h 0;XGROUP DESTROY s h", "", ""},
		{"COPY over it", "XADD t 9-0 f v;COPY t s REPLACE", one, noGroup},
		{"XGROUP SETID", "XGROUP SETID s g 0", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := open(t, Options{})
			s := e.Session()
			follows(t, s, "XADD s 1-0 f v\nXGROUP CREATE s g $")
			read, group := waits(t, e, "XREAD BLOCK 0 STREAMS none s $ $"), waits(t, e, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
			for line := range strings.SplitSeq(c.do, ";") {
				run(s, line)
			}
			for w, reply := range map[*Wait]string{read: c.read, group: c.group} {
				if reply == "" {
					stillWaits(t, w)
					w.Cancel()
				} else {
					served(t, w, reply)
				}
			}
		})
	}
}

// TestReaderOfExpiredStream holds that the sweeper and eviction end an XREADGROUP as DEL does.
func TestReaderOfExpiredStream(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock})
	s := e.Session()
	follows(t, s, "XGROUP CREATE s g $ MKSTREAM\nPEXPIRE s 1000")
	w := waits(t, e, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
	clock.advance(2 * time.Second)
	<-w.Done()
	served(t, w, "-UNBLOCKED the stream key no longer exists")

	follows(t, s, "XGROUP CREATE s g $ MKSTREAM")
	w = waits(t, e, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
	follows(t, s, "CONFIG SET maxmemory-policy allkeys-lru\nCONFIG SET maxmemory 1")
	<-w.Done()
	served(t, w, "-UNBLOCKED the stream key no longer exists")
}

// TestReadersShareAGroup holds that each entry goes to one consumer of a group, in the order in which they
// came, and to every XREAD.
func TestReadersShareAGroup(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	follows(t, s, "XGROUP CREATE s g $ MKSTREAM")
	a, b := waits(t, e, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"), waits(t, e, "XREADGROUP GROUP g b BLOCK 0 NOACK STREAMS s >")
	r := waits(t, e, "XREAD BLOCK 0 STREAMS s s $ 5")
	follows(t, s, "XADD s 1-1 f v")
	served(t, a, "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v")
	served(t, r, "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v")
	stillWaits(t, b)
	follows(t, s, "XADD s 1-2 f v")
	served(t, b, "*1 *2 $1 s *1 *2 $3 1-2 *2 $1 f $1 v")
	follows(t, s, "XPENDING s g → *4 :1 $3 1-1 $3 1-1 *1 *2 $1 a $1 1\nXINFO CONSUMERS s g → *2…")
}

// TestReadersTimeOut holds the reply at the end of BLOCK.
func TestReadersTimeOut(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock})
	follows(t, e.Session(), "XGROUP CREATE s g $ MKSTREAM")
	for _, line := range []string{"XREAD BLOCK 100 STREAMS s $", "XREADGROUP GROUP g c BLOCK 100 STREAMS s >"} {
		w := waits(t, e, line)
		clock.advance(99 * time.Millisecond)
		stillWaits(t, w)
		clock.advance(2 * time.Millisecond)
		<-w.Done()
		served(t, w, "*-1")
	}
}

// TestStreamEvents holds which keyspace events each command gives.
func TestStreamEvents(t *testing.T) {
	var events []string
	s := open(t, Options{Events: func(e Event) { events = append(events, string(e.Class)+":"+e.Name) }}).Session()
	for _, c := range [][2]string{
		{"XADD s 1-1 f v", "n:new t:xadd"},
		{"XADD s 1-2 f v", "t:xadd"},
		{"XADD s MAXLEN 2 1-3 f v", "t:xadd t:xtrim"},
		{"XADD s MAXLEN 9 1-4 f v", "t:xadd"},
		{"XTRIM s MAXLEN 9", ""},
		{"XTRIM s MAXLEN 2", "t:xtrim"},
		{"XDEL s 9-9", ""},
		{"XDEL s 1-3", "t:xdel"},
		{"XSETID s 1-9", "t:xsetid"},
		{"XGROUP CREATE s g 0", "t:xgroup-create"},
		{"XREADGROUP GROUP g c STREAMS s >", "t:xgroup-createconsumer"},
		{"XREADGROUP GROUP g c STREAMS s >", ""},
		{"XREADGROUP GROUP g c STREAMS s 0", ""},
		{"XCLAIM s g d 0 1-4", "t:xgroup-createconsumer"},
		{"XCLAIM s g c 0 1-4", ""},
		{"XAUTOCLAIM s g e 0 0", "t:xgroup-createconsumer"},
		{"XAUTOCLAIM s g c 0 0", ""},
		{"XACK s g 1-4", ""},
		{"XGROUP CREATECONSUMER s g x", "t:xgroup-createconsumer"},
		{"XGROUP CREATECONSUMER s g x", ""},
		{"XGROUP DELCONSUMER s g x", "t:xgroup-delconsumer"},
		{"XGROUP DELCONSUMER s g x", ""},
		{"XGROUP SETID s g 0", "t:xgroup-setid"},
		{"XGROUP DESTROY s g", "t:xgroup-destroy"},
		{"XGROUP DESTROY s g", ""},
		{"XGROUP CREATE t g 0 MKSTREAM", "n:new t:xgroup-create"},
	} {
		events = nil
		run(s, c[0])
		if got := strings.Join(events, " "); got != c[1] {
			t.Errorf("%s: %q, want %q", c[0], got, c[1])
		}
	}
}

// TestStreamEffects holds what the log gets of each command: nothing that depends on the time, on the
// nodes or on who waits.
func TestStreamEffects(t *testing.T) {
	clock, j := newFakeClock(), &memoryJournal{}
	e := open(t, Options{Clock: clock, Journal: j})
	s := e.Session()
	now := fmt.Sprint(clock.Now().UnixMilli())
	check := func(line string, effects ...string) {
		t.Helper()
		var got []string
		for _, e := range j.effects {
			for _, cmd := range e.Commands {
				words := make([]string, len(cmd))
				for i, w := range cmd {
					words[i] = string(w)
				}
				got = append(got, strings.ReplaceAll(strings.Join(words, " "), now, "NOW"))
			}
		}
		if !slices.Equal(got, effects) {
			t.Errorf("%s\n got %q\nwant %q", line, got, effects)
		}
		j.effects = nil
	}
	for _, c := range [][]string{
		{"XADD s * f v", "XADD s NOW-0 f v"},
		{"DEL s", "DEL s"},
		{"XADD s 1-* f v", "XADD s 1-0 f v"},
		{"XADD s MAXLEN ~ 5 LIMIT 100 NOMKSTREAM 1-1 f v", "XADD s MAXLEN = 2 NOMKSTREAM 1-1 f v"},
		{"XADD s MINID ~ 1 1-2 f v", "XADD s MINID = 1-0 1-2 f v"},
		{"XADD s MAXLEN 3 1-3 f v", "XADD s MAXLEN 3 1-3 f v"},
		{"XTRIM s MAXLEN ~ 1"},
		{"XTRIM s MAXLEN 2", "XTRIM s MAXLEN 2"},
		{"XREAD STREAMS s 0"},
		{"XGROUP CREATE s g 0", "XGROUP CREATE s g 0"},
		{"XREADGROUP GROUP g c COUNT 1 STREAMS s >", "XCLAIM s g c 0 1-2 TIME NOW RETRYCOUNT 1 FORCE JUSTID LASTID 1-2", "XGROUP SETID s g 1-2 ENTRIESREAD 3"},
		{"XREADGROUP GROUP g n NOACK STREAMS s >", "XGROUP CREATECONSUMER s g n", "XGROUP SETID s g 1-3 ENTRIESREAD 4"},
		{"XREADGROUP GROUP g c STREAMS s >"},
		{"XREADGROUP GROUP g c STREAMS s 0", "XCLAIM s g c 0 1-2 TIME NOW RETRYCOUNT 2 FORCE JUSTID LASTID 1-3"},
		{"XREADGROUP GROUP g x STREAMS s 0", "XGROUP CREATECONSUMER s g x"},
		{"XCLAIM s g d 0 1-2 IDLE 1", "XCLAIM s g d 0 1-2 TIME " + fmt.Sprint(clock.Now().UnixMilli()-1) + " RETRYCOUNT 3 FORCE JUSTID LASTID 1-3"},
		{"XCLAIM s g d 100 1-2"},
		{"XCLAIM s g d 0 7-7 LASTID 1-4", "XGROUP SETID s g 1-4 ENTRIESREAD 4"},
		{"XAUTOCLAIM s g c 0 0 JUSTID", "XCLAIM s g c 0 1-2 TIME NOW RETRYCOUNT 3 FORCE JUSTID LASTID 1-4"},
		{"XDEL s 1-2", "XDEL s 1-2"},
		{"XAUTOCLAIM s g c 0 0", "XACK s g 1-2"},
		{"XACK s g 1-2"},
		{"XSETID s 2", "XSETID s 2"},
		{"XGROUP DELCONSUMER s g c", "XGROUP DELCONSUMER s g c"},
		{"XGROUP DESTROY s h"},
	} {
		run(s, c[0])
		check(c[0], c[1:]...)
	}
	w := waits(t, e, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
	run(s, "XADD s 3 f v")
	served(t, w, "*1 *2 $1 s *1 *2 $3 3-0 *2 $1 f $1 v")
	check("XADD with a reader", "XADD s 3 f v", "XCLAIM s g c 0 3-0 TIME NOW RETRYCOUNT 1 FORCE JUSTID LASTID 3-0", "XGROUP SETID s g 3-0 ENTRIESREAD 5")
}

// TestStreamChangesAreSeen holds that WATCH sees changes of entries, and no changes of groups.
func TestStreamChangesAreSeen(t *testing.T) {
	e := open(t, Options{})
	s, o := e.Session(), e.Session()
	follows(t, s, "XADD s 1-1 f v\nXGROUP CREATE s g 0")
	for _, c := range []struct {
		line string
		seen bool
	}{
		{"XADD s * f v", true}, {"XDEL s 1-1", true}, {"XTRIM s MAXLEN 0", true}, {"XGROUP CREATE n g 0 MKSTREAM", true},
		{"XADD s * f v", true}, {"XREADGROUP GROUP g c STREAMS s >", false}, {"XCLAIM s g d 0 1-1 FORCE", false}, {"XACK s g 1-1", false},
		{"XGROUP SETID s g 0", false}, {"XGROUP CREATE s h 0", false}, {"XGROUP DESTROY s h", false}, {"XSETID s 99999999999999", false},
	} {
		line, seen := c.line, c.seen
		run(o, "WATCH s n")
		run(s, line)
		run(o, "MULTI")
		if got := run(o, "EXEC") == "*-1\r\n"; got != seen {
			t.Errorf("WATCH sees %s: %t, want %t", line, got, seen)
		}
	}
}

// TestStreamReplyBound holds that a reply without room changes nothing.
func TestStreamReplyBound(t *testing.T) {
	e := open(t, Options{})
	e.bounds.reply = 64 << 10
	s := e.Session()
	long := strings.Repeat("v", 1000)
	for range 100 {
		run(s, "XADD s * f "+long)
	}
	follows(t, s, `
		XGROUP CREATE s g 0
		XREADGROUP GROUP g c STREAMS s > → -ERR the reply is larger than…
		XREADGROUP GROUP g c NOACK STREAMS s > → -ERR the reply is larger than…
		XPENDING s g → *4 :0 $-1 $-1 *-1
		XINFO CONSUMERS s g → *0
		XREADGROUP GROUP g c COUNT 10 STREAMS s > → *1…
		XREADGROUP GROUP g c COUNT 40 STREAMS s > → *1…
		XREADGROUP GROUP g c COUNT 40 STREAMS s > → *1…
		XAUTOCLAIM s g d 0 0 → -ERR the reply is larger than…
		XPENDING s g - + 1 d → *0
		XRANGE s - + → -ERR the reply is larger than…`)
}
