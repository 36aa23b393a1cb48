package stream_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/stream"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestParseIDBesideRedis wants IDs to be read as XGROUP CREATE of Redis reads them, and refused when it refuses them.
func TestParseIDBesideRedis(t *testing.T) {
	client := clienttest.Dial(t, redistest.Start(t).Addr())
	rnd := randtest.Rand(t)
	texts := []string{
		"", "0", "1-2", "1-", "-1", "1--5", "1-05", "007", "+5", "+5-+6", " 5", "\t5-\v6", "5 ", "-0", "1-+", "1-*", "1-**", "*-1", "1-2-3", "1-- 5",
		"18446744073709551615", "18446744073709551616", "18446744073709551615-18446744073709551615", "1-18446744073709551616", "1--18446744073709551615",
		"9223372036854775807-9223372036854775808", "1\x002", "1-2\x003", "\x00", "1\x00-2", "+", "+-1", "1-+-2", "0x10", "1e3", "00-00",
		strings.Repeat("0", 125) + "12", strings.Repeat("0", 126) + "12", strings.Repeat("0", 120) + "-123456",
	}
	const letters = "0123456789-+ *\x00a"
	for range 3000 {
		var b strings.Builder
		for range 1 + rnd.IntN(8) {
			b.WriteByte(letters[rnd.IntN(len(letters))])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		if text == "-" || text == "+" || text == "$" {
			continue // no IDs of entries
		}
		if err := client.Del(t.Context(), "k").Err(); err != nil {
			t.Fatal(err)
		}
		id, auto, ok := stream.ParseID([]byte(text), 0, true)
		ok = ok && !auto
		err := client.Do(t.Context(), "XGROUP", "CREATE", "k", "g", text, "MKSTREAM").Err()
		if ok != (err == nil) {
			t.Errorf("%q is %v, %v, Redis says %v", text, id, ok, err)
		}
		if !ok || err != nil {
			continue
		}
		groups, err := client.XInfoGroups(t.Context(), "k").Result()
		if err != nil || len(groups) != 1 || groups[0].LastDeliveredID != id.String() {
			t.Errorf("%q is %v, Redis says %+v, %v", text, id, groups, err)
		}
	}
}

func TestIDs(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range []struct {
		id, next stream.ID
		ok       bool
	}{
		{stream.ID{}, stream.ID{Seq: 1}, true},
		{stream.ID{MS: 5, Seq: most}, stream.ID{MS: 6}, true},
		{stream.Largest, stream.ID{}, false},
	} {
		if next, ok := c.id.Next(); next != c.next || ok != c.ok {
			t.Errorf("behind %v is %v, %v", c.id, next, ok)
		}
		if prev, ok := c.next.Prev(); prev != c.id || ok != c.ok {
			t.Errorf("before %v is %v, %v", c.next, prev, ok)
		}
		if c.id.Less(c.next) != c.ok || (c.id.Compare(c.next) < 0) != c.ok || c.id.Compare(c.id) != 0 {
			t.Errorf("%v and %v are in the wrong order", c.id, c.next)
		}
	}
	s := stream.New()
	for _, c := range []struct {
		last, now uint64
		next, seq string
	}{{5, 4, "5-8", "none"}, {5, 5, "5-8", "5-8"}, {5, 6, "6-0", "6-0"}} {
		s.SetID(stream.ID{MS: c.last, Seq: 7}, 0, stream.ID{})
		next, _ := s.NextID(c.now)
		seq, ok := s.NextSeq(c.now)
		if fmt.Sprint(next) != c.next || ok != (c.seq != "none") || ok && fmt.Sprint(seq) != c.seq {
			t.Errorf("behind %d-7, at %d: %v, %v %v", c.last, c.now, next, seq, ok)
		}
	}
	s.SetID(stream.Largest, 0, stream.ID{})
	if id, ok := s.NextID(5); ok {
		t.Errorf("%v is behind the largest", id)
	}
	if id, ok := s.NextSeq(most); ok {
		t.Errorf("%v is behind the largest", id)
	}
}

// TestSteps wants a cursor to count what it passes.
func TestSteps(t *testing.T) {
	s := stream.New()
	for i := range 50 {
		s.Add(stream.DefaultLimits, stream.ID{MS: 1, Seq: uint64(i)}, [][]byte{[]byte("f"), []byte("v")})
	}
	for i := range 30 {
		s.Delete(stream.ID{MS: 1, Seq: uint64(10 + i)})
	}
	c := s.Range(stream.ID{MS: 1, Seq: 10}, stream.Largest)
	if !c.Next() || c.ID().Seq != 40 || c.Steps() != 40 || c.Steps() != 0 {
		t.Errorf("the cursor is at %v", c.ID())
	}
}

// FuzzID wants an ID that is taken to be the same when it is read again as it is written.
func FuzzID(f *testing.F) {
	for _, text := range []string{"0-0", "5-*", "-", "+", " 7-+3", "8--1", "18446744073709551615-18446744073709551615", "1-2\x003"} {
		f.Add([]byte(text), uint64(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, missing uint64) {
		id, auto, ok := stream.ParseID(text, missing, false)
		if !ok || auto {
			return
		}
		if again, auto, ok := stream.ParseID([]byte(id.String()), 0, true); again != id || auto || !ok {
			t.Fatalf("%q is %v, and then %v, %v", text, id, again, ok)
		}
	})
}
