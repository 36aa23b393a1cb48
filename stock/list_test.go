package stock_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/stock"
)

func checkList(t *testing.T, c *redoubt.Client) {
	t.Helper()
	items, err := stock.New(c, stock.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]stock.Info{}
	for i := int64(1); i <= 50; i++ {
		name := fmt.Sprint("sku:", i)
		if _, err := items.Set(t.Context(), name, i); err != nil {
			t.Fatal(err)
		}
		want[name] = stock.Info{Name: name, Total: i, Available: i}
	}
	if _, short, err := items.Reserve(t.Context(), "sku:7", 2); err != nil || short != nil {
		t.Fatalf("%+v, %v", short, err)
	}
	want["sku:7"] = stock.Info{Name: "sku:7", Total: 7, Available: 5, Reserved: 2, Reservations: 1}
	if _, err := items.Delete(t.Context(), "sku:8"); err != nil {
		t.Fatal(err)
	}
	delete(want, "sku:8")

	got := map[string]stock.Info{}
	for item, err := range items.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if item.Next > 0 != (item.Name == "sku:7") {
			t.Errorf("%+v", item)
		}
		item.Next = 0
		got[item.Name] = item
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d items are listed, want %d", len(got), len(want))
	}
	n := 0
	for item, err := range items.List(t.Context(), "sku:4?") {
		if n++; err != nil || item.Total < 40 {
			t.Errorf("%+v, %v", item, err)
		}
	}
	if n != 10 {
		t.Errorf("%d items match, want 10", n)
	}
	for _, err := range items.List(t.Context(), "[") {
		if err == nil {
			t.Error("a pattern without an end gives no error")
		}
	}
}

// Promise: List finds every item that exists during the whole listing.
func TestList(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		if err := e.Redis.Set(t.Context(), e.Prefix+":{text}:stock", "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		checkList(t, e.Client)
	})
}

// Promise: List finds every item that exists during the whole listing.
func TestListOnACluster(t *testing.T) {
	conn, err := goredis.Open(t.Context(), redistest.StartCluster(t, 3, 0).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	checkList(t, client)
}

// More has run out than one call returns: the listing counts all of it as available.
//
// Promise: List finds every item that exists during the whole listing.
func TestListOfMuchThatRanOut(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		items, err := stock.New(e.Client, stock.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := items.Set(t.Context(), "sku", 1200); err != nil {
			t.Fatal(err)
		}
		reserveAll(t.Context(), t, items, 1200)
		e.Clock.Set(time.Unix(1_760_003_600, 0))
		for item, err := range items.List(t.Context(), "sku") {
			if err != nil || item.Available != 1200 || item.Expired != 0 {
				t.Errorf("%+v, %v", item, err)
			}
		}
	})
}

func reserveAll(ctx context.Context, t *testing.T, items *stock.Inventory, n int) {
	t.Helper()
	for range n {
		if _, short, err := items.Reserve(ctx, "sku", 1); err != nil || short != nil {
			t.Fatalf("%+v, %v", short, err)
		}
	}
}
