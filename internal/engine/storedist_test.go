package engine

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// STOREDIST stores the same distances as Redis, except one in some hundred: C's sine, cosine and arcsine are not always
// correctly rounded, and the engine's are. Then the last bits differ.
func TestStoreDist(t *testing.T) {
	p := newPair(t, resp.RESP2)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		p.do(split("GEOADD {t}a " + coordinate(rng, 180) + " " + coordinate(rng, 85) + " m" + strconv.Itoa(i)))
	}
	differ, all := 0, 0
	for range 50 {
		at := coordinate(rng, 180) + " " + coordinate(rng, 85)
		p.do(split("GEOSEARCHSTORE {t}b {t}a FROMLONLAT " + at + " BYRADIUS 9000 km STOREDIST"))
		read := split("ZRANGE {t}b 0 -1 WITHSCORES")
		got, _ := p.s.Do(nil, read)
		want := p.o.do(read)
		_, gots := elements(got)
		_, wants := elements(want)
		if len(gots) != len(wants) || len(gots) == 0 {
			t.Fatalf("%d members and scores, want %d", len(gots), len(wants))
		}
		for i := range gots {
			a, b := string(gots[i]), string(wants[i])
			all += i % 2
			if i%2 == 1 && a != b && math.Abs(score(t, a)/score(t, b)-1) < 1e-15 {
				differ++
				continue
			}
			if a != b {
				t.Errorf("at %s: %q, want %q", at, a, b)
			}
		}
	}
	if differ > all/100 {
		t.Errorf("%d of %d distances differ", differ, all)
	}
}

func coordinate(rng *rand.Rand, most float64) string {
	return strconv.FormatFloat((2*rng.Float64()-1)*most, 'f', 6, 64)
}

func score(t *testing.T, bulk string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(strings.Split(bulk, "\r\n")[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
