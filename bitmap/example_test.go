package bitmap_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/bitmap"
)

// ExampleCalendars shows a user's sign-ins: the streak, the month, and the total of the year.
func ExampleCalendars() {
	ctx, client := context.Background(), connect()

	calendars, err := bitmap.NewCalendars(client, bitmap.CalendarOptions{})
	if err != nil {
		panic(err)
	}
	// A service calls calendars.MarkToday(ctx, "user:7").
	today := bitmap.Date(2026, time.November, 21)
	days := []bitmap.Day{today - 20, today - 9, today - 8, today - 7, today - 6, today - 1, today}
	c, changed, err := calendars.Mark(ctx, "user:7", days...)
	if err != nil {
		panic(err)
	}
	fmt.Println("new:", changed)
	fmt.Println("in a row:", c.Streak(today).Days)
	longest := c.Longest()
	fmt.Println("longest:", longest.Days, "days, from", longest.From, "to", longest.To())
	first, _ := c.First()
	fmt.Println("first:", first)
	fmt.Println("last week:", c.Count(today-6, today))
	fmt.Println(c.Month(2026, time.November))
	// Output:
	// new: 7
	// in a row: 2
	// longest: 4 days, from 2026-11-12 to 2026-11-15
	// first: 2026-11-01
	// last week: 3
	//        November 2026
	//  Mo  Tu  We  Th  Fr  Sa  Su
	//                          [1]
	//   2   3   4   5   6   7   8
	//   9  10  11 [12][13][14][15]
	//  16  17  18  19 [20][21] 22
	//  23  24  25  26  27  28  29
	//  30
}

// ExampleMaps counts the users who came back, and the users who were there at all, in bitmaps of
// ids.
func ExampleMaps() {
	ctx, client := context.Background(), connect()

	maps, err := bitmap.New(client, bitmap.Options{})
	if err != nil {
		panic(err)
	}
	for name, ids := range map[string][]uint64{
		"active:friday":   {7, 8, 1_000_000, 5_000_000_000},
		"active:saturday": {8, 9, 5_000_000_000},
	} {
		if _, err := maps.Set(ctx, name, ids...); err != nil {
			panic(err)
		}
		// A map for each day should have an end.
		if _, err := maps.ExpireAt(ctx, name, time.Now().Add(30*24*time.Hour)); err != nil {
			panic(err)
		}
	}
	both, err := maps.CountOf(ctx, bitmap.And, "active:friday", "active:saturday")
	if err != nil {
		panic(err)
	}
	all, err := maps.Combine(ctx, "active:weekend", bitmap.Or, "active:friday", "active:saturday")
	if err != nil {
		panic(err)
	}
	fmt.Println("on both days:", both, "on any:", all)
	first, _, err := maps.First(ctx, "active:weekend", 10)
	if err != nil {
		panic(err)
	}
	fmt.Println("the first from 10 on:", first)
	for id, err := range maps.Range(ctx, "active:weekend", 0, 1<<32) {
		if err != nil {
			panic(err)
		}
		fmt.Println(id)
	}
	// Output:
	// on both days: 2 on any: 5
	// the first from 10 on: 1000000
	// 7
	// 8
	// 9
	// 1000000
}

// ExampleRecords keeps small numbers of a player in 10 bytes.
func ExampleRecords() {
	ctx, client := context.Background(), connect()

	players, err := bitmap.NewRecords(client, bitmap.RecordOptions{Fields: []bitmap.Field{
		{Name: "level", Type: "u7", Overflow: bitmap.Saturate}, // to 127
		{Name: "gold", Type: "u40", Overflow: bitmap.Fail},     // never below 0
		{Name: "karma", Type: "i32"},
	}})
	if err != nil {
		panic(err)
	}
	if _, err := players.Update(ctx, "player:7", bitmap.Set("gold", 50), bitmap.Incr("level", 200)); err != nil {
		panic(err)
	}
	for range 2 {
		o, err := players.Update(ctx, "player:7", bitmap.Incr("gold", -30), bitmap.Incr("karma", 1))
		if err != nil {
			panic(err)
		}
		if o.Overflowed != "" {
			fmt.Println("not enough", o.Overflowed)
		}
		for field, value := range o.Record.All() {
			fmt.Println(field, value)
		}
	}
	// Output:
	// level 127
	// gold 20
	// karma 1
	// not enough gold
	// level 127
	// gold 20
	// karma 1
}

// ExampleCalendars_In counts days of the user's time zone.
func ExampleCalendars_In() {
	client := connect()

	calendars, err := bitmap.NewCalendars(client, bitmap.CalendarOptions{})
	if err != nil {
		panic(err)
	}
	tokyo := time.FixedZone("Tokyo", 9*3600)
	at := time.Date(2026, time.November, 21, 18, 0, 0, 0, time.UTC)
	fmt.Println(bitmap.DateOf(at), bitmap.DateOf(at.In(tokyo)))
	today, err := calendars.In(tokyo).MarkToday(context.Background(), "user:7")
	if err != nil {
		panic(err)
	}
	fmt.Println(today.New, today.Calendar.Streak(today.Day).Days)
	// Output:
	// 2026-11-21 2026-11-22
	// true 1
}
