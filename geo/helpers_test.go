package geo_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}}) }

var connect = exampleserver.Connect

// env is one back end for indexes.
type env struct{ *testenv.Env }

// each runs a test on one server of every kind.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// everywhere runs a test on a cluster too.
func everywhere(t *testing.T, run func(t *testing.T, e *env)) {
	each(t, run)
	t.Run("cluster", func(t *testing.T) {
		c := redistest.StartCluster(t, 3, 0)
		run(t, &env{testenv.On(t, redistest.Backend{Prefix: "c"}, clienttest.DialCluster(t, c.Addrs()))})
	})
}

// on returns the indexes of another process. Their cells are full at so many bytes.
func (e *env) on(conn redoubt.Conn, full int) *geo.Indexes {
	xs, err := geo.New(e.ClientOn(conn), geo.Options{})
	must(e.T, err)
	if full > 0 {
		xs.SetSizes(full, 100*time.Millisecond)
	}
	return xs
}

// index opens an index as another process would: nothing is known of it.
func (e *env) index(name string, full int) *geo.Index {
	e.T.Helper()
	x, err := e.on(e.Conn, full).Open(e.T.Context(), name)
	must(e.T, err)
	return x
}

var must, is = expect.Must, expect.Is

// anywhere returns a point, all parts of the globe being as likely.
func anywhere(rng *rand.Rand) geo.Point {
	return geo.Point{Longitude: rng.Float64()*360 - 180, Latitude: math.Asin(rng.Float64()*2-1) * 180 / math.Pi}
}

// about returns a point within some degrees of p.
func about(rng *rand.Rand, p geo.Point, degrees float64) geo.Point {
	q := geo.Point{
		Longitude: p.Longitude + (rng.Float64()*2-1)*degrees/max(math.Cos(p.Latitude*math.Pi/180), degrees/180),
		Latitude:  p.Latitude + (rng.Float64()*2-1)*degrees,
	}
	if q.Longitude > 180 {
		q.Longitude -= 360
	}
	if q.Longitude < -180 {
		q.Longitude += 360
	}
	q.Latitude = min(max(q.Latitude, -90), 90)
	return q
}

func numbered(n int, at func(i int) geo.Point) []geo.Member {
	members := make([]geo.Member, n)
	for i := range members {
		members[i] = geo.Member{Name: fmt.Sprint("m", i), Point: at(i)}
	}
	return members
}

// partOf returns what ends a key.
func (e *env) partOf(key string) string { return key[strings.LastIndexByte(key, ':')+1:] }
