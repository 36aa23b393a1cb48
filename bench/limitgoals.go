package main

import "fmt"

// A place is the server, the flood, the names and the callers of a measurement.
type place struct {
	where, flood   string
	names, callers int
}

const onRedis = "redis"

type bound string

const (
	atLeast bound = "at least"
	atMost  bound = "at most"
)

// A goal is a measured figure and its limit.
type goal struct {
	what  string
	is    float64
	bound bound
	want  float64
}

// goals collect the measurements.
type goals struct {
	list []goal                        // of the measurements that have no peer
	seen map[place]map[string][]sample // by limiter
}

func (g *goals) add(what string, is float64, b bound, want float64) {
	g.list = append(g.list, goal{what, is, b, want})
}

func (g *goals) note(p place, ls []limiter, samples [][]sample) {
	if g.seen == nil {
		g.seen = map[place]map[string][]sample{}
	}
	g.seen[p] = map[string][]sample{}
	for i, l := range ls {
		g.seen[p][l.name] = samples[i]
	}
}

// ratio is the median of the ratios within a round.
func (g *goals) ratio(p place, ours, theirs string, of func(sample) float64) float64 {
	a, b := g.seen[p][ours], g.seen[p][theirs]
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = of(a[i]) / of(b[i])
	}
	return medianOf(ratios)
}

// print says of each goal whether it was met.
func (g *goals) print(c config) {
	const exact, leased, peer = "redoubt/ratelimit", "redoubt/ratelimit, Leased", "redis_rate"
	rate := func(s sample) float64 { return s.perSecond }
	commands := func(s sample) float64 { return s.commands }
	var all []goal
	for _, e := range []struct {
		names, callers int
		want           float64
	}{{1, 1, 1}, {manyNames, 1, 1}, {manyNames, 256, 2}, {1, 64, 5}} {
		all = append(all, goal{fmt.Sprintf("exact to redis_rate, %d names, %d callers", e.names, e.callers),
			g.ratio(place{onRedis, floods[0].name, e.names, e.callers}, exact, peer, rate), atLeast, e.want})
	}
	for _, names := range []int{1, manyNames} {
		for _, callers := range limitCallers {
			p := place{onRedis, floods[0].name, names, callers}
			all = append(all,
				goal{fmt.Sprintf("leased to redis_rate, %d names, %d callers", names, callers), g.ratio(p, leased, peer, rate), atLeast, 50},
				goal{fmt.Sprintf("leased to redis_rate, commands on Redis, %d names, %d callers", names, callers), g.ratio(p, leased, peer, commands), atMost, 0.02})
		}
	}
	c.printGoals(append(all, g.list...))
}

func (c config) printGoals(list []goal) {
	for _, e := range list {
		met := "met"
		if e.bound == atLeast && e.is < e.want || e.bound == atMost && e.is > e.want {
			met = "MISSED"
		}
		c.printf("goal  %-70s %8.3f, %s %5.2f: %s", e.what, e.is, e.bound, e.want, met)
	}
}
