// Visitors counts the views and the different visitors of pages, by day, and of several pages together.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/engine"  // opens embedded:
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and the other URLs
	"github.com/redoubt-go/redoubt/hll"
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the counts; $REDOUBT_URL sets the default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url); err != nil {
		log.Fatal(err)
	}
}

// The visits that the example makes: users from up to to view the page several times.
var visits = []struct {
	page            string
	from, to, views int
}{
	{"/", 0, 6000, 3},
	{"/pricing", 4000, 7000, 2},
	{"/docs", 6500, 10_000, 5},
}

func run(ctx context.Context, url string) (err error) {
	// Each run has a prefix of its own, so that it starts from 0.
	prefix := fmt.Sprintf("example-visitors-%x", time.Now().UnixNano())
	client, err := redoubt.Open(ctx, url, redoubt.Options{Prefix: prefix})
	if err != nil {
		return err
	}
	defer client.Close()
	visitors, err := hll.New(client, hll.Options{
		Keep:    2 * 24 * time.Hour,
		OnError: func(err error) { log.Printf("counts are sent again later: %v", err) },
	})
	if err != nil {
		return err
	}
	// Close sends the counts that have not been sent yet.
	defer func() { err = errors.Join(err, visitors.Close()) }()

	// A service calls Add(page, visitor) with each request. It costs no round trip: the counts of a
	// second are sent together.
	now := time.Now()
	for _, v := range visits {
		for user := v.from; user < v.to; user++ {
			for range v.views {
				if err := visitors.AddAt(v.page, fmt.Sprint("user:", user), now); err != nil {
					return err
				}
			}
		}
	}
	for user := range 2000 { // They were here yesterday too.
		if err := visitors.AddAt("/", fmt.Sprint("user:", user), now.AddDate(0, 0, -1)); err != nil {
			return err
		}
	}
	// The example does not wait for the second to end.
	if err := visitors.Flush(ctx); err != nil {
		return err
	}
	return show(ctx, visitors, now)
}

// show prints the counts beside the true numbers.
func show(ctx context.Context, visitors *hll.Visitors, now time.Time) error {
	fmt.Printf("%-22s %8s %9s %9s\n", "", "views", "visitors", "in truth")
	var pages []string
	var sum int64
	for _, v := range visits {
		c, err := visitors.Count(ctx, v.page, now)
		if err != nil {
			return err
		}
		fmt.Printf("%-22s %8d %9d %9d\n", v.page+" today", c.Views, c.Visitors, v.to-v.from)
		pages = append(pages, v.page)
		sum += c.Visitors
	}
	all, err := visitors.Between(ctx, now, now, pages...)
	if err != nil {
		return err
	}
	fmt.Printf("%-22s %8d %9d %9d\n", "all pages today", all.Views, all.Visitors, 10_000)
	fmt.Printf("%-22s %8s %9d\n", "the three added up", "", sum)
	days, err := visitors.Between(ctx, now.AddDate(0, 0, -1), now, "/")
	if err != nil {
		return err
	}
	fmt.Printf("%-22s %8d %9d %9d\n", "/ on both days", days.Views, days.Visitors, 6000)
	return nil
}
