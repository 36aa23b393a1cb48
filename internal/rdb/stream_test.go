package rdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/stream"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A twin does the same to a stream of a Redis and to a stream.
type twin struct {
	t      *testing.T
	rnd    *rand.Rand
	redis  *redis.Client
	s      *stream.Stream
	limits stream.Limits
	top    stream.ID
}

func (w *twin) do(args ...any) any {
	w.t.Helper()
	v, err := w.redis.Do(w.t.Context(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		w.t.Fatalf("%.300q: %v", args, err)
	}
	return v
}

func (w *twin) text() string {
	switch w.rnd.IntN(8) {
	case 0:
		return fmt.Sprint(int64(w.rnd.Uint64()) >> w.rnd.IntN(64))
	case 1:
		return []string{"", "0", "-0", "00", "-", "9223372036854775808", "-9223372036854775808", "12a"}[w.rnd.IntN(8)]
	case 2:
		return strings.Repeat("x", w.rnd.IntN(200))
	case 3:
		if w.rnd.IntN(10) == 0 {
			return strings.Repeat("y", w.rnd.IntN(20000))
		}
	}
	return "value " + fmt.Sprint(w.rnd.IntN(100))
}

// id is an ID near the IDs of the stream.
func (w *twin) id() stream.ID {
	return stream.ID{MS: uint64(w.rnd.Int64N(int64(w.top.MS) + 2)), Seq: uint64(w.rnd.IntN(3))}
}

func (w *twin) add() {
	id, _ := w.s.NextSeq(w.s.LastID().MS + uint64(w.rnd.IntN(3)))
	if w.rnd.IntN(200) == 0 {
		id.MS += 1 << w.rnd.IntN(50)
	}
	args := []any{"XADD", "k", id.String()}
	var pairs [][]byte
	for i := range 1 + w.rnd.IntN(3) {
		name := fmt.Sprint("f", i)
		if w.rnd.IntN(9) == 0 {
			name = w.text()
		}
		value := w.text()
		args, pairs = append(args, name, value), append(pairs, []byte(name), []byte(value))
	}
	w.do(args...)
	if !w.s.Add(w.limits, id, pairs) {
		w.t.Fatal("not added")
	}
	if id.MS < 1<<30 {
		w.top = id
	}
}

func (w *twin) same(what string, got, want any) {
	w.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("%s is %.9999q, Redis says %.9999q", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}

func (w *twin) step() {
	name := fmt.Sprint("g", w.rnd.IntN(3))
	g := w.s.Group([]byte(name))
	switch op := w.rnd.IntN(40); {
	case op < 22:
		w.add()
	case op < 26:
		id := w.id()
		if w.rnd.IntN(3) == 0 {
			id = w.s.FirstID()
		}
		got := 0
		if w.s.Delete(id) {
			got = 1
		}
		w.same("XDEL", got, w.do("XDEL", "k", id.String()))
	case op < 28:
		w.trim()
	case op == 28 && w.rnd.IntN(5) == 0:
		id := w.s.LastID()
		id.MS += uint64(w.rnd.IntN(5))
		added, deleted := w.s.EntriesAdded()+uint64(w.rnd.IntN(5)), w.id()
		if id.Less(deleted) {
			return
		}
		w.do("XSETID", "k", id.String(), "ENTRIESADDED", added, "MAXDELETEDID", deleted.String())
		if deleted.IsZero() {
			deleted = w.s.MaxDeletedID()
		}
		w.s.SetID(id, added, deleted)
	case op < 30:
		if g == nil {
			id := w.id()
			read := w.rnd.Int64N(20) - 1
			w.do("XGROUP", "CREATE", "k", name, id.String(), "MKSTREAM", "ENTRIESREAD", read)
			w.s.AddGroup([]byte(name), id, read)
		} else if w.rnd.IntN(5) == 0 {
			w.do("XGROUP", "DESTROY", "k", name)
			w.s.RemoveGroup([]byte(name))
		}
	case g != nil:
		w.group(g)
	}
}

func (w *twin) trim() {
	if w.rnd.IntN(3) > 0 {
		return
	}
	t := stream.Trimming{Approx: w.rnd.IntN(2) == 0, ByID: w.rnd.IntN(2) == 0}
	args := []any{"XTRIM", "k", "MAXLEN"}
	if t.ByID {
		t.MinID = w.id()
		args[2] = "MINID"
	} else {
		t.MaxLen = uint64(w.rnd.IntN(w.s.Len() + 2))
	}
	if t.Approx {
		args = append(args, "~")
	}
	if t.ByID {
		args = append(args, t.MinID.String())
	} else {
		args = append(args, t.MaxLen)
	}
	if t.Approx {
		t.Limit = w.rnd.Int64N(100)
		args = append(args, "LIMIT", t.Limit)
	}
	w.same(fmt.Sprint(args), w.s.Trim(t), w.do(args...))
}

func (w *twin) group(g *stream.Group) {
	who := fmt.Sprint("c", w.rnd.IntN(4))
	switch op := w.rnd.IntN(20); {
	case op == 0:
		n := 0
		if c := g.Consumer([]byte(who)); c != nil {
			n = g.RemoveConsumer(c)
		}
		w.same("XGROUP DELCONSUMER", n, w.do("XGROUP", "DELCONSUMER", "k", g.Name(), who))
	case op == 1:
		id := w.id()
		w.do("XGROUP", "SETID", "k", g.Name(), id.String())
		g.SetID(id, stream.Unknown)
	case op < 8:
		p, ok := pendingFrom(g, w.id())
		if ok {
			w.same("XACK", 1, w.do("XACK", "k", g.Name(), p.ID.String()))
			if !g.Remove(p.ID) {
				w.t.Fatalf("%v is not pending", p.ID)
			}
		}
	case op < 11:
		p, ok := pendingFrom(g, w.id())
		if ok && w.s.Has(p.ID) {
			w.do("XCLAIM", "k", g.Name(), who, 0, p.ID.String(), "RETRYCOUNT", 7, "JUSTID")
			if p.Count, p.Consumer = 7, g.Consumer([]byte(who)); p.Consumer == nil {
				p.Consumer = g.AddConsumer([]byte(who), 0)
			}
			g.Put(p)
		}
	default:
		n := 1 + w.rnd.IntN(10)
		w.do("XREADGROUP", "GROUP", g.Name(), who, "COUNT", n, "STREAMS", "k", ">")
		if top, ok := w.s.TopID(); !ok || !g.LastID().Less(top) {
			return // Redis doesn't make the consumer then
		}
		c := g.Consumer([]byte(who))
		if c == nil {
			c = g.AddConsumer([]byte(who), 0)
		}
		from, _ := g.LastID().Next()
		for at := w.s.Range(from, stream.Largest); n > 0 && at.Next(); n-- {
			g.Advance(at.ID())
			g.Put(stream.Pending{ID: at.ID(), Consumer: c, Count: 1})
		}
	}
}

// timeless takes out what depends on the clock.
func timeless(s *stream.Stream) []byte {
	s.EachGroup(func(g *stream.Group) bool {
		var all []stream.Pending
		g.EachPending(stream.ID{}, stream.Largest, func(p stream.Pending) bool { all = append(all, p); return true })
		for _, p := range all {
			p.Time = 0
			g.Put(p)
		}
		g.EachConsumer(func(c *stream.Consumer) bool { c.SeenTime = 0; return true })
		return true
	})
	return rdb.Payload(nil, &rdb.Value{Kind: rdb.Stream, Stream: s})
}

// described is a stream line by line.
func described(s *stream.Stream) (lines []string) {
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	line("last %v, deleted %v, added %d, first %v", s.LastID(), s.MaxDeletedID(), s.EntriesAdded(), s.FirstID())
	s.EachNode(func(id stream.ID, pack []byte) bool { line("node %v %.300q", id, pack); return true })
	s.EachGroup(func(g *stream.Group) bool {
		line("group %s last %v read %d", g.Name(), g.LastID(), g.EntriesRead())
		g.EachPending(stream.ID{}, stream.Largest, func(p stream.Pending) bool {
			line("group %s pending %v of %s, %d times", g.Name(), p.ID, p.Consumer.Name(), p.Count)
			return true
		})
		g.EachConsumer(func(c *stream.Consumer) bool { line("group %s consumer %s", g.Name(), c.Name()); return true })
		return true
	})
	return lines
}

func differences(got, want []string) (text string) {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			text += "\nmissing " + want[i]
		case i >= len(want):
			text += "\ntoo much " + got[i]
		case got[i] != want[i]:
			return text + "\n" + got[i] + "\n" + want[i]
		}
	}
	return text
}

