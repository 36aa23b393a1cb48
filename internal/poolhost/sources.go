package poolhost

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/dashboard/served"
	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// shown is how many hot keys and slow commands the dashboard shows.
const shown = 50

// Sources returns a source of the dashboard for each pool. password is for pools of memcached servers,
// which have no users; empty: people need none.
func (h *Host) Sources(password string) []dashboard.Source {
	var list []dashboard.Source
	for _, p := range h.current() {
		list = append(list, p.front.source(p, password))
	}
	return list
}

// url returns where clients come in; empty: the pool has no listener of its own.
func (p *pool) url() string {
	all := p.listening()
	if len(all) == 0 {
		return ""
	}
	return served.URL(all[0].Addr(), p.tls != nil)
}

func (p *redisPool) source(in *pool, _ string) dashboard.Source {
	s := served.Source(in.name, dashboard.KindPool, in.url(), p.Server, in.opened)
	s.Pool = func() dashboard.Pool {
		now := poolState(p.counters(), p.shares())
		now.HotKeys = hotKeys(p.HotKeys(shown))
		if p.slow != nil {
			for _, c := range p.slow.Latest(shown) {
				now.SlowLog = append(now.SlowLog, dashboard.SlowCommand{
					ID: c.ID, Time: c.Time.UnixMilli(), TookMs: millis(c.Took), Server: c.Server, Client: c.Client, Args: c.Args,
				})
			}
		}
		return now
	}
	return s
}

func (p *memcachedPool) source(in *pool, password string) dashboard.Source {
	return dashboard.Source{
		Name: in.name, Kind: dashboard.KindMemcached, Of: p, Users: served.Password(password),
		Counts: func() dashboard.Counts {
			c := p.counters()
			return dashboard.Counts{
				Clients: c.clients, Commands: c.passed + c.local, Errors: c.errors, BytesIn: c.bytesIn, BytesOut: c.bytesOut, Started: in.opened,
			}
		},
		Pool: func() dashboard.Pool {
			now := poolState(p.counters(), p.Shares())
			now.HotKeys = hotKeys(p.HotKeys(shown))
			return now
		},
	}
}

// shares returns the part of all keys that each server has.
func (p *redisPool) shares() map[string]float64 { return p.pool.Load().Shares() }

func hotKeys(from []hotkeys.Key) (to []dashboard.HotKey) {
	for _, k := range from {
		to = append(to, dashboard.HotKey(k))
	}
	return to
}

// poolState returns what the dashboard shows of the counters of a pool.
func poolState(c poolCounters, shares map[string]float64) dashboard.Pool {
	now := dashboard.Pool{Servers: []dashboard.PoolServer{}, Latency: histogram(&c.latency)}
	for i := range c.servers {
		n := &c.servers[i]
		sum, up := n.total()
		s := dashboard.PoolServer{
			Name: n.name, Addr: n.addr, Replica: n.replica, State: "down", Connections: up + n.lent + n.kept,
			Requests: sum.Requests, Errors: sum.TimedOut + sum.Lost, InFlight: sum.InFlight + sum.Queued, Ejections: n.ejections,
			Histogram: histogram(&sum.Latency),
		}
		switch {
		case n.ejected:
			s.State = "ejected"
		case up > 0:
			s.State = "up"
		}
		if !n.replica {
			s.Share = shares[n.name]
		}
		s.P50, s.P99 = s.Histogram.Quantile(0.5), s.Histogram.Quantile(0.99)
		now.Servers = append(now.Servers, s)
	}
	return now
}

func histogram(h *latency.Histogram) dashboard.Histogram {
	d := dashboard.Histogram{Counts: h.Counts[:]}
	for _, b := range latency.Bounds {
		d.BoundsMs = append(d.BoundsMs, millis(b))
	}
	return d
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
