// Package redisurl reads the URLs of Redis servers, Sentinel groups and clusters that Redoubt takes, for the
// library and for the server.
package redisurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/scheme"
)

// A Target is what a URL names: one of its three options is set.
type Target struct {
	Single   *redis.Options
	Failover *redis.FailoverOptions
	Cluster  *redis.ClusterOptions
	// Detect says that a single server may turn out to be a cluster's.
	Detect bool
}

// String names the addresses, for errors.
func (t *Target) String() string {
	switch {
	case t.Cluster != nil:
		return strings.Join(t.Cluster.Addrs, ", ")
	case t.Failover != nil:
		return "master " + strconv.Quote(t.Failover.MasterName) + " of Sentinels " + strings.Join(t.Failover.SentinelAddrs, ", ")
	}
	return t.Single.Addr
}

const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// Parse reads a URL of one of [scheme.Remote]. Errors show no user and no password.
func Parse(raw string) (*Target, error) {
	name, err := scheme.Of(raw)
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(raw, "://")
	switch {
	case slices.Contains(scheme.Cluster, name):
		return parseCluster(strings.TrimSuffix(name, "-cluster"), rest)
	case slices.Contains(scheme.Sentinel, name):
		return parseSentinel(strings.TrimSuffix(name, "-sentinel"), rest)
	}
	return parsePlain(raw)
}

// parsePlain understands the URLs of go-redis itself.
func parsePlain(raw string) (*Target, error) {
	u, err := split(raw)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	switch {
	case u.Scheme != "unix" && q.Has("master_name"):
		return parseFailover(u)
	case u.Scheme != "unix" && q.Has("addr"):
		if err := noPath(u); err != nil {
			return nil, err
		}
		o, err := redis.ParseClusterURL(u.String())
		return &Target{Cluster: o}, plain(err)
	}
	detect := u.Scheme != "unix"
	if q.Has("cluster") {
		if v := q.Get("cluster"); v != "false" {
			return nil, fmt.Errorf("option cluster is %q; want false, or the scheme redis-cluster", v)
		}
		detect = false
		q.Del("cluster")
		u.RawQuery = q.Encode()
	}
	o, err := redis.ParseURL(u.String())
	return &Target{Single: o, Detect: detect}, plain(err)
}

// parseCluster and parseSentinel take what follows "://", because net/url
// accepts one host only.
func parseCluster(plainScheme, rest string) (*Target, error) {
	u, err := splitHosts(plainScheme, rest, redisPort)
	if err != nil {
		return nil, err
	}
	if err := noPath(u); err != nil {
		return nil, err
	}
	o, err := redis.ParseClusterURL(u.String())
	return &Target{Cluster: o}, plain(err)
}

func parseSentinel(plainScheme, rest string) (*Target, error) {
	u, err := splitHosts(plainScheme, rest, sentinelPort)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if master == "" {
		return nil, errors.New("a Sentinel URL names the master: redis-sentinel://host:port/name")
	}
	q := u.Query()
	if q.Has("master_name") || q.Has("username") || q.Has("password") {
		return nil, errors.New("in a Sentinel URL the master's name is its path, and the servers' user and password come before the host")
	}
	q.Set("master_name", master)
	if u.User != nil {
		password, _ := u.User.Password()
		q.Set("username", u.User.Username())
		q.Set("password", password)
	}
	u.User = nil
	if q.Has("sentinel_username") || q.Has("sentinel_password") {
		u.User = url.UserPassword(q.Get("sentinel_username"), q.Get("sentinel_password"))
		q.Del("sentinel_username")
		q.Del("sentinel_password")
	}
	u.Path, u.RawQuery = "/"+db, q.Encode()
	return parseFailover(u)
}

func parseFailover(u *url.URL) (*Target, error) {
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, plain(err)
	}
	if o.RouteByLatency || o.RouteRandomly || o.ReplicaOnly {
		return nil, errors.New("a replica may be behind, so commands go to the master: leave out route_by_latency, route_randomly and replica_only")
	}
	return &Target{Failover: o}, nil
}

// split parses a URL and makes sure that no part of a password has strayed into
// what errors may show.
func split(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(u.Path, "@") && u.Scheme != "unix" || strings.Contains(u.RawQuery, "@") || strings.Contains(u.Fragment, "@") {
		return nil, scheme.ErrMalformed
	}
	if u.Fragment != "" {
		return nil, scheme.ErrMalformed
	}
	return u, nil
}

// splitHosts parses user:password@host:port,host:port/path?query. The hosts
// after the first become addr options, as go-redis has them.
func splitHosts(plainScheme, rest, port string) (*url.URL, error) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	user := ""
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, authority = authority[:i+1], authority[i+1:]
	}
	hosts := strings.Split(authority, ",")
	for i, h := range hosts {
		hu, err := split("redis://" + h)
		if err != nil || hu.Hostname() == "" || hu.Path != "" {
			return nil, scheme.ErrMalformed
		}
		if hu.Port() == "" {
			hosts[i] = net.JoinHostPort(hu.Hostname(), port)
		}
	}
	u, err := split(plainScheme + "://" + user + hosts[0] + tail)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	for _, h := range hosts[1:] {
		q.Add("addr", h)
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// noPath refuses a database number, which go-redis would ignore on a cluster.
func noPath(u *url.URL) error {
	if p := strings.Trim(u.Path, "/"); p != "" && p != "0" {
		return errors.New("a cluster has no numbered databases: leave out the URL's path")
	}
	return nil
}

// plain makes an error of go-redis' parsers ours. They name options and their
// values, but not the URL.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return scheme.ErrMalformed
	}
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "redis: "))
}
