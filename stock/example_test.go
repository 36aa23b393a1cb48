package stock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/stock"
)

func Example() {
	ctx, client := context.Background(), connect()

	items, err := stock.New(client, stock.Options{TTL: 10 * time.Minute})
	if err != nil {
		panic(err)
	}
	if _, err := items.Set(ctx, "sku:42", 100); err != nil {
		panic(err)
	}
	short, err := items.Do(ctx, "sku:42", 1, func(ctx context.Context) error {
		fmt.Println("charging the card; ctx ends before the reservation does")
		return nil
	})
	switch {
	case err != nil:
		panic(err)
	case short != nil:
		fmt.Println("sold out;", short.Reserved, "may come back")
	default:
		fmt.Println("sold")
	}
	// Output:
	// charging the card; ctx ends before the reservation does
	// sold
}

// A flash sale: 1000 buyers, 100 units. Some leave without paying.
func Example_flashSale() {
	ctx, client := context.Background(), connect()

	items, err := stock.New(client, stock.Options{})
	if err != nil {
		panic(err)
	}
	if _, err := items.Set(ctx, "phone", 100); err != nil {
		panic(err)
	}
	var paid atomic.Int64
	var wg sync.WaitGroup
	for buyer := range 1000 {
		wg.Go(func() {
			_, err := items.Do(ctx, "phone", 1, func(context.Context) error {
				if buyer%10 == 0 {
					return errors.New("declined")
				}
				paid.Add(1)
				return nil
			})
			if err != nil && buyer%10 != 0 {
				panic(err)
			}
		})
	}
	wg.Wait()
	info, err := items.Info(ctx, "phone")
	if err != nil {
		panic(err)
	}
	fmt.Println("sold as many as were paid for:", info.Sold == paid.Load())
	fmt.Println("no more than there are:", info.Sold <= 100 && info.Available == 100-info.Sold)
	// Output:
	// sold as many as were paid for: true
	// no more than there are: true
}

// The order's number is the id. Any process that knows it commits or
// cancels, and may repeat that when it is unsure of the outcome.
func ExampleInventory_ReserveRequest() {
	ctx, client := context.Background(), connect()

	items, err := stock.New(client, stock.Options{})
	if err != nil {
		panic(err)
	}
	if _, err := items.Set(ctx, "sku:42", 3); err != nil {
		panic(err)
	}
	for range 2 { // the second after a lost reply, say
		r, _, err := items.ReserveRequest(ctx, "sku:42", stock.Request{ID: "order-7", N: 2, TTL: 15 * time.Minute})
		if err != nil {
			panic(err)
		}
		fmt.Println(r.ID, "holds", r.N)
	}
	_, short, err := items.Reserve(ctx, "sku:42", 2)
	if err != nil {
		panic(err)
	}
	fmt.Println("another has to wait:", short.Available, "left,", short.Reserved, "may come back in", short.Next.Round(time.Minute))

	fmt.Println("paid:", items.Commit(ctx, "sku:42", "order-7"))
	fmt.Println("paid, told twice:", items.Commit(ctx, "sku:42", "order-7"))
	fmt.Println("too late:", items.Cancel(ctx, "sku:42", "order-7"))
	// Output:
	// order-7 holds 2
	// order-7 holds 2
	// another has to wait: 1 left, 2 may come back in 15m0s
	// paid: <nil>
	// paid, told twice: <nil>
	// too late: stock: the reservation is committed
}

// Nobody pays in time, and the units are on sale again.
func ExampleInventory_Commit() {
	ctx, client := context.Background(), connect()

	items, err := stock.New(client, stock.Options{TTL: 20 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	if _, err := items.Set(ctx, "sku:42", 1); err != nil {
		panic(err)
	}
	r, _, err := items.Reserve(ctx, "sku:42", 1)
	if err != nil {
		panic(err)
	}
	for {
		if next, _, err := items.Reserve(ctx, "sku:42", 1); err != nil {
			panic(err)
		} else if next != nil {
			break
		}
	}
	fmt.Println(items.Commit(ctx, r.Name, r.ID))
	// Output: stock: the reservation expired
}
