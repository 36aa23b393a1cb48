package hll_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/hll"
)

// Example counts the different visitors of a page today, and of two pages in the last week.
func Example() {
	ctx, client := context.Background(), connect()

	visitors, err := hll.New(client, hll.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = visitors.Close() }()
	for range 3 {
		if err := visitors.Add("/pricing", "ann"); err != nil {
			panic(err)
		}
	}
	if err := visitors.Add("/pricing", "bob"); err != nil {
		panic(err)
	}
	if err := visitors.AddAt("/docs", "bob", time.Now().Add(-3*24*time.Hour)); err != nil {
		panic(err)
	}
	// The visits are sent every second; the example doesn't wait for that.
	if err := visitors.Flush(ctx); err != nil {
		panic(err)
	}
	today, err := visitors.Count(ctx, "/pricing", time.Now())
	if err != nil {
		panic(err)
	}
	week, err := visitors.Last(ctx, 7, "/pricing", "/docs")
	if err != nil {
		panic(err)
	}
	fmt.Println("today:", today.Visitors, "visitors,", today.Views, "views")
	fmt.Println("both pages, 7 days:", week.Visitors, "visitors,", week.Views, "views")
	// Output:
	// today: 2 visitors, 4 views
	// both pages, 7 days: 2 visitors, 5 views
}

// Example_error measures the error of the estimate for 100,000 visitors.
func Example_error() {
	ctx, client := context.Background(), connect()

	visitors, err := hll.New(client, hll.Options{})
	if err != nil {
		panic(err)
	}
	for i := range 150_000 {
		if err := visitors.Add("/", fmt.Sprint("user-", i%100_000)); err != nil {
			panic(err)
		}
	}
	if err := visitors.Close(); err != nil {
		panic(err)
	}
	c, err := visitors.Last(ctx, 1, "/")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d views, the visitors are off by %.2f%%\n", c.Views, 100*(float64(c.Visitors)/100_000-1))
	// Output: 150000 views, the visitors are off by 0.16%
}

// ExampleVisitors_Series shows a day of a graph, hour by hour.
func ExampleVisitors_Series() {
	ctx, client := context.Background(), connect()

	visitors, err := hll.New(client, hll.Options{Period: hll.Hourly})
	if err != nil {
		panic(err)
	}
	hour := time.Now().UTC().Truncate(time.Hour)
	for i := range 9 {
		if err := visitors.AddAt("/", fmt.Sprint("user-", i%4), hour.Add(-time.Duration(i/3)*time.Hour)); err != nil {
			panic(err)
		}
	}
	if err := visitors.Close(); err != nil {
		panic(err)
	}
	points, err := visitors.Series(ctx, "/", hour.Add(-3*time.Hour), hour)
	if err != nil {
		panic(err)
	}
	for _, p := range points {
		fmt.Println(hour.Sub(p.Start), "ago:", p.Visitors, "visitors,", p.Views, "views")
	}
	// Output:
	// 3h0m0s ago: 0 visitors, 0 views
	// 2h0m0s ago: 3 visitors, 3 views
	// 1h0m0s ago: 3 visitors, 3 views
	// 0s ago: 3 visitors, 3 views
}

// ExampleVisitors_CountKeys counts keys that PFADD has made, in any slots.
func ExampleVisitors_CountKeys() {
	ctx, client := context.Background(), connect()

	visitors, err := hll.New(client, hll.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = visitors.Close() }()
	n, err := visitors.CountKeys(ctx, "visitors:monday", "visitors:tuesday")
	if err != nil {
		panic(err)
	}
	fmt.Println(n)
	// Output: 0
}

// ExampleSketch merges sketches in memory. MarshalBinary returns the value of a key for PFCOUNT.
func ExampleSketch() {
	var here, there hll.Sketch
	for i := range 1000 {
		here.Add(fmt.Sprint(i))
		there.Add(fmt.Sprint(i + 500))
	}
	data, err := there.MarshalBinary()
	if err != nil {
		panic(err)
	}
	var s hll.Sketch
	if err := s.UnmarshalBinary(data); err != nil {
		panic(err)
	}
	s.Merge(&here)
	fmt.Println(s.Count() > 1450, s.Count() < 1550)
	// Output: true true
}
