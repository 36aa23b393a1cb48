package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/redoubttest"
)

// proxy gives a faultnet.Proxy the methods that the suite wants.
type proxy struct{ *faultnet.Proxy }

func (p proxy) Blackhole() { p.Proxy.Blackhole(faultnet.Both) }

func (p proxy) Refuse() {
	p.Proxy.Refuse()
	p.Cut()
}

func TestConformanceFaults(t *testing.T) {
	network := redoubttest.Network{
		Server: func(t *testing.T) string { return redistest.Start(t).Addr() },
		Proxy:  func(t *testing.T, addr string) redoubttest.Proxy { return proxy{faultnet.New(t, addr)} },
	}
	t.Run("Wrap", func(t *testing.T) {
		network.Open = func(t *testing.T, addr string) redoubt.Conn {
			return wrap(t, &redis.Options{Addr: addr})
		}
		redoubttest.RunFaults(t, network)
	})
	t.Run("Open", func(t *testing.T) {
		network.Open = func(t *testing.T, addr string) redoubt.Conn { return dial(t, "redis://"+addr) }
		redoubttest.RunFaults(t, network)
	})
}
