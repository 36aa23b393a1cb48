package bloom_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/bloom"
)

func Example() {
	ctx, client := context.Background(), connect()

	filters, err := bloom.New(client, bloom.Options{})
	if err != nil {
		panic(err)
	}
	seen, err := filters.Open(ctx, "mails", bloom.Spec{Capacity: 1_000_000, ErrorRate: 0.01})
	if err != nil {
		panic(err)
	}
	for _, mail := range []string{"ann@example.com", "bob@example.com", "ann@example.com"} {
		isNew, err := seen.Add(ctx, mail)
		if err != nil {
			panic(err)
		}
		fmt.Println(mail, "is new:", isNew)
	}
	maybe, err := seen.MayContain(ctx, "eve@example.com")
	if err != nil {
		panic(err)
	}
	fmt.Println("eve@example.com may have been seen:", maybe)
	// Output:
	// ann@example.com is new: true
	// bob@example.com is new: true
	// ann@example.com is new: false
	// eve@example.com may have been seen: false
}

// measure fills a filter and asks for what is in it, and for as many items that are
// not. It asks a mirror, which has the same bits and is quicker.
func measure(n int, rate float64) {
	ctx, client := context.Background(), connect()

	filters, err := bloom.New(client, bloom.Options{})
	if err != nil {
		panic(err)
	}
	f, err := filters.Open(ctx, "measured", bloom.Spec{Capacity: int64(n), ErrorRate: rate})
	if err != nil {
		panic(err)
	}
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint("in-", i)
	}
	if _, err := f.AddMany(ctx, items); err != nil {
		panic(err)
	}
	m, err := f.Mirror(ctx, bloom.MirrorOptions{Every: time.Minute})
	if err != nil {
		panic(err)
	}
	defer func() { _ = m.Close() }()
	denied, wrong := 0, 0
	for i := range n {
		if !m.MayContain(items[i]) {
			denied++
		}
		if m.MayContain(fmt.Sprint("out-", i)) {
			wrong++
		}
	}
	info, err := f.Info(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("added items that are denied:", denied)
	fmt.Printf("false positives: %.2f%%\n", 100*float64(wrong)/float64(n))
	fmt.Printf("bits an item: %.2f, and %.0f%% of the bits are set\n", float64(8*info.Bytes)/float64(n), 100*info.FillRatio)
}

// Example_onePercent measures 100,000 items at 1%.
func Example_onePercent() {
	measure(100_000, 0.01)
	// Output:
	// added items that are denied: 0
	// false positives: 0.98%
	// bits an item: 9.94, and 45% of the bits are set
}

// Example_threePercent measures 100,000 items at 3%. TestHundredMillion does the same for
// 100,000,000: 2.97%, 7.45 bits an item, in 23 keys.
func Example_threePercent() {
	measure(100_000, 0.03)
	// Output:
	// added items that are denied: 0
	// false positives: 2.81%
	// bits an item: 7.45, and 49% of the bits are set
}

// ExampleFilter_Rebuild fills a new generation while the filter is in use. At the end it replaces
// the old one.
func ExampleFilter_Rebuild() {
	ctx, client := context.Background(), connect()

	filters, err := bloom.New(client, bloom.Options{})
	if err != nil {
		panic(err)
	}
	f, err := filters.Open(ctx, "users", bloom.Spec{Capacity: 10_000, ErrorRate: 0.01})
	if err != nil {
		panic(err)
	}
	if _, err := f.AddMany(ctx, []string{"ann", "bob", "left long ago"}); err != nil {
		panic(err)
	}
	users := func(yield func(string, error) bool) { // from the database, say
		for _, u := range []string{"ann", "bob"} {
			if !yield(u, nil) {
				return
			}
		}
	}
	err = f.Rebuild(ctx, users, bloom.RebuildOptions{Progress: func(p bloom.Progress) {
		fmt.Println(p.Items, "items, done:", p.Done)
	}})
	if err != nil {
		panic(err)
	}
	may, err := f.MayContainMany(ctx, []string{"ann", "bob", "left long ago"})
	if err != nil {
		panic(err)
	}
	fmt.Println(may)
	// Output:
	// 2 items, done: true
	// [true true false]
}

// ExampleFilter_Mirror answers without a round trip.
func ExampleFilter_Mirror() {
	ctx, client := context.Background(), connect()

	filters, err := bloom.New(client, bloom.Options{})
	if err != nil {
		panic(err)
	}
	f, err := filters.Open(ctx, "blocked", bloom.Spec{Capacity: 10_000, ErrorRate: 0.01})
	if err != nil {
		panic(err)
	}
	if _, err := f.Add(ctx, "192.0.2.1"); err != nil {
		panic(err)
	}
	m, err := f.Mirror(ctx, bloom.MirrorOptions{Every: time.Second, MaxAge: time.Minute})
	if err != nil {
		panic(err)
	}
	defer func() { _ = m.Close() }()
	fmt.Println(m.MayContain("192.0.2.1"), m.MayContain("192.0.2.2"))
	// Output: true false
}

// ExampleSlidingFilters answers: seen in the last week?
func ExampleSlidingFilters() {
	ctx, client := context.Background(), connect()

	filters, err := bloom.NewSliding(client, bloom.SlidingOptions{})
	if err != nil {
		panic(err)
	}
	seen, err := filters.Open(ctx, "articles", bloom.SlidingSpec{
		Window: 7 * 24 * time.Hour, Periods: 7, Capacity: 100_000, ErrorRate: 0.01,
	})
	if err != nil {
		panic(err)
	}
	for range 2 {
		isNew, err := seen.Add(ctx, "https://example.com/1")
		if err != nil {
			panic(err)
		}
		fmt.Println("new this week:", isNew)
	}
	// Output:
	// new this week: true
	// new this week: false
}

// ExampleLocal uses a filter of this process alone.
func ExampleLocal() {
	f, err := bloom.NewLocal(bloom.Spec{Capacity: 1000, ErrorRate: 0.001})
	if err != nil {
		panic(err)
	}
	fmt.Println(f.Add("a"), f.Add("a"), f.MayContain("b"))
	// Output: true false false
}
