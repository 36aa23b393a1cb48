package poolhost

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/redisurl"
	"github.com/redoubt-go/redoubt/internal/sentinel"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A Group is the pool that a URL names: a master that Sentinels watch, or a cluster. Unlike the pools of a
// Host it is served by a server.Server of its owner.
type Group struct {
	pool      *proxy.Pool
	sentinels *sentinel.Group // nil: a cluster
	opened    time.Time
}

// failoverPatience is how long commands wait for another master. A failover whose Sentinels detect it
// within a few seconds takes less.
const failoverPatience = 10 * time.Second

// OpenGroup returns the Group that a URL names. It connects when it is first used. Close it after
// the server. An error matches [ErrConfig].
func OpenGroup(of *redisurl.Target, log *slog.Logger) (*Group, error) {
	c := poolfile.Pool{Redis: true, Hash: ring.FNV64a, Distribution: ring.Ketama, HashTag: "{}", Timeout: -1}
	var t poolTLS
	switch {
	case of.Failover != nil:
		o := of.Failover
		c.Name, c.ServerUser, c.RedisAuth, c.RedisDB = o.MasterName, o.Username, o.Password, o.DB
		c.Servers = []poolfile.Server{{Server: ring.Server{Name: o.MasterName, Weight: 1}}}
		c.Sentinel = poolfile.Sentinel{Addresses: o.SentinelAddrs, User: o.SentinelUsername, Password: o.SentinelPassword, TLS: o.TLSConfig != nil}
		t.servers, t.sentinels = o.TLSConfig, o.TLSConfig
	case of.Cluster != nil:
		o := of.Cluster
		c.Name, c.Cluster, c.ServerUser, c.RedisAuth = "cluster", o.Addrs, o.Username, o.Password
		t.servers = o.TLSConfig
	default:
		c.Name, c.Cluster, c.ServerUser, c.RedisAuth = "cluster", []string{of.Single.Addr}, of.Single.Username, of.Single.Password
		t.servers = of.Single.TLSConfig
	}
	pool, sentinels, err := newPool(c, t, nil, failoverPatience, log)
	if err != nil {
		return nil, failure(ErrConfig, err)
	}
	return &Group{pool, sentinels, time.Now()}, nil
}

// groupOptions are the options of a URL that say where a Group is, and how to log in there. All other options
// tune the connections of a client, and a Group has no such connections.
var groupOptions = []string{"addr", "master_name", "username", "password", "sentinel_username", "sentinel_password", "db", "skip_verify"}

// CheckOptions returns an error for options of a URL that a Group doesn't have.
func CheckOptions(raw string) error {
	_, query, _ := strings.Cut(raw, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the URL's options are malformed")
	}
	for name := range options {
		if !slices.Contains(groupOptions, name) {
			return fmt.Errorf("leave out the URL's option %q: it has no effect here, because clients share the connections to each server", name)
		}
	}
	return nil
}

// Pool returns the pool, for server.Options.
func (g *Group) Pool() *proxy.Pool { return g.pool }

// Close closes all connections.
func (g *Group) Close() error {
	closePool(g.pool, g.sentinels)
	return nil
}

// Collector returns the metrics of the pool behind srv.
func (g *Group) Collector(srv *server.Server) prometheus.Collector {
	return groupCollector{g.front(srv)}
}

// Probe asks whether the master, or the masters of the cluster, answer.
func (g *Group) Probe() Probe { return Probe{g.pool.Name(), g.front(nil).health} }

// Source returns what the dashboard shows of the pool behind srv.
func (g *Group) Source(srv *server.Server) dashboard.Source {
	return g.front(srv).source(&pool{name: g.pool.Name(), opened: g.opened}, "")
}

// front returns the front of a Host's pool for what srv serves.
func (g *Group) front(srv *server.Server) *redisPool {
	p := &redisPool{Server: srv, name: g.pool.Name()}
	p.pool.Store(g.pool)
	return p
}

type groupCollector struct{ front *redisPool }

// Describe implements prometheus.Collector.
func (c groupCollector) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, out)
}

// Collect implements prometheus.Collector.
func (c groupCollector) Collect(out chan<- prometheus.Metric) {
	poolMetrics{c.front.name, out}.collect(c.front.counters())
}
