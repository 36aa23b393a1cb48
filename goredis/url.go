package goredis

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

// A target is what a URL names: one of its three options is set.
type target struct {
	single   *redis.Options
	failover *redis.FailoverOptions
	cluster  *redis.ClusterOptions
	detect   bool // a single server may turn out to be a cluster's
}

// String names the addresses, for errors.
func (t *target) String() string {
	switch {
	case t.cluster != nil:
		return strings.Join(t.cluster.Addrs, ", ")
	case t.failover != nil:
		return "master " + strconv.Quote(t.failover.MasterName) + " of Sentinels " + strings.Join(t.failover.SentinelAddrs, ", ")
	}
	return t.single.Addr
}

var errMalformed = fmt.Errorf("goredis: %w", scheme.ErrMalformed)

const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// door is what [Open] takes.
var door = scheme.Door{
	Name: "goredis.Open", Takes: scheme.Remote,
	Embedded: `redoubt.Open takes it, with an import of _ "github.com/redoubt-go/redoubt/engine"`,
}

func parse(raw string) (*target, error) {
	name, err := door.Check(raw)
	if err != nil {
		return nil, fmt.Errorf("goredis: %w", err)
	}
	_, rest, _ := strings.Cut(raw, "://")
	var t *target
	switch {
	case slices.Contains(scheme.Cluster, name):
		t, err = parseCluster(strings.TrimSuffix(name, "-cluster"), rest)
	case slices.Contains(scheme.Sentinel, name):
		t, err = parseSentinel(strings.TrimSuffix(name, "-sentinel"), rest)
	default:
		t, err = parsePlain(raw)
	}
	if err != nil {
		return nil, err
	}
	t.tune()
	return t, nil
}

// parsePlain understands the URLs of go-redis itself.
func parsePlain(raw string) (*target, error) {
	u, err := split(raw)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	switch {
	case u.Scheme != "unix" && q.Has("master_name"):
		o, err := redis.ParseFailoverURL(u.String())
		return &target{failover: o}, plain(err)
	case u.Scheme != "unix" && q.Has("addr"):
		if err := noPath(u); err != nil {
			return nil, err
		}
		o, err := redis.ParseClusterURL(u.String())
		return &target{cluster: o}, plain(err)
	}
	detect := u.Scheme != "unix"
	if q.Has("cluster") {
		if v := q.Get("cluster"); v != "false" {
			return nil, fmt.Errorf("goredis: option cluster is %q; want false, or the scheme redis-cluster", v)
		}
		detect = false
		q.Del("cluster")
		u.RawQuery = q.Encode()
	}
	o, err := redis.ParseURL(u.String())
	return &target{single: o, detect: detect}, plain(err)
}

// parseCluster and parseSentinel take what follows "://", because net/url
// accepts one host only.
func parseCluster(plainScheme, rest string) (*target, error) {
	u, err := splitHosts(plainScheme, rest, redisPort)
	if err != nil {
		return nil, err
	}
	if err := noPath(u); err != nil {
		return nil, err
	}
	o, err := redis.ParseClusterURL(u.String())
	return &target{cluster: o}, plain(err)
}

func parseSentinel(plainScheme, rest string) (*target, error) {
	u, err := splitHosts(plainScheme, rest, sentinelPort)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if master == "" {
		return nil, errors.New("goredis: a Sentinel URL names the master: redis-sentinel://host:port/name")
	}
	q := u.Query()
	if q.Has("master_name") || q.Has("username") || q.Has("password") {
		return nil, errors.New("goredis: in a Sentinel URL the master's name is its path, and the servers' user and password come before the host")
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
	o, err := redis.ParseFailoverURL(u.String())
	return &target{failover: o}, plain(err)
}

// split parses a URL and makes sure that no part of a password has strayed into
// what errors may show.
func split(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(u.Path, "@") && u.Scheme != "unix" || strings.Contains(u.RawQuery, "@") || strings.Contains(u.Fragment, "@") {
		return nil, errMalformed
	}
	if u.Fragment != "" {
		return nil, errMalformed
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
			return nil, errMalformed
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
		return errors.New("goredis: a cluster has no numbered databases: leave out the URL's path")
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
		return errMalformed
	}
	return fmt.Errorf("goredis: %s", strings.TrimPrefix(err.Error(), "redis: "))
}

// tune sets what suits coordination. Commands are resent by this package alone,
// so go-redis is to try once; and a connection whose reply did not come by a
// call's deadline is given up, so that one broken connection does not take calls
// until its read time-out.
func (t *target) tune() {
	switch {
	case t.single != nil:
		t.single.MaxRetries, t.single.DialerRetries = -1, 1
		t.single.ContextTimeoutEnabled = true
		t.single.MaintNotificationsConfig = noNotifications()
	case t.failover != nil:
		t.failover.MaxRetries, t.failover.DialerRetries = -1, 1
		t.failover.ContextTimeoutEnabled = true
	case t.cluster != nil:
		t.cluster.MaxRetries, t.cluster.DialerRetries = -1, 1
		t.cluster.ContextTimeoutEnabled = true
		t.cluster.MaintNotificationsConfig = noNotifications()
	}
}
