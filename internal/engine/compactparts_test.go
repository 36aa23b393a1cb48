package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// pairs give commands on a key and on another that it is often together with.
var pairs = []string{
	"SET <a> <n>", "APPEND <a> x", "MSET <a> <n> <x> <n> <y> <n>", "DEL <a> <x> <y>", "UNLINK <x> <b>", "RENAME <a> <b>", "RENAMENX <a> <b>", "COPY <a> <b> REPLACE",
	"COPY <a> <b> DB 1 REPLACE", "MOVE <a> 1", "RPUSH l<a> <n> <n>", "LMOVE l<a> l<b> LEFT RIGHT", "SADD s<a> <n> <n>", "SMOVE s<a> s<b> <n>",
	"SUNIONSTORE s<a> s<a> s<b>", "ZADD z<a> <n> <n>", "ZRANGESTORE z<b> z<a> 0 3", "ZUNIONSTORE z<a> 2 z<a> z<b>", "BITOP XOR <a> <a> <b>", "PFADD p<a> <n>", "PFMERGE p<b> p<a>",
	"SORT l<a> BY <b>* STORE l<b>", "HSET h<a> f <n> g <n>", "EXPIRE <a> 10000", "SELECT 1", "SELECT 0", "MULTI", "EXEC", "LMPOP 2 l<a> l<b> LEFT",
}

// TestFoldInParts: with a limit of memory the log is compacted in parts, and what is read
// back is the same: also keys that a command had together, in a transaction or in another
// database.
func TestFoldInParts(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	disk := faultdisk.New()
	e := onDisk(t, disk, Options{Fsync: aof.Never, CompactBytes: 1 << 40})
	s := e.Session()
	for range 4000 {
		words := split(pairs[r.IntN(len(pairs))])
		if r.IntN(1500) == 0 {
			words = split([]string{"FLUSHDB", "SWAPDB 0 1"}[r.IntN(2)])
		}
		first := r.IntN(150) * 2
		for i, w := range words {
			words[i] = fillPair(r, w, first)
		}
		tryStep(steps, s, words)
	}
	run(s, "EXEC")
	e.memory.limit.Store(e.memory.used.Load() + 1)
	f, err := e.folding(func(func(aof.Record) error) error { return nil })
	if err != nil || f.parts < foldShare {
		t.Errorf("%d parts, want at least %d, %v", f.parts, foldShare, err)
	}
	before := state(e)
	if err := e.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	sameState(t, state(onDisk(t, disk, Options{})), before)
	if len(before) < 100 {
		t.Errorf("%d keys are few", len(before))
	}
}

func fillPair(r *rand.Rand, w []byte, first int) []byte {
	out := make([]byte, 0, len(w))
	for i := 0; i < len(w); i++ {
		if w[i] != '<' {
			out = append(out, w[i])
			continue
		}
		switch w[i+1] {
		case 'a':
			out = fmt.Appendf(out, "k%d", first)
		case 'b':
			out = fmt.Appendf(out, "k%d", first+1)
		case 'n':
			out = fmt.Append(out, r.IntN(20))
		default:
			out = fmt.Appendf(out, "k%d", r.IntN(300))
		}
		i += 2
	}
	return out
}
