// Nearby finds the people near somebody, while they walk around a city.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/engine" // opens embedded:
	"github.com/redoubt-go/redoubt/geo"
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and the other URLs
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that keeps the positions; $REDOUBT_URL sets the default")
	n := flag.Int("people", 1000, "`number` of people in the city")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *n); err != nil {
		log.Fatal(err)
	}
}

const me = "ann"

var (
	square  = geo.Point{Longitude: 13.4132, Latitude: 52.5219} // Alexanderplatz, Berlin
	station = geo.Point{Longitude: 13.3694, Latitude: 52.5251} // the main station, 3 km from there
)

func run(ctx context.Context, url string, n int) error {
	client, err := redoubt.Open(ctx, url, redoubt.Options{Prefix: "example-nearby"})
	if err != nil {
		return err
	}
	defer client.Close()
	indexes, err := geo.New(client, geo.Options{})
	if err != nil {
		return err
	}
	if _, err := indexes.Delete(ctx, "people"); err != nil { // of an earlier run
		return err
	}
	people, err := indexes.Open(ctx, "people")
	if err != nil {
		return err
	}
	if _, err := people.AddMany(ctx, crowd(n)); err != nil {
		return err
	}

	// A phone sends its position every few seconds. Add is for old and new members.
	if _, err := people.Add(ctx, me, square); err != nil {
		return err
	}
	if err := show(ctx, people, "at Alexanderplatz"); err != nil {
		return err
	}
	if _, err := people.Add(ctx, me, station); err != nil {
		return err
	}
	if err := show(ctx, people, "at the main station"); err != nil {
		return err
	}
	// Bob arrives. He is found until he signs off.
	if _, err := people.Add(ctx, "bob", station); err != nil {
		return err
	}
	if err := show(ctx, people, "where bob arrives"); err != nil {
		return err
	}
	if _, err := people.Remove(ctx, "bob"); err != nil {
		return err
	}
	return show(ctx, people, "when bob has signed off")
}

// show prints the five people nearest to me within a kilometre.
func show(ctx context.Context, people *geo.Index, place string) error {
	const most = 5
	// The query finds me too, so it asks for one more.
	found, err := people.Near(ctx, geo.Query{Member: me, Radius: geo.Kilometre, Limit: most + 1})
	if err != nil {
		return err
	}
	fmt.Printf("near %s %s:\n", me, place)
	shown := 0
	for _, f := range found {
		if f.Member == me || shown == most {
			continue
		}
		shown++
		// Three exact distances betray a place, so people see hundreds of metres only.
		fmt.Printf("  %-12s within %.0f m\n", f.Member, 100*max(1, math.Ceil(f.Distance.Metres()/100)))
	}
	return nil
}

// crowd puts n people around the square, most of them near its middle. It is the same crowd each time.
func crowd(n int) (people []geo.Member) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		people = append(people, geo.Member{Name: fmt.Sprint("person:", i), Point: geo.Point{
			Longitude: square.Longitude + random.NormFloat64()*0.03, // some 2 km
			Latitude:  square.Latitude + random.NormFloat64()*0.02,
		}})
	}
	return people
}
