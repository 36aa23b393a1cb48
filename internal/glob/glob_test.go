package glob

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestSearch compares the search of long texts with one that tries each place.
func TestSearch(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	for range 1000 {
		g := globber{fold: r.IntN(4) == 0}
		s := Draw(r, 400, "aab")
		part, width := g.part(append(Draw(r, 5, "ab[]^-\\?"), Draw(r, 200, "?????aa[")...))
		if at := r.IntN(len(s) + 1); r.IntN(2) == 0 { // something that is there
			part = slices.Clone(s[at:])
			for i := range part {
				if r.IntN(3) > 0 {
					part[i] = '?'
				}
			}
			width = len(part)
		}
		if width == 0 || width > len(s) {
			continue
		}
		steps.Begin(func() string { return fmt.Sprintf("search for %q in %q", part, s) })
		want := -1
		for at := 0; want < 0 && at+width <= len(s); at++ {
			if g.here(part, s[at:]) {
				want = at
			}
		}
		if got := g.search(part, width, s); got != want {
			t.Fatalf("search(%q, %d, %q) = %d, want %d", part, width, s, got, want)
		}
		if got := g.find(part, width, s); got != want {
			t.Fatalf("find(%q, %d, %q) = %d, want %d", part, width, s, got, want)
		}
	}
}

// TestTimeIsBounded gives patterns for which trying each place takes minutes.
// The bound is a hundred times what the slowest should take, for the race detector and a busy machine.
func TestTimeIsBounded(t *testing.T) {
	const m, n = 20_000, 200_000
	rep := func(s string, n int) []byte { return bytes.Repeat([]byte(s), n/len(s)) }
	for _, tt := range []struct {
		name       string
		pattern, s []byte
	}{
		{"a long word", append(append([]byte("*"), rep("a", m)...), "b*"...), rep("a", n)},
		{"a long word at the end", append(append([]byte("*"), rep("a", m)...), 'b'), rep("a", n)},
		{"any byte", append(append([]byte("*"), rep("a", m)...), "?b*"...), rep("a", n)},
		{"many of any byte", append(append([]byte("*"), rep("a?", m)...), "?b*"...), rep("a", n)},
		{"sets", append(append([]byte("*"), rep("[^b]a", m)...), "[b]*"...), rep("a", n)},
		{"one long set", append(append([]byte("*["), rep("c", m)...), "]b*"...), rep("a", n)},
		{"many stars", append(rep("*a", m), 'b'), rep("a", n)},
		{"many stars and sets", append(rep("*[b]?a", m), 'b'), rep("a", n)},
		{"many stars and sets that are there", append(rep("*?a", m), 'b'), rep("a", n)},
		{"many stars far apart", append(rep("*[b]?a", m), 'b'), rep(strings.Repeat("a", 300)+"b", n)},
		{"escapes", append(append([]byte("*"), rep(`\a`, m)...), "b*"...), rep("a", n)},
		{"an end that never comes", append(rep("*?a[", m), "b*"...), rep("a", n)},
	} {
		began := time.Now()
		got := Match(tt.pattern, tt.s)
		took := time.Since(began)
		t.Logf("%-36s %v %v", tt.name, got, took)
		if took > 15*time.Second {
			t.Errorf("%s: %d bytes of pattern on %d took %v", tt.name, len(tt.pattern), len(tt.s), took)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, tt := range []struct{ pattern, s string }{
		{"user:*", "user:1234567890:profile"}, {"*profile", "user:1234567890:profile"}, {"*:123*:prof*", "user:1234567890:profile"},
		{"*:1?3*:[p]rof*", "user:1234567890:profile"}, {"news.[ab]?.x", "news.a1.x"}, {"*", "user:1234567890:profile"},
	} {
		p, s := []byte(tt.pattern), []byte(tt.s)
		b.Run(tt.pattern, func(b *testing.B) {
			for b.Loop() {
				if !Match(p, s) {
					b.Fatal("no match")
				}
			}
		})
	}
}
