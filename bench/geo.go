package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/geo"
)

const (
	geoMembers = 1_000_000
	geoOne     = "everybody" // the key that has all of them
	geoBatch   = 2000
)

// somewhere is a point in an area of the size of Germany, where a million members are
// about 2.6 on each square kilometre.
func somewhere() geo.Point {
	return geo.Point{Longitude: 6 + 8*rand.Float64(), Latitude: 47.5 + 6*rand.Float64()}
}

// benchGeo measures queries on a million members, in cells and under one key, and
// moves.
func benchGeo(ctx context.Context, cfg config) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	indexes, err := geo.New(p.ours, geo.Options{})
	if err != nil {
		return err
	}
	index, err := indexes.Open(ctx, "bench")
	if err != nil {
		return err
	}
	all := cfg.amount(geoMembers)
	cfg.progress("geo: %d members are added to both", all)
	at := make([]geo.Point, all)
	for from := 0; from < all; from += geoBatch {
		members, locations := make([]geo.Member, geoBatch), make([]*redis.GeoLocation, geoBatch)
		for i := range geoBatch {
			name := fmt.Sprint("vehicle:", from+i)
			at[from+i] = somewhere()
			members[i] = geo.Member{Name: name, Point: at[from+i]}
			locations[i] = &redis.GeoLocation{Name: name, Longitude: at[from+i].Longitude, Latitude: at[from+i].Latitude}
		}
		if _, err := index.AddMany(ctx, members); err != nil {
			return err
		}
		if err := p.admin.GeoAdd(ctx, geoOne, locations...).Err(); err != nil {
			return err
		}
	}
	info, err := index.Info(ctx)
	if err != nil {
		return err
	}
	largest, err := largestKey(ctx, p.admin, "rd:{bench:*")
	if err != nil {
		return err
	}
	cfg.progress("geo: %d members in %d cells; the largest key has %d bytes", info.Members, info.Cells, largest)

	for _, q := range []struct {
		radius geo.Distance
		limit  int
	}{{geo.Kilometre, 0}, {5 * geo.Kilometre, 0}, {10 * geo.Kilometre, 0}, {5 * geo.Kilometre, 10}, {20 * geo.Kilometre, 10}} {
		contenders := []contender{
			{name: "redoubt/geo, Near", op: func(ctx context.Context, _ int) error {
				_, err := index.Near(ctx, geo.Query{From: somewhere(), Radius: q.radius, Limit: q.limit})
				return err
			}},
			{name: "GEOSEARCH on one key", op: func(ctx context.Context, _ int) error {
				from := somewhere()
				return p.plain.GeoSearchLocation(ctx, geoOne, &redis.GeoSearchLocationQuery{
					GeoSearchQuery: redis.GeoSearchQuery{
						Longitude: from.Longitude, Latitude: from.Latitude, Radius: q.radius.Metres(), RadiusUnit: "m", Sort: "ASC", Count: q.limit,
					},
					WithDist: true, WithCoord: true,
				}).Err()
			}},
		}
		for _, c := range cfg.callers {
			if _, err := cfg.compare(ctx, fmt.Sprintf("near %v, limit %d", q.radius, q.limit), redisMeter(p.admin), c, contenders); err != nil {
				return err
			}
		}
	}
	// Some hundred metres: a vehicle's way between two reports.
	near := func(i int) geo.Point {
		return geo.Point{Longitude: at[i].Longitude + 0.004*(rand.Float64()-0.5), Latitude: at[i].Latitude + 0.004*(rand.Float64()-0.5)}
	}
	for _, c := range cfg.callers {
		_, err := cfg.compare(ctx, "move", redisMeter(p.admin), c, []contender{
			{name: "redoubt/geo, Move", op: func(ctx context.Context, _ int) error {
				i := rand.IntN(all)
				_, err := index.Move(ctx, fmt.Sprint("vehicle:", i), near(i))
				return err
			}},
			{name: "GEOADD to one key", op: func(ctx context.Context, _ int) error {
				i := rand.IntN(all)
				to := near(i)
				return p.plain.GeoAdd(ctx, geoOne, &redis.GeoLocation{Name: fmt.Sprint("vehicle:", i), Longitude: to.Longitude, Latitude: to.Latitude}).Err()
			}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// largestKey returns the bytes of the largest key that matches.
func largestKey(ctx context.Context, rdb redis.Cmdable, match string) (most int64, err error) {
	for it := rdb.Scan(ctx, 0, match, 1000).Iterator(); it.Next(ctx); {
		n, err := rdb.MemoryUsage(ctx, it.Val()).Result()
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}
