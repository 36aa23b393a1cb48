package scan_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/scan"
)

func Example() {
	ctx, client := context.Background(), connect()
	for i := range 5000 {
		set(ctx, client, fmt.Sprint("session:", i))
	}

	scanner, err := scan.New(client, scan.Options{})
	if err != nil {
		panic(err)
	}
	keys, err := scanner.Keys(scan.Query{Match: "session:*"})
	if err != nil {
		panic(err)
	}
	n := 0
	for _, err := range keys.All(ctx) {
		if err != nil {
			panic(err)
		}
		n++
	}
	fmt.Println(n, "sessions")
	// Output: 5000 sessions
}

// A scan that was ended goes on where it was, in this process or another.
func ExampleIterator_Token() {
	ctx, client := context.Background(), connect()
	for i := range 3000 {
		set(ctx, client, fmt.Sprint("job:", i))
	}
	scanner, err := scan.New(client, scan.Options{Count: 100})
	if err != nil {
		panic(err)
	}

	given, token := map[string]bool{}, ""
	for runs := 1; ; runs++ {
		keys, err := scanner.Keys(scan.Query{Match: "job:*", From: token})
		if err != nil {
			panic(err)
		}
		n := 0
		for key, err := range keys.All(ctx) {
			if err != nil {
				panic(err)
			}
			if given[key] = true; n == 1000 {
				break
			}
			n++
		}
		if n < 1000 {
			fmt.Println(len(given), "jobs; in several runs:", runs > 2)
			return
		}
		token = keys.Token()
	}
	// Output: 3000 jobs; in several runs: true
}

func ExampleScanner_SortedSet() {
	ctx, client := context.Background(), connect()
	client.Do(ctx, redoubt.Cmd{Name: "ZADD", Keys: []string{"board"}, Args: []string{"12.5", "ann", "7", "bob", "31", "eve"}})

	scanner, err := scan.New(client, scan.Options{})
	if err != nil {
		panic(err)
	}
	board, err := scanner.SortedSet("board", scan.ElementQuery{})
	if err != nil {
		panic(err)
	}
	var lines []string // a scan has no order
	for m, err := range board.All(ctx) {
		if err != nil {
			panic(err)
		}
		lines = append(lines, fmt.Sprint(m.Name, " ", m.Score))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	// Output:
	// ann 12.5
	// bob 7
	// eve 31
}

// A dry run says what would be deleted.
func ExampleScanner_Delete() {
	ctx, client := context.Background(), connect()
	for i := range 1500 {
		set(ctx, client, fmt.Sprint("tmp:", i))
	}
	scanner, err := scan.New(client, scan.Options{})
	if err != nil {
		panic(err)
	}

	for _, dryRun := range []bool{true, false, true} {
		keys, err := scanner.Keys(scan.Query{Match: "tmp:*"})
		if err != nil {
			panic(err)
		}
		done, err := scanner.Delete(ctx, keys, scan.Bulk{DryRun: dryRun})
		if err != nil {
			panic(err)
		}
		fmt.Println("found", done.Found, "and deleted", done.Changed)
	}
	// Output:
	// found 1500 and deleted 0
	// found 1500 and deleted 1500
	// found 0 and deleted 0
}

// Keys that were made without an expiry get one, spread over an hour.
func ExampleScanner_Expire() {
	ctx, client := context.Background(), connect()
	for i := range 1500 {
		set(ctx, client, fmt.Sprint("visit:", i))
	}
	scanner, err := scan.New(client, scan.Options{})
	if err != nil {
		panic(err)
	}

	keys, err := scanner.Keys(scan.Query{Match: "visit:*"})
	if err != nil {
		panic(err)
	}
	done, err := scanner.Expire(ctx, keys, 24*time.Hour, scan.Bulk{Spread: time.Hour})
	if err != nil {
		panic(err)
	}
	fmt.Println(done.Changed, "keys expire")

	left, err := client.Do(ctx, redoubt.Cmd{Name: "TTL", Keys: []string{"visit:7"}}).Int()
	if err != nil {
		panic(err)
	}
	fmt.Println("one of them in a day:", left > 23*3600 && left <= 25*3600)
	// Output:
	// 1500 keys expire
	// one of them in a day: true
}

func ExampleScanner_Report() {
	ctx, client := context.Background(), connect()
	for i := range 1000 {
		set(ctx, client, fmt.Sprint("shop:cart:", i))
	}
	members := make([]string, 5000)
	for i := range members {
		members[i] = fmt.Sprint("user", i)
	}
	if err := client.Do(ctx, redoubt.Cmd{Name: "SADD", Keys: []string{"shop:online:today"}, Args: members}).Err; err != nil {
		panic(err)
	}
	scanner, err := scan.New(client, scan.Options{})
	if err != nil {
		panic(err)
	}

	keys, err := scanner.Keys(scan.Query{Match: "shop:*"})
	if err != nil {
		panic(err)
	}
	r, err := scanner.Report(ctx, keys, scan.ReportOptions{By: scan.Elements, Top: 2, Depth: 2})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Found, "keys, the biggest is", r.Keys[0].Name, "with", r.Keys[0].Weight)
	for _, p := range r.Prefixes {
		fmt.Println(p.Name, "has", p.Weight, "in", p.Keys, "keys")
	}
	fmt.Println(r.Types["string"].Keys, "strings")
	// Output:
	// 1001 keys, the biggest is shop:online:today with 5000
	// shop: has 6000 in 1001 keys
	// shop:online: has 5000 in 1 keys
	// 1000 strings
}

func set(ctx context.Context, client *redoubt.Client, key string) {
	if err := client.Do(ctx, redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{"x"}}).Err; err != nil {
		panic(err)
	}
}
