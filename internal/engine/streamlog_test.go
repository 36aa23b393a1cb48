package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// streamProgram makes streams a, b, … in all states that a log must keep: with entries of other fields, tombstones, a
// last ID above or below the last entry, none at all; with groups, consumers without pending entries, and
// pending entries that were deleted or trimmed.
func streamProgram(r *rand.Rand, do func(args [][]byte)) {
	line := func(format string, args ...any) { do(split(fmt.Sprintf(format, args...))) }
	for _, k := range []string{"a", "b", "c", "d"} {
		n := 1 + r.IntN(300)
		for i := range n {
			line("XADD %s %d-%d f%d %d g %s", k, 1+i/3, 1+i%3, r.IntN(10)/9, r.IntN(1000), strings.Repeat("v", 1+r.IntN(30)))
		}
		for g := range r.IntN(4) {
			line("XGROUP CREATE %s g%d %d", k, g, r.IntN(n)/3)
			line("XGROUP CREATECONSUMER %s g%d idle", k, g)
			for range r.IntN(6) {
				line("XREADGROUP GROUP g%d c%d COUNT %d STREAMS %s >", g, r.IntN(4), 1+r.IntN(40), k)
			}
			line("XACK %s g%d %d-1 %d-2 %d-3", k, g, r.IntN(1+n/3), r.IntN(1+n/3), r.IntN(1+n/3))
			line("XCLAIM %s g%d c9 0 %d-1 RETRYCOUNT 5", k, g, r.IntN(1+n/3))
		}
		for range r.IntN(20) {
			line("XDEL %s %d-%d", k, 1+r.IntN(1+n/3), 1+r.IntN(3))
		}
		switch r.IntN(6) {
		case 0:
			line("XTRIM %s MAXLEN %d", k, r.IntN(n))
		case 1:
			line("XTRIM %s MINID %d", k, 1+r.IntN(n))
		case 2:
			line("XTRIM %s MAXLEN 0", k)
			line("XSETID %s 7-7", k) // below what was deleted
		case 3:
			line("XSETID %s 1000-5 ENTRIESADDED 5000 MAXDELETEDID 900-1", k)
			line("XADD %s 1000-6 f v", k)
		case 4:
			line("XSETID %s 1000-5", k)
		}
	}
	line("XGROUP CREATE empty g $ MKSTREAM")
	line("XADD once * f v")
	line("XTRIM once MAXLEN 0")
	line("PEXPIREAT once 4102444800000")
}

// streamsInFull is all that is known of the streams.
func streamsInFull(do func(args [][]byte) []byte) (all string) {
	for k := range strings.FieldsSeq(programKeys) {
		all += fmt.Sprintf("%s: %q\n", k, do(split("XINFO STREAM "+k+" FULL COUNT 0")))
	}
	return all
}

const programKeys = "a b c d empty once"