func (w *twin) compare() {
	w.t.Helper()
	if exists := w.do("EXISTS", "k"); exists == int64(0) {
		return
	}
	dump := []byte(w.do("DUMP", "k").(string))
	v, err := rdb.Parse(dump)
	if err != nil {
		w.t.Fatalf("DUMP of Redis: %v", err)
	}
	if again := rdb.Payload(nil, v); !bytes.Equal(again, dump) {
		w.t.Fatalf("DUMP changed\n%q\n%q", again, dump)
	}
	if v.Stream.FirstID() != w.s.FirstID() {
		w.t.Fatalf("the first ID is %v, was %v", v.Stream.FirstID(), w.s.FirstID())
	}
	if got, want := timeless(w.s), timeless(v.Stream.Clone(nil)); !bytes.Equal(got, want) {
		w.t.Fatalf("the stream differs from that of Redis:%s", differences(described(w.s), described(v.Stream)))
	}
	info := w.do("XINFO", "STREAM", "k").(map[any]any)
	w.same("length", w.s.Len(), info["length"])
	w.same("radix-tree-keys", w.s.IndexKeys(), info["radix-tree-keys"])
	w.same("radix-tree-nodes", w.s.IndexNodes(), info["radix-tree-nodes"])
	w.same("recorded-first-entry-id", w.s.FirstID(), info["recorded-first-entry-id"])
	for _, x := range w.do("XINFO", "GROUPS", "k").([]any) {
		g := x.(map[any]any)
		lag, ok := w.s.Lag(w.s.Group([]byte(g["name"].(string))))
		if want, _ := g["lag"].(int64); ok != (g["lag"] != nil) || lag != want {
			w.t.Fatalf("the lag is %d, %v, want %v", lag, ok, g)
		}
	}
	w.do("DEL", "copy", "rest")
	w.do("RESTORE", "copy", 0, rdb.Payload(nil, v))
	w.same("the copy", w.do("DUMP", "copy"), string(dump))
	// The log has the groups first, then the entries.
	w.do("RESTORE", "rest", 0, rdb.Payload(nil, &rdb.Value{Kind: rdb.Stream, Stream: v.Stream.Bare(nil)}))
	s, err := rdb.Parse([]byte(w.do("DUMP", "rest").(string)))
	if err != nil {
		w.t.Fatal(err)
	}
	for c := v.Stream.Range(stream.ID{}, stream.Largest); c.Next(); {
		var pairs [][]byte
		for range c.Pairs() {
			f, x := c.Pair()
			pairs = append(pairs, bytes.Clone(f), bytes.Clone(x))
		}
		s.Stream.Add(stream.DefaultLimits, c.ID(), pairs)
	}
	s.Stream.SetID(v.Stream.LastID(), s.Stream.EntriesAdded(), s.Stream.MaxDeletedID())
	if !s.Stream.Alike(v.Stream) {
		w.t.Fatal("the stream differs when it is added to its groups")
	}
	old, err := rdb.Fit(dump, 9)
	if err != nil || old[0] != 15 {
		w.t.Fatalf("for an older Redis it is %.1q, %v", old, err)
	}
	w.do("DEL", "rest")
	w.do("RESTORE", "rest", 0, old)
	if w.s.Len() == 0 {
		return // Redis then takes the largest ID for the first
	}
	before, err := rdb.Parse(old)
	if err != nil {
		w.t.Fatal(err)
	}
	w.same("the older form", w.do("DUMP", "rest"), string(rdb.Payload(nil, before)))
}

