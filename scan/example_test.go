package scan_test

import (
	"context"
	"fmt"
	"slices"

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

func set(ctx context.Context, client *redoubt.Client, key string) {
	if err := client.Do(ctx, redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{"x"}}).Err; err != nil {
		panic(err)
	}
}
