package ring_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
)

// The shares agree with the shares of many keys.
func TestShares(t *testing.T) {
	servers := []ring.Server{{Name: "a", Weight: 1}, {Name: "b", Weight: 3}, {Name: "c", Weight: 1}, {Name: "d", Weight: 1}}
	for _, distribution := range ring.Distributions {
		for _, live := range [][]bool{nil, {true, true, false, true}, {false, false, true, false}} {
			r, err := ring.New(ring.Options{Servers: servers, Live: live, Distribution: distribution, Hash: ring.MD5})
			if err != nil {
				t.Fatal(err)
			}
			const keys = 20_000
			counts := make([]float64, len(servers))
			for i := range keys {
				counts[r.Pick(fmt.Append(nil, "key:", i))]++
			}
			sum := 0.0
			for i, share := range r.Shares(len(servers)) {
				sum += share
				if math.Abs(share-counts[i]/keys) > 0.02 {
					t.Errorf("%s, live %v: the share of %s is %.3f, and it got %.3f of the keys", distribution, live, servers[i].Name, share, counts[i]/keys)
				}
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%s, live %v: the shares add up to %v", distribution, live, sum)
			}
		}
	}
}
