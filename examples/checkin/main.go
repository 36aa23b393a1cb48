// Checkin keeps a sign-in calendar of a user: a bonus once a day, the streak, and a picture of the month.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	_ "github.com/redoubt-go/redoubt/engine"  // opens embedded:
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and the other URLs
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the calendar; $REDOUBT_URL sets the default")
	zone := flag.String("zone", "UTC", "time `zone` in which a day begins, such as Asia/Shanghai")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *zone); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, zone string) error {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return err
	}
	client, err := redoubt.Open(ctx, url, redoubt.Options{Prefix: "example-checkin"})
	if err != nil {
		return err
	}
	defer client.Close()
	calendars, err := bitmap.NewCalendars(client, bitmap.CalendarOptions{Location: location})
	if err != nil {
		return err
	}
	const user = "user:7"
	if err := invent(ctx, calendars, user); err != nil {
		return err
	}

	// The user taps five times, on two phones. One tap gets the bonus.
	var taps sync.WaitGroup
	var bonuses atomic.Int64
	errs := make(chan error, 5)
	for range cap(errs) {
		taps.Go(func() {
			points, err := signIn(ctx, calendars, user)
			if points > 0 {
				fmt.Printf("signed in: %d points\n", points)
				bonuses.Add(1)
			}
			errs <- err
		})
	}
	taps.Wait()
	for range cap(errs) {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Printf("%d taps, %d bonus\n", cap(errs), bonuses.Load())
	return show(ctx, calendars, user)
}

// signIn marks today and returns the user's bonus: 10 points for each day in a row, up to 70, and none
// for the second sign-in of a day. The server's clock decides which day it is.
func signIn(ctx context.Context, calendars *bitmap.Calendars, user string) (points int, err error) {
	today, err := calendars.MarkToday(ctx, user)
	if err != nil || !today.New {
		return 0, err
	}
	return 10 * min(today.Calendar.Streak(today.Day).Days, 7), nil
}

// show prints what a page about the user has. It costs one round trip: the questions are answered here.
func show(ctx context.Context, calendars *bitmap.Calendars, user string) error {
	calendar, err := calendars.Load(ctx, user)
	if err != nil {
		return err
	}
	today := calendars.Today()
	year, month, _ := today.Date()
	longest := calendar.Longest()
	fmt.Println("days in a row:", calendar.Streak(today).Days)
	fmt.Printf("longest streak: %d days, %v to %v\n", longest.Days, longest.From, longest.To())
	fmt.Println("in the last 30 days:", calendar.Count(today-29, today))
	fmt.Println(calendar.Month(year, month))
	return nil
}

// invent gives the user a past: two days in a row until yesterday, and five days before a gap.
func invent(ctx context.Context, calendars *bitmap.Calendars, user string) error {
	if _, err := calendars.Delete(ctx, user); err != nil {
		return err
	}
	today := calendars.Today()
	_, _, err := calendars.Mark(ctx, user, today-1, today-2, today-5, today-6, today-7, today-8, today-9)
	return err
}
