package geo_test

import (
	"context"
	"fmt"

	"github.com/redoubt-go/redoubt/geo"
)

func Example() {
	ctx, client := context.Background(), connect()

	indexes, err := geo.New(client, geo.Options{})
	if err != nil {
		panic(err)
	}
	taxis, err := indexes.Open(ctx, "taxis")
	if err != nil {
		panic(err)
	}
	_, err = taxis.AddMany(ctx, []geo.Member{
		{Name: "taxi:1", Point: geo.Point{Longitude: 13.3777, Latitude: 52.5163}}, // Brandenburg Gate
		{Name: "taxi:2", Point: geo.Point{Longitude: 13.4050, Latitude: 52.5200}}, // Alexanderplatz
		{Name: "taxi:3", Point: geo.Point{Longitude: 13.0640, Latitude: 52.3989}}, // Potsdam
	})
	if err != nil {
		panic(err)
	}
	moved, err := taxis.Move(ctx, "taxi:3", geo.Point{Longitude: 13.3694, Latitude: 52.5251}) // to the main station
	if err != nil {
		panic(err)
	}
	fmt.Println("moved:", moved)

	reichstag := geo.Point{Longitude: 13.3762, Latitude: 52.5186}
	found, err := taxis.Near(ctx, geo.Query{From: reichstag, Radius: 5 * geo.Kilometre, Limit: 2})
	if err != nil {
		panic(err)
	}
	for _, f := range found {
		fmt.Println(f.Member, f.Distance)
	}
	// Output:
	// moved: true
	// taxi:1 275.2m
	// taxi:3 857.0m
}

// A box around a member, the farthest first.
func ExampleIndex_Near() {
	ctx, client := context.Background(), connect()

	indexes, err := geo.New(client, geo.Options{})
	if err != nil {
		panic(err)
	}
	ships, err := indexes.Open(ctx, "ships")
	if err != nil {
		panic(err)
	}
	_, err = ships.AddMany(ctx, []geo.Member{
		{Name: "west", Point: geo.Point{Longitude: 179.9, Latitude: -17}},
		{Name: "east", Point: geo.Point{Longitude: -179.9, Latitude: -17}},
		{Name: "far", Point: geo.Point{Longitude: -178, Latitude: -17}},
	})
	if err != nil {
		panic(err)
	}
	// Over the antimeridian.
	found, err := ships.Near(ctx, geo.Query{Member: "west", Width: 100 * geo.Kilometre, Height: 10 * geo.Kilometre, Order: geo.Farthest})
	if err != nil {
		panic(err)
	}
	for _, f := range found {
		fmt.Printf("%s: %.1f nautical miles\n", f.Member, f.Distance.Metres()/1852)
	}
	// Output:
	// east: 11.5 nautical miles
	// west: 0.0 nautical miles
}

func ExamplePoint_Geohash() {
	paris, london := geo.Point{Longitude: 2.3522, Latitude: 48.8566}, geo.Point{Longitude: -0.1276, Latitude: 51.5072}
	fmt.Println(paris.Geohash(), london.Geohash())
	fmt.Println(paris.To(london))
	fmt.Printf("%.1f km, %.1f miles, %.0f feet\n", paris.To(london).Kilometres(), paris.To(london).Miles(), paris.To(london).Feet())
	// Output:
	// u09tvw0f640 gcpvj0e54t0
	// 343.627km
	// 343.6 km, 213.5 miles, 1127384 feet
}

func ExampleIndex_Dist() {
	ctx, client := context.Background(), connect()

	indexes, err := geo.New(client, geo.Options{})
	if err != nil {
		panic(err)
	}
	poles, err := indexes.Open(ctx, "poles")
	if err != nil {
		panic(err)
	}
	_, err = poles.AddMany(ctx, []geo.Member{{Name: "north", Point: geo.Point{Latitude: 90}}, {Name: "south", Point: geo.Point{Latitude: -90}}})
	if err != nil {
		panic(err)
	}
	d, ok, err := poles.Dist(ctx, "north", "south")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.0f km, %v\n", d.Kilometres(), ok)
	// Output: 20021 km, true
}
