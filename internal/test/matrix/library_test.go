package matrix

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

var must = expect.Must

// A prompt call takes a millisecond, and here as long as a busy machine needs. A call that waits
// longer was not woken: leases here last longer, and nothing else ends a wait.
const (
	prompt = 15 * time.Second
	lease  = 2 * time.Minute
)

const (
	libraryRESP3 = "Go library, RESP3"
	libraryRESP2 = "Go library, RESP2"
	libraryWrap  = "Go library, Wrap"
)

// libraries are the ways in of the Go library.
func libraries() []way {
	return []way{
		{name: libraryRESP3, open: func(t *testing.T, on *reach) *door {
			if on.engine != nil {
				return onLibrary(clienttest.New(t, on.engine, "m"), clienttest.New(t, on.engine, "m"))
			}
			return onLibrary(opened(t, on.url), opened(t, on.url))
		}},
		{name: libraryRESP2, open: func(t *testing.T, on *reach) *door {
			if on.engine != nil {
				return nil
			}
			return onLibrary(opened(t, on.url+"?protocol=2"), opened(t, on.url+"?protocol=2"))
		}},
		{name: libraryWrap, open: func(t *testing.T, on *reach) *door {
			if on.engine != nil {
				return nil
			}
			return onLibrary(wrapped(t, on), wrapped(t, on))
		}},
	}
}

// opened returns a client like that of another program.
func opened(t *testing.T, url string) *redoubt.Client {
	t.Helper()
	conn, err := goredis.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return clienttest.New(t, conn, prefix)
}

// wrapped returns a client on one of go-redis, with the options of a program that knows
// nothing of us.
func wrapped(t *testing.T, on *reach) *redoubt.Client {
	t.Helper()
	var rdb redis.UniversalClient
	switch {
	case on.sentinel != nil:
		rdb = redis.NewFailoverClient(on.sentinel)
	case on.cluster != nil:
		rdb = redis.NewClusterClient(on.cluster)
	default:
		rdb = redis.NewClient(on.one)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return clienttest.New(t, clienttest.Wrap(t, rdb), prefix)
}

// prefix begins the keys of the library. The keys of `redoubt serve` and of the command line
// begin with rd.
const prefix = "m"

// A library is the library as two programs use it, a and b.
type library struct {
	a, b *redoubt.Client
	// names makes the names of each way and back end unique.
	names string
}

func onLibrary(a, b *redoubt.Client) *door {
	l := &library{a: a, b: b, names: redistest.NewPrefix() + "-"}
	d := &door{}
	name := func(promise string) string { return l.names + strings.NewReplacer(" ", "-", ":", "").Replace(promise) }
	for _, p := range []struct {
		name string
		hold func(l *library, t *testing.T, name string)
	}{
		{exclusion, (*library).exclusion},
		{wakeUp, (*library).wakeUp},
		{fairness, (*library).fairness},
		{fencing, (*library).fencing},
		{semaphore, (*library).semaphore},
		{readersWriters, (*library).readersWriters},
		{latch, (*library).latch},
		{multi, (*library).multi},
		{tokenBucket, (*library).tokenBucket},
		{waitForTokens, (*library).waitForTokens},
		{window, (*library).window},
		{quota, (*library).quota},
		{concurrency, (*library).concurrency},
		{leasedTokens, (*library).leasedTokens},
		{queueBlock, (*library).queueBlock},
		{queueDelay, (*library).queueDelay},
		{queueCrash, (*library).queueCrash},
		{stockSold, (*library).stockSold},
		{stockRunsOut, (*library).stockRunsOut},
		{cacheLocal, (*library).cacheLocal},
		{cacheTags, (*library).cacheTags},
		{cacheCold, (*library).cacheCold},
		{bloomFilter, (*library).bloomFilter},
		{bitmaps, (*library).bitmaps},
		{visitors, (*library).visitors},
		{geoIndex, (*library).geoIndex},
		{ttlHash, (*library).ttlHash},
		{ttlHashEvents, (*library).ttlHashEvents},
	} {
		d.promises = append(d.promises, promise{p.name, func(t *testing.T) error {
			p.hold(l, t, name(p.name))
			return nil
		}})
	}
	d.promises = append(d.promises, promise{scanKeys, func(t *testing.T) error { return l.scanKeys(t, name(scanKeys)) }})
	return d
}

// within bounds what has to be prompt.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), prompt)
	t.Cleanup(cancel)
	return ctx
}
