package stock_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/stock"
)

func TestMain(m *testing.M) {
	faults.Main()
	faults.WorkIfHired(orders.work)
	goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}})
}

var connect = exampleserver.Connect

// env is one back end with a client on it.
type env struct{ *testenv.Env }

// each runs a test on every back end, on its own clock.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// eachFrozen runs a test on every back end, with a clock that the test sets.
func eachFrozen(t *testing.T, run func(t *testing.T, e *env)) {
	each(t, func(t *testing.T, e *env) {
		e.Freeze(wire.Scripts(), nil)
		run(t, e)
	})
}

// items returns an Inventory whose reservations last a minute.
func (e *env) items() *stock.Inventory { return e.itemsOn(e.Client) }

func (e *env) itemsOn(c *redoubt.Client) *stock.Inventory {
	e.T.Helper()
	v, err := stock.New(c, stock.Options{TTL: time.Minute})
	must(e.T, err)
	return v
}

var must, is, eventually = expect.Must, expect.Is, await.Soon

// reserve reserves n units under id, which must succeed.
func reserve(t testing.TB, v *stock.Inventory, name, id string, n int64) {
	t.Helper()
	r, short, err := v.ReserveRequest(t.Context(), name, stock.Request{ID: id, N: n})
	must(t, err)
	if short != nil {
		t.Fatalf("too few for %s: %+v", id, *short)
	}
	if r.N != n || r.ID != id || r.Name != name {
		t.Fatalf("reserved %+v, want %d under %s", *r, n, id)
	}
}

// refused tries to reserve n units, which must fail.
func refused(t testing.TB, v *stock.Inventory, name string, n int64) stock.Shortage {
	t.Helper()
	r, short, err := v.Reserve(t.Context(), name, n)
	must(t, err)
	if short == nil {
		t.Fatalf("reserved %+v", *r)
	}
	return *short
}

// counts is an Info in short.
type counts struct{ total, available, reserved, sold int64 }

// wants checks what there is of an item, as Info says and as the keys say.
func (e *env) wants(t testing.TB, name string, want counts) {
	t.Helper()
	i, err := e.items().Info(t.Context(), name)
	must(t, err)
	if got := (counts{i.Total, i.Available, i.Reserved, i.Sold}); got != want {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
	e.audit(t, name)
}

// audit counts what reservations hold, from the keys themselves: nothing is
// lost, nothing is there twice, nothing is below zero.
func (e *env) audit(t testing.TB, name string) {
	t.Helper()
	var all *redis.MapStringStringCmd
	var queue *redis.ZSliceCmd
	_, err := e.Redis.TxPipelined(t.Context(), func(tx redis.Pipeliner) error { // a late call may come between
		all = tx.HGetAll(t.Context(), e.Key(name, "stock"))
		queue = tx.ZRangeWithScores(t.Context(), e.Key(name, "due"), 0, -1)
		return nil
	})
	must(t, err)
	hash, due := all.Val(), queue.Val()
	n := map[string]int64{}
	for _, f := range []string{"total", "available", "sold", "next", "tidy"} {
		n[f], _ = strconv.ParseInt(hash[f], 10, 64)
		delete(hash, f)
	}
	sum, byID := n["available"]+n["sold"], map[string]string{}
	for id, held := range hash {
		units, err := strconv.ParseInt(held[:len(held)-16], 10, 64)
		must(t, err)
		sum += units
		byID[id] = held[len(held)-16:]
	}
	if sum != n["total"] || n["available"] < 0 || n["sold"] < 0 {
		t.Errorf("%s: %d of %v, with %d reservations", name, sum, n, len(hash))
	}
	if len(due) > 0 && (n["next"] == 0 || float64(n["next"]) > due[0].Score) {
		t.Errorf("%s: next is %d, and one runs out at %.0f", name, n["next"], due[0].Score)
	}
	for _, z := range due {
		id := z.Member.(string)
		if want := fmt.Sprintf("%016.0f", z.Score); byID[id] != want {
			t.Errorf("%s: %s runs out at %s, and is due at %s", name, id, byID[id], want)
		}
		delete(byID, id)
	}
	if len(byID) > 0 {
		t.Errorf("%s: these are never due: %v", name, byID)
	}
}