// TestStreamsInLog wants streams to be the same when the log is read again, and when it was compacted.
func TestStreamsInLog(t *testing.T) {
	r := randtest.Rand(t)
	steps := randtest.Watch(t)
	for range 4 {
		steps.Begin(func() string { return "a program" })
		dir := t.TempDir()
		e, err := New(Options{Dir: dir, Fsync: aof.Never})
		if err != nil {
			t.Fatal(err)
		}
		s := e.Session()
		do := func(args [][]byte) []byte { b, _ := s.Do(nil, args); return b }
		streamProgram(r, func(args [][]byte) { do(args) })
		before := state(e)
		for _, compact := range []bool{false, true, true} {
			seen := ""
			if compact {
				seen = streamsInFull(do)
				if err := e.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if e, err = New(Options{Dir: dir, Fsync: aof.Never}); err != nil {
				t.Fatal(err)
			}
			s = e.Session()
			sameState(t, state(e), before)
			if compact {
				sameText(t, "after a compaction", timeless(streamsInFull(do)), timeless(seen))
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		steps.End()
	}
}

// timeless takes out how many nodes there are, which depends on what was deleted, and when consumers were seen,
// which a log doesn't have before its first compaction.
func timeless(info string) string {
	for _, name := range []string{"radix-tree-keys", "radix-tree-nodes", "seen-time"} {
		parts := strings.Split(info, name+`\r\n:`)
		for i := range parts[1:] {
			_, parts[i+1], _ = strings.Cut(parts[i+1], `\r\n`)
		}
		info = strings.Join(parts, name)
	}
	return info
}

// sameText shows where two texts begin to differ.
func sameText(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	from := max(0, n-200)
	t.Errorf("%s:\n…%.300s\nwant\n…%.300s", what, got[from:], want[from:])
}

// TestManyPendingInLog wants the pending entries that come behind the others to be the same.
func TestManyPendingInLog(t *testing.T) {
	r := randtest.Rand(t)
	steps := randtest.Watch(t)
	for range 10 {
		steps.Begin(func() string { return "a program" })
		from, to := open(t, Options{}), open(t, Options{})
		do := func(s *Session, args [][]byte) []byte { b, _ := s.Do(nil, args); return b }
		streamProgram(r, func(args [][]byte) { do(from.Session(), args) })
		to.loading = true // as when a log is read
		for i := range from.shards {
			if ks := from.shards[i].dbs[0]; ks != nil {
				ks.keys.each(func(it *item) bool {
					most := r.IntN(3) * 20
					dumpStream(view(it.key), asStream(it), most, func(args [][]byte) {
						if got := do(to.Session(), args); got[0] == '-' {
							t.Errorf("%s: %s", quote(args), got)
						}
					})
					if it.val.expire != 0 {
						do(to.Session(), [][]byte{[]byte("PEXPIREAT"), view(it.key), appendInt(nil, it.val.expire)})
					}
					return true
				})
			}
		}
		to.loading = false
		sameState(t, state(to), state(from))
		steps.End()
	}
}

// TestStreamsToAndFromRedis wants streams to be the same on the other side, in every respect.
func TestStreamsToAndFromRedis(t *testing.T) {
	p := newPair(t, resp.RESP2)
	r := randtest.Rand(t)
	engine := func(args [][]byte) []byte { b, _ := p.s.Do(nil, args); return b }
	for i := range 12 {
		from, to := engine, p.o.do
		if i%2 == 1 {
			from, to = to, from
		}
		p.o.do(split("CONFIG SET rdbcompression " + []string{"yes", "no"}[i/2%2]))
		from(split("FLUSHALL"))
		to(split("FLUSHALL"))
		streamProgram(r, func(args [][]byte) { from(args) })
		for k := range strings.FieldsSeq(programKeys) {
			payload, _ := decode(from(split("DUMP " + k)))
			if got := to(argv("RESTORE", k, "0", payload.(string))); string(got) != "+OK\r\n" {
				t.Errorf("RESTORE of %s says %q", k, got)
			}
			to(split("XADD " + k + " 5000-* f v"))
			from(split("XADD " + k + " 5000-* f v"))
		}
		sameText(t, "restored", streamsInFull(to), streamsInFull(from))
	}
}

// TestStreamMemory measures what entries take, by the engine's count, beside Redis.
func TestStreamMemory(t *testing.T) {
	p := newPair(t, resp.RESP2)
	size := func(do func(args [][]byte) []byte) float64 {
		v, _ := decode(do(split("MEMORY USAGE s SAMPLES 0")))
		return float64(v.(int64))
	}
	engine := func(args [][]byte) []byte { b, _ := p.s.Do(nil, args); return b }
	engine(split("XADD s * f 0123456789"))
	if one := size(engine); one > 400 {
		t.Errorf("a stream of one entry takes %v bytes", one)
	}
	const n = 3000
	for name, c := range map[string]struct {
		pairs string
		most  float64 // bytes an entry, 0 for 1.2 of what Redis takes
	}{
		"10 bytes": {"f 01234567ab", 25}, "an integer": {"f 12345", 0}, "100 bytes": {"f " + strings.Repeat("x", 100), 0},
		"500 bytes": {"f " + strings.Repeat("x", 500), 0}, "3 fields": {"name jane age 33 city " + strings.Repeat("y", 12), 0},
	} {
		for _, do := range []func([][]byte) []byte{engine, p.o.do} {
			do(split("DEL s"))
			for i := range n {
				do(split(fmt.Sprintf("XADD s %d-0 %s", 1_700_000_000_000+3*i, c.pairs)))
			}
		}
		got, want := size(engine)/n, size(p.o.do)/n
		t.Logf("%s: %.1f bytes an entry, in Redis %.1f", name, got, want)
		if c.most != 0 && got > c.most || c.most == 0 && got > 1.2*want {
			t.Errorf("%s: %.1f bytes an entry, in Redis %.1f", name, got, want)
		}
	}
	before := size(engine)
	engine(split("XGROUP CREATE s g 0"))
	engine(split(fmt.Sprintf("XREADGROUP GROUP g c COUNT %d STREAMS s >", n)))
	if got := (size(engine) - before) / n; got > 84 {
		t.Errorf("%.1f bytes a pending entry, in Redis 84", got)
	}
}
