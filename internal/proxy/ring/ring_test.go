package ring_test

import (
	"bufio"
	"crypto/md5" //nolint:gosec // as twemproxy does
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
)

func newRing(t testing.TB, o ring.Options) *ring.Ring {
	t.Helper()
	r, err := ring.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHashes: the hashes of three keys, and the servers that nutcracker 0.5 chose for them.
//
// Promise: The twelve hashes equal twemproxy's, with the quirks of its C code.
func TestHashes(t *testing.T) {
	keys := []string{"foo", "user:1001", "caf\xc3\xa9"}
	var servers []ring.Server
	for i := range 3 {
		servers = append(servers, ring.Server{Name: fmt.Sprintf("127.0.0.1:%d", 22001+i), Weight: 1})
	}
	vectors := `one_at_a_time 238678dd a3ac13e0 d99c709e 113 132
md5 db18bdac e4d46b12 e47f1107 333 222
crc16 0c3caf96 e1645650 f6269667 123 231
crc32 00000c73 00006873 000018ad 333 213
crc32a 8c736521 e8732775 98ad42b5 222 333
fnv1_64 6ba13533 d39e3d20 8a06fef1 222 111
fnv1a_64 fed9d577 ae7b40d6 cef6bb89 312 333
fnv1_32 408f5e13 a6affca0 d682f171 321 313
fnv1a_32 a9f37ed7 4f7c1bf6 7572c049 232 132
hsieh 76d4d427 da3b9063 de3f8855 131 323
murmur c4e0338f 4ca47a0b da11981f 333 322
jenkins 99f84f99 94a1fb1a cb6225ad 121 122`
	for line := range strings.Lines(vectors) {
		f := strings.Fields(line)
		h := ring.Hash(f[0])
		ketama := newRing(t, ring.Options{Servers: servers, Hash: h, Distribution: ring.Ketama})
		modula := newRing(t, ring.Options{Servers: servers, Hash: h, Distribution: ring.Modula})
		for i, key := range keys {
			got := []string{fmt.Sprintf("%08x", ring.Sum(h, []byte(key))), fmt.Sprint(ketama.Pick([]byte(key)) + 1), fmt.Sprint(modula.Pick([]byte(key)) + 1)}
			want := []string{f[1+i], f[4][i : i+1], f[5][i : i+1]}
			if !slices.Equal(got, want) {
				t.Errorf("%s of %q: hash and servers are %v, want %v", h, key, got, want)
			}
		}
	}
}

// TestTwemproxy: the choices of nutcracker 0.5.0 among 25 servers, with and without names and weights,
// for 100,000 keys each. testdata/README says how they were recorded.
//
// Promise: A ring chooses the server that twemproxy chooses.
func TestTwemproxy(t *testing.T) {
	keys := recordedKeys()
	f, err := os.Open("testdata/nutcracker.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var hash ring.Hash
		var dist ring.Distribution
		var which, begin, sum string
		if _, err := fmt.Sscan(lines.Text(), &hash, &dist, &which, &begin, &sum); err != nil {
			t.Fatal(err)
		}
		r := newRing(t, ring.Options{Servers: recordedServers(which), Hash: hash, Distribution: dist, Tag: "{}"})
		picks := make([]byte, len(keys))
		for i, key := range keys {
			picks[i] = 'A' + byte(r.Pick(key)) //nolint:gosec // < 25
		}
		if got := sha256.Sum256(picks); string(picks[:len(begin)]) != begin || hex.EncodeToString(got[:8]) != sum {
			t.Errorf("%s %s, %s servers: chose %s…, nutcracker %s…", hash, dist, which, picks[:len(begin)], begin)
		}
	}
	if n != 48 {
		t.Errorf("%d recordings, want 48", n)
	}
}

// recordedKeys are of 0 to 40 bytes of all kinds, some with tags.
func recordedKeys() [][]byte {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same always
	keys := make([][]byte, 100_000)
	for i := range keys {
		key := make([]byte, 1+rng.IntN(40))
		for j := range key {
			key[j] = byte(rng.Uint32()) //nolint:gosec // any byte
			if i%3 == 0 {
				key[j] = "{}abc:0123\xff"[rng.IntN(11)]
			}
		}
		keys[i] = key
	}
	return keys
}

func recordedServers(which string) (servers []ring.Server) {
	for i := range 25 {
		s := ring.Server{Name: fmt.Sprintf("127.0.0.1:%d", 22101+i), Weight: 1}
		if which == "named" {
			s = ring.Server{Name: fmt.Sprintf("node-%d", i), Weight: 1 + i%4}
		}
		servers = append(servers, s)
	}
	return servers
}

// A second implementation, straight from the description: no table, no search, and
// each step of the number of points rounded to 24 bits.
func TestAgainstAnother(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same always
	for round := range 20 {
		var servers []ring.Server
		total := 0
		for i := range 1 + rng.IntN(25) {
			servers = append(servers, ring.Server{Name: fmt.Sprintf("%d.cache", i*i), Weight: 1 + rng.IntN(9)})
			total += servers[i].Weight
		}
		r := newRing(t, ring.Options{Servers: servers, Hash: ring.FNV64a})
		type point struct {
			at     uint32
			server int
		}
		var points []point
		for i, s := range servers {
			round24 := func(x *big.Float) *big.Float { return new(big.Float).SetPrec(24).Set(x) }
			x := round24(new(big.Float).SetPrec(24).Quo(big.NewFloat(float64(s.Weight)), big.NewFloat(float64(total))))
			x = round24(new(big.Float).Mul(x, big.NewFloat(160)))
			x = round24(new(big.Float).Quo(x, big.NewFloat(4)))
			x = round24(new(big.Float).Mul(x, big.NewFloat(float64(len(servers)))))
			n, _ := x.Float64()
			for k := range int(math.Floor(n)) {
				sum := md5.Sum([]byte(s.Name + "-" + strconv.Itoa(k))) //nolint:gosec // as twemproxy does
				for b := range 4 {
					points = append(points, point{binary.LittleEndian.Uint32(sum[4*b:]), i})
				}
			}
		}
		for range 5000 {
			key := strconv.FormatUint(rng.Uint64(), 36)
			h := uint64(14695981039346656037)
			for _, b := range []byte(key) {
				h = (h ^ uint64(b)) * 1099511628211
			}
			best, least := points[0], points[0]
			found := false
			for _, p := range points {
				if p.at < least.at {
					least = p
				}
				if p.at >= uint32(h) && (!found || p.at < best.at) { //nolint:gosec // the lower half
					best, found = p, true
				}
			}
			if !found {
				best = least
			}
			if got := r.Pick([]byte(key)); got != best.server {
				t.Fatalf("round %d: %q goes to %d, want %d of %v", round, key, got, best.server, servers)
			}
		}
	}
}

// Promise: The points of a ketama ring equal twemproxy's.
func TestPoints(t *testing.T) {
	for _, tt := range []struct{ weight, total, live, want int }{
		{1, 25, 25, 156}, {1, 9, 3, 52}, {3, 9, 3, 160}, {5, 9, 3, 264}, {1, 1, 1, 160}, {1, 3, 3, 160},
	} {
		if got := ring.PointsOf(tt.weight, tt.total, tt.live); got != tt.want {
			t.Errorf("weight %d of %d, %d servers: %d points, want %d", tt.weight, tt.total, tt.live, got, tt.want)
		}
	}
}

// The example of many tutorials, and the order of the servers in the file does not
// count.
//
// Promise: Modula orders the servers as twemproxy does.
func TestModula(t *testing.T) {
	servers := []ring.Server{{"redis-10", 1}, {"redis-2", 1}, {"redis-1", 1}}
	o := ring.Options{Servers: servers[1:], Hash: ring.FNV64a, Distribution: ring.Modula}
	for key, want := range map[string]string{"a": "redis-1", "b": "redis-2", "c": "redis-1", "d": "redis-2"} {
		if got := o.Servers[newRing(t, o).Pick([]byte(key))].Name; got != want {
			t.Errorf("%q goes to %s, want %s", key, got, want)
		}
	}
	o.Servers = servers
	r := newRing(t, o)
	reversed := slices.Clone(servers)
	slices.Reverse(reversed)
	o.Servers = reversed
	for i := range 100 {
		key := []byte(strconv.Itoa(i))
		if a, b := servers[r.Pick(key)].Name, reversed[newRing(t, o).Pick(key)].Name; a != b {
			t.Fatalf("%s: %s or %s, by the order in which servers are given", key, a, b)
		}
	}
	weighty := ring.Options{Servers: []ring.Server{{"a", 1}, {"b", 3}}, Distribution: ring.Modula}
	var n [2]int
	for i := range 4000 {
		n[newRing(t, weighty).Pick([]byte(strconv.Itoa(i)))]++
	}
	if n[0] < 900 || n[0] > 1100 {
		t.Errorf("weights of 1 and 3 have %v keys", n)
	}
}

// Promise: Only the part of a key between the two bytes of the tag counts, unless that part is
// empty.
func TestTag(t *testing.T) {
	r := newRing(t, ring.Options{Servers: recordedServers("named"), Tag: "{}"})
	for key, want := range map[string]string{
		"a{b}c": "b", "{b}": "b", "a{}c": "a{}c", "a{b": "a{b", "a}b{c}": "c", "{a}{b}": "a", "{{a}}": "{a", "": "", "{": "{",
	} {
		if got := string(r.Tagged([]byte(key))); got != want {
			t.Errorf("of %q %q is hashed, want %q", key, got, want)
		}
	}
	if a, b := r.Pick([]byte("{user}:1")), r.Pick([]byte("x{user}")); a != b {
		t.Errorf("two keys with one tag go to %d and %d", a, b)
	}
	dollar := newRing(t, ring.Options{Servers: recordedServers("named"), Tag: "$$"})
	if got := string(dollar.Tagged([]byte("a$b$c"))); got != "b" {
		t.Errorf("between two dollars %q is hashed", got)
	}
}

// Promise: An empty key has hash 0.
func TestEmptyKey(t *testing.T) {
	for _, h := range ring.Hashes {
		r := newRing(t, ring.Options{Servers: recordedServers("plain"), Hash: h, Distribution: ring.Modula})
		if r.Pick(nil) != 0 {
			t.Errorf("%s sends the empty key to %d", h, r.Pick(nil))
		}
	}
}

func TestDead(t *testing.T) {
	servers := recordedServers("named")
	live := make([]bool, len(servers))
	if _, err := ring.New(ring.Options{Servers: servers, Live: live}); !errors.Is(err, ring.ErrNoServer) {
		t.Errorf("with no server: %v", err)
	}
	for i := range live {
		live[i] = i != 7
	}
	for _, d := range ring.Distributions {
		whole, less := newRing(t, ring.Options{Servers: servers, Distribution: d}), newRing(t, ring.Options{Servers: servers, Live: live, Distribution: d})
		moved := 0
		for i := range 10_000 {
			key := []byte(strconv.Itoa(i))
			a, b := whole.Pick(key), less.Pick(key)
			if b == 7 {
				t.Fatal("a dead server is chosen")
			}
			if a != 7 && a != b {
				moved++
			}
		}
		if d == ring.Ketama && moved > 1000 { // points of the others are rounded anew
			t.Errorf("%d of 10,000 keys moved between servers that live", moved)
		}
	}
}

func TestRandom(t *testing.T) {
	r := newRing(t, ring.Options{Servers: []ring.Server{{"a", 1}, {"b", 99}}, Distribution: ring.Random})
	var n [2]int
	for range 10_000 {
		n[r.Pick([]byte("key"))]++
	}
	if n[0] < 4500 || n[0] > 5500 {
		t.Errorf("chosen %v times", n)
	}
}

// Promise: Two rings with one digest choose alike.
func TestDigest(t *testing.T) {
	servers := recordedServers("named")
	o := ring.Options{Servers: servers}
	reversed := slices.Clone(servers)
	slices.Reverse(reversed)
	if a, b := newRing(t, o).Digest(), newRing(t, ring.Options{Servers: reversed, Hash: ring.FNV64a, Distribution: ring.Ketama}).Digest(); a != b {
		t.Errorf("the same ring has digests %s and %s", a, b)
	}
	live := slices.Repeat([]bool{true}, len(servers))
	live[0] = false
	heavier := slices.Clone(servers)
	heavier[0].Weight++
	seen := map[string]bool{newRing(t, o).Digest(): true}
	for _, o := range []ring.Options{
		{Servers: servers, Hash: ring.MD5},
		{Servers: servers, Distribution: ring.Modula},
		{Servers: servers, Tag: "{}"},
		{Servers: servers, Live: live},
		{Servers: heavier},
		{Servers: servers[1:], Tag: "[]"},
	} {
		if d := newRing(t, o).Digest(); seen[d] {
			t.Errorf("%v has the digest of another", o)
		} else {
			seen[d] = true
		}
	}
}

func TestBadOptions(t *testing.T) {
	one := []ring.Server{{"a", 1}}
	for want, o := range map[string]ring.Options{
		`ring: no servers; want at least one`:                                           {},
		`ring: server "a" has weight 0; want 1 to 2147483647`:                           {Servers: []ring.Server{{"a", 0}}},
		`ring: two servers have the name "a"`:                                           {Servers: []ring.Server{{"a", 1}, {"a", 2}}},
		`ring: Live has 2 values for 1 servers`:                                         {Servers: one, Live: make([]bool, 2)},
		`ring: "sha1" is not a valid hash; want one of [one_at_a_time md5 crc16 `:       {Servers: one, Hash: "sha1"},
		`ring: "slots" is not a valid distribution; want one of [ketama modula random]`: {Servers: one, Distribution: "slots"},
		`ring: tag "{" is not a valid hash tag string with two characters`:              {Servers: one, Tag: "{"},
		`ring: the weights add up to 33554432; want at most 16777216 for modula`:        {Servers: []ring.Server{{"a", 1 << 25}}, Distribution: ring.Modula},
	} {
		if _, err := ring.New(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %s", o, err, want)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, d := range []ring.Distribution{ring.Ketama, ring.Modula} {
		b.Run(string(d), func(b *testing.B) {
			r := newRing(b, ring.Options{Servers: recordedServers("plain"), Distribution: d})
			key := []byte("user:1001:profile")
			b.ReportAllocs()
			for b.Loop() {
				r.Pick(key)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newRing(b, ring.Options{Servers: recordedServers("plain")})
	}
}
