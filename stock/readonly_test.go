package stock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// The reader's connection sends its scripts as EVAL_RO: the server refuses each one that writes. The clock of
// the reader is past the end of the reservations.
//
// Promise: Info and List change nothing, and count expired units as available.
func TestInfoAndListChangeNothing(t *testing.T) {
	redistest.Needs(t, 7, 0, "EVAL_RO")
	testenv.EachServer(t, func(t *testing.T, te *testenv.Env) {
		reader := frozenclock.New(clienttest.ReadOnly(te.Conn), wire.Scripts(), nil)
		te.Freeze(wire.Scripts(), nil)
		e := &env{te}
		v, r := e.items(), e.itemsOn(e.ClientOn(reader))
		const many = 4100 // expired: four more than one reply counts
		for name, n := range map[string]int{"a": 3, "b": many} {
			_, err := v.Set(t.Context(), name, int64(n)+10)
			must(t, err)
			reserveMany(t, e, name, n)
			reserve(t, v, name, "sold", 2)
			must(t, v.Commit(t.Context(), name, "sold"))
		}
		e.Clock.Advance(30 * time.Second)
		reserve(t, v, "a", "later", 4)
		reserve(t, v, "b", "later", 4)
		reader.Set(e.Clock.Now().Add(45 * time.Second))
		if _, err := r.Add(t.Context(), "a", 1); err == nil {
			t.Error("the reader can write")
		}
		check := func(name string, n, expired int64) {
			t.Helper()
			info, err := r.Info(t.Context(), name)
			must(t, err)
			info.Name = ""
			want := info
			want.Total, want.Sold, want.Reservations, want.Expired, want.Next = n+10, 2, 1, expired, 15*time.Second
			want.Reserved = 4 + expired
			want.Available = want.Total - want.Sold - want.Reserved
			if info != want {
				t.Errorf("%s: %+v, want %+v", name, info, want)
			}
			for item, err := range r.List(t.Context(), name) {
				must(t, err)
				if item.Name = ""; item != want {
					t.Errorf("List: %+v, want %+v", item, want)
				}
			}
		}
		check("a", 3, 0)
		check("b", many, 4)
		if info, err := r.Info(t.Context(), "never set"); err != nil || info.Total+info.Available+info.Reservations != 0 {
			t.Errorf("%+v, %v", info, err)
		}
		if keys := e.Keys(); len(keys) != 6 {
			t.Errorf("keys: %q", keys)
		}
	})
}

// reserveMany makes n reservations of one unit each, in the form of reserve.lua.
func reserveMany(t *testing.T, e *env, name string, n int) {
	t.Helper()
	keys, err := wire.KeysOf(e.Client, name)
	must(t, err)
	until := e.Clock.Now().Add(time.Minute).UnixMicro()
	fields, due := map[string]any{"next": until}, make([]redis.Z, n)
	for i := range n {
		id := fmt.Sprintf(":%d", i)
		fields[id], due[i] = fmt.Sprintf("1%016d", until), redis.Z{Score: float64(until), Member: id}
	}
	must(t, e.Redis.HSet(t.Context(), keys[0], fields).Err())
	must(t, e.Redis.HIncrBy(t.Context(), keys[0], "available", int64(-n)).Err())
	must(t, e.Redis.ZAdd(t.Context(), keys[1], due...).Err())
}
