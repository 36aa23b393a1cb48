package rueidisconn_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/redoubttest"
	"github.com/redoubt-go/redoubt/rueidisconn"
)

// dial makes a client that is closed with the test.
func dial(t *testing.T, opts rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func wrap(t *testing.T, opts rueidis.ClientOption) redoubt.Conn {
	t.Helper()
	c, err := rueidisconn.Wrap(dial(t, opts))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// options change how commands are sent and replies read. The first are the defaults of rueidis,
// with which it sends what it takes for read-only again.
var options = map[string]rueidis.ClientOption{
	"default":  {},
	"RESP2":    {AlwaysRESP2: true, DisableCache: true},
	"no merge": {DisableAutoPipelining: true, DisableRetry: true},
}

func TestConformance(t *testing.T) {
	s := redistest.Start(t)
	for name, opts := range options {
		opts.InitAddress = []string{s.Addr()}
		t.Run(name, func(t *testing.T) {
			redoubttest.Run(t, func(t *testing.T) redoubt.Conn { return wrap(t, opts) })
		})
	}
}

func TestConformanceCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	for name, opts := range options {
		opts.InitAddress = cluster.Addrs()[:1]
		t.Run(name, func(t *testing.T) {
			redoubttest.Run(t, func(t *testing.T) redoubt.Conn { return wrap(t, opts) })
		})
	}
}

func TestConformanceRedirects(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	redoubttest.RunCluster(t, func(t *testing.T) redoubt.Conn {
		return wrap(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
	})
}

// proxy gives a faultnet.Proxy the methods that the suite wants.
type proxy struct{ *faultnet.Proxy }

func (p proxy) Blackhole() { p.Proxy.Blackhole(faultnet.Both) }

func (p proxy) Refuse() {
	p.Proxy.Refuse()
	p.Cut()
}

func TestConformanceFaults(t *testing.T) {
	for name, opts := range options {
		t.Run(name, func(t *testing.T) {
			redoubttest.RunFaults(t, redoubttest.Network{
				Server: func(t *testing.T) string { return redistest.Start(t).Addr() },
				Proxy:  func(t *testing.T, addr string) redoubttest.Proxy { return proxy{faultnet.New(t, addr)} },
				Open: func(t *testing.T, addr string) redoubt.Conn {
					opts := opts
					opts.InitAddress = []string{addr}
					return wrap(t, opts)
				},
			})
		})
	}
}