// TestStreamBesideRedis does random changes to a stream of Redis and to a stream. After some, the payloads are the
// same to the byte.
func TestStreamBesideRedis(t *testing.T) {
	server := redistest.Start(t)
	rnd := randtest.Rand(t)
	client := clienttest.Dial(t, server.Addr())
	for _, limits := range []stream.Limits{stream.DefaultLimits, {Bytes: 4096, Entries: 3}, {Bytes: 200, Entries: 0}, {}} {
		w := &twin{t: t, rnd: rnd, redis: client, s: stream.New(), limits: limits}
		w.do("CONFIG", "SET", "rdbcompression", "no", "stream-node-max-bytes", limits.Bytes, "stream-node-max-entries", limits.Entries)
		w.do("DEL", "k")
		w.add()
		for range 60 {
			for range 40 {
				w.step()
			}
			w.compare()
		}
		w.do("CONFIG", "SET", "rdbcompression", "yes")
		v, err := rdb.Parse([]byte(w.do("DUMP", "k").(string)))
		if err != nil || !v.Stream.Alike(w.s) {
			t.Fatalf("packed: %v", err)
		}
	}
}

// pendingFrom returns the first pending entry with from ≤ ID.
func pendingFrom(g *stream.Group, from stream.ID) (p stream.Pending, ok bool) {
	g.EachPending(from, stream.Largest, func(first stream.Pending) bool {
		p, ok = first, true
		return false
	})
	return p, ok
}
