package engine

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// TestListAgainstSlice does random changes to a list and to a slice, with lengths
// at which an element's header and a chunk grow.
func TestListAgainstSlice(t *testing.T) {
	slow.Test(t, "it makes 90,000 changes to lists with large elements")
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // to be repeated
		l, want := &list{}, []string{}
		lengths := []int{0, 1, 5, 126, 127, 128, 129, 1000, chunkBytes - 3, chunkBytes, 16383, 16384, 40000}
		if seed%3 == 0 {
			lengths = lengths[:5] // many a chunk
		}
		element := func() string {
			return strings.Repeat(string(rune('a'+r.IntN(26))), lengths[r.IntN(len(lengths))])
		}
		for step := range 1500 {
			s := element()
			i := 0
			if len(want) > 0 {
				i = r.IntN(len(want))
			}
			switch op := r.IntN(10); {
			case op < 2 || len(want) == 0:
				l.pushFront(s)
				want = slices.Insert(want, 0, s)
			case op < 4:
				l.pushBack(s)
				want = append(want, s)
			case op == 4 && len(want) > 20+int(seed)*4:
				if got := l.popFront(); got != want[0] {
					t.Fatalf("seed %d step %d: front has %d bytes, want %d", seed, step, len(got), len(want[0]))
				}
				want = want[1:]
			case op == 5 && len(want) > 20+int(seed)*4:
				if got := l.popBack(); got != want[len(want)-1] {
					t.Fatalf("seed %d step %d: back has %d bytes", seed, step, len(got))
				}
				want = want[:len(want)-1]
			case op == 6:
				before := r.IntN(2) == 0
				l.insert(l.at(i), s, before)
				if !before {
					i++
				}
				want = slices.Insert(want, i, s)
			case op == 7:
				l.set(l.at(i), s)
				want[i] = s
			case op == 8:
				l.remove(l.at(i))
				want = slices.Delete(want, i, i+1)
			case op == 9 && step%40 == 0:
				n, front := r.IntN(len(want)/2+1), r.IntN(2) == 0
				if l.drop(n, front); front {
					want = want[n:]
				} else {
					want = want[:len(want)-n]
				}
			}
			if step%50 == 0 {
				sameList(t, l, want)
			}
		}
		sameList(t, l, want)
		for len(want) > 0 {
			s := want[r.IntN(len(want))]
			count := int64(r.IntN(5) - 2)
			if count == 0 {
				count = int64(len(want))
			}
			had := len(want)
			want = withoutEqual(want, s, count)
			rest, removed := l.withoutEqual(s, count, func(int) {})
			if removed != had-len(want) || rest.len() != len(want) {
				t.Fatalf("seed %d: %d of %d are removed, and %d left, want %d", seed, removed, had, rest.len(), len(want))
			}
			if len(want) > 0 && len(want) < 100 {
				sameList(t, rest, want)
			}
			l.removeEqual(strings.Clone(s), count)
			if len(want) < 100 {
				sameList(t, l, want)
			}
		}
		if l.first != nil || l.last != nil || l.taken != 0 {
			t.Fatalf("an empty list has chunks, of %d bytes", l.taken)
		}
	}
}

func withoutEqual(in []string, s string, count int64) []string {
	out := slices.Clone(in)
	if count < 0 {
		slices.Reverse(out)
	}
	left := max(count, -count)
	out = slices.DeleteFunc(out, func(v string) bool {
		if v != s || left == 0 {
			return false
		}
		left--
		return true
	})
	if count < 0 {
		slices.Reverse(out)
	}
	return out
}

// sameList reads l in every way that there is.
func sameList(t *testing.T, l *list, want []string) {
	t.Helper()
	var got []string
	l.all(func(s string) bool { got = append(got, s); return true })
	if l.len() != len(want) || !slices.Equal(got, want) {
		t.Fatalf("the list has %d elements, %d by its own count, want %d", len(got), l.len(), len(want))
	}
	taken, chunks := 0, 0
	for k := l.first; k != nil; k = k.next {
		taken += len(k.buf)
		chunks++
		if k.n > 1 && int(k.to-k.from) > chunkBytes {
			t.Fatalf("%d elements are in a chunk of %d bytes", k.n, k.to-k.from)
		}
	}
	if taken != l.taken {
		t.Fatalf("the chunks have %d bytes, want %d", taken, l.taken)
	}
	if len(want) == 0 {
		return
	}
	p, q := l.at(0), l.at(len(want)-1)
	for i := range want {
		if a, b := l.at(i).value(), p.value(); a != want[i] || b != want[i] {
			t.Fatalf("element %d has %d bytes by index and %d going forward, want %d", i, len(a), len(b), len(want[i]))
		}
		if got := q.value(); got != want[len(want)-1-i] {
			t.Fatalf("element %d from the end has %d bytes, want %d", i, len(got), len(want[len(want)-1-i]))
		}
		p, q = p.next(), q.prev()
	}
	if p.ok() || q.ok() {
		t.Fatal("there are places beyond the ends")
	}
}

// TestListGivesBackChunks: a queue that is never empty keeps no more than it has, also after an LREM
// in a script, which makes the list anew.
func TestListGivesBackChunks(t *testing.T) {
	element := strings.Repeat("x", 100)
	for name, prepare := range map[string]func(l *list) *list{
		"pushed": func(l *list) *list { return l },
		"made anew": func(l *list) *list {
			rest, _ := l.withoutEqual("none", 0, func(int) {})
			l.become(rest)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(list)
			for range 100 {
				l.pushBack(element)
			}
			l = prepare(l)
			before := heap()
			for range 200_000 {
				l.pushBack(element)
				l.popFront()
			}
			if after := heap(); after > before+4<<20 {
				t.Errorf("%d elements take %d KiB more than before", l.len(), (after-before)>>10)
			}
			runtime.KeepAlive(l)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
