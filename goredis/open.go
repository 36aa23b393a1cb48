package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
	"github.com/redoubt-go/redoubt/internal/redisurl"
	"github.com/redoubt-go/redoubt/internal/scheme"
)

// A target is what a URL names.
type target struct{ *redisurl.Target }

// door is what [Open] takes.
var door = scheme.Door{
	Name: "goredis.Open", Takes: scheme.Remote,
	Embedded: `redoubt.Open takes it, with an import of _ "github.com/redoubt-go/redoubt/engine"`,
}

func parse(raw string) (*target, error) {
	if _, err := door.Check(raw); err != nil {
		return nil, fmt.Errorf("goredis: %w", err)
	}
	of, err := redisurl.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("goredis: %w", err)
	}
	t := &target{of}
	t.tune()
	return t, nil
}

// tune sets options of go-redis for coordination. Only this package sends commands
// again, so go-redis tries once. When a reply has not come by the call's deadline,
// go-redis closes the connection: a broken connection would otherwise get calls
// until its read time-out.
func (t *target) tune() {
	switch {
	case t.Single != nil:
		t.Single.MaxRetries, t.Single.DialerRetries = -1, 1
		t.Single.ContextTimeoutEnabled = true
		t.Single.MaintNotificationsConfig = noNotifications()
	case t.Failover != nil:
		t.Failover.MaxRetries, t.Failover.DialerRetries = -1, 1
		t.Failover.ContextTimeoutEnabled = true
	case t.Cluster != nil:
		t.Cluster.MaxRetries, t.Cluster.DialerRetries = -1, 1
		t.Cluster.ContextTimeoutEnabled = true
		t.Cluster.MaintNotificationsConfig = noNotifications()
	}
}

// A Client is a [Conn] with a go-redis client of its own, made by [Open].
type Client struct {
	*Conn
	rdb redis.UniversalClient
}

// Open is for a program that needs the go-redis client too; otherwise [redoubt.Open] does
// both steps. Open connects to the server, Sentinel group or cluster that url names and
// sends it a PING. ctx bounds that; without a deadline it takes ten
// seconds at most. Close the Client after use.
//
//	redis://[user:password@]host[:port][/db]          one server; rediss:// with TLS
//	unix://[user:password@]/path/to.sock[?db=n]       one server by its socket
//	redis-sentinel://[user:password@]host[:port],…/name[/db]
//	redis-cluster://[user:password@]host[:port],…
//
// rediss-sentinel:// and rediss-cluster:// use TLS. For Sentinel the user and
// password are for the servers; the Sentinels have the options
// sentinel_username and sentinel_password. A Sentinel's port defaults to 26379,
// every other to 6379.
//
// The forms of go-redis itself are understood too: redis://host?master_name=m&addr=…
// is Sentinel (see redis.ParseFailoverURL: there the URL's user is the
// Sentinels'), and redis://host?addr=… without master_name is a cluster. A
// redis:// server that turns out to be a node of a cluster is used as that
// cluster; cluster=false keeps to the one node, for a cluster of one whose
// announced address can't be reached from here.
//
// Options follow as a query, as go-redis names them: dial_timeout,
// read_timeout, pool_size, client_name, protocol, skip_verify and so on. An
// unknown one is an error. max_retries has no effect: see the package's
// documentation. Special characters in a password must be percent-encoded.
// Errors name the address, never the password.
func Open(ctx context.Context, url string) (*Client, error) {
	t, err := parse(url)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, conn.GiveUpAfter)
	defer cancel()
	c, err := t.connect(bounded)
	if err == nil {
		return c, nil
	}
	switch _, wrong := errors.AsType[urlError](err); {
	case wrong:
		return nil, fmt.Errorf("goredis: %s: %w", t, err)
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, fmt.Errorf("goredis: connecting to %s was canceled: %w", t, ctx.Err())
	}
	return nil, &connectError{t.String(), withoutArgs(err)}
}

// ErrNotConnected is matched by the error of [Open] when the URL is valid, but no server answered in time
// or the server refused the client. The error wraps the cause. A canceled ctx does not match.
var ErrNotConnected = errors.New("goredis: not connected")

type connectError struct {
	target string
	cause  error
}

func (e *connectError) Error() string {
	return ErrNotConnected.Error() + " to " + e.target + ": " + e.cause.Error()
}

func (e *connectError) Unwrap() error        { return e.cause }
func (e *connectError) Is(target error) bool { return target == ErrNotConnected }

// A urlError is what is wrong with a URL, found only once the server had answered.
type urlError string

func (e urlError) Error() string { return string(e) }

func init() {
	redoubt.Register(func(ctx context.Context, url string) (redoubt.OpenConn, error) {
		c, err := Open(ctx, url)
		if err != nil {
			return nil, err // and no nil *Client in the interface
		}
		return c, nil
	}, scheme.Remote...)
}

// Close closes the client and ends all subscriptions. It may be called more
// than once.
func (c *Client) Close() error {
	c.hubs.Close()
	c.blockers.close()
	c.dedicated.close()
	if err := c.rdb.Close(); err != nil && err != redis.ErrClosed { //nolint:errorlint // go-redis returns it bare
		return err
	}
	return nil
}

// Redis returns the go-redis client, for commands that are not ours to send. It
// is closed by [Client.Close]. Not all of our commands pass it: see the package's
// documentation.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// connect makes the client and has it answer.
func (t *target) connect(ctx context.Context) (*Client, error) {
	var rdb redis.UniversalClient
	switch {
	case t.Cluster != nil:
		rdb = redis.NewClusterClient(t.Cluster)
	case t.Failover != nil:
		rdb = redis.NewFailoverClient(t.Failover)
	default:
		rdb = redis.NewClient(t.Single)
	}
	c, err := own(rdb)
	if err != nil {
		return nil, err
	}
	if err := c.ping(ctx); err != nil {
		_ = c.Close()
		return nil, t.explain(err)
	}
	if t.Single == nil || !t.Detect || !c.inCluster(ctx) {
		if t.Single != nil {
			c.dedicated.origin = c.single
		}
		return c, nil
	}
	_ = c.Close()
	if t.Single.DB != 0 {
		return nil, t.clusterHasNoDatabase()
	}
	t.Cluster, t.Single = clusterOf(t.Single), nil
	return t.connect(ctx)
}

// explain returns a urlError for the refusal of a database that the server doesn't have, and other errors
// as they are.
func (t *target) explain(err error) error {
	switch text := err.Error(); {
	case t.Single == nil || t.Single.DB == 0:
	case strings.HasPrefix(text, "ERR SELECT is not allowed in cluster mode"):
		return t.clusterHasNoDatabase()
	case strings.HasPrefix(text, "ERR DB index is out of range"):
		return urlError(fmt.Sprintf("it has no database %d", t.Single.DB))
	}
	return err
}

func (t *target) clusterHasNoDatabase() error {
	return urlError(fmt.Sprintf("it is a cluster, which has no database %d", t.Single.DB))
}

func own(rdb redis.UniversalClient) (*Client, error) {
	conn, err := Wrap(rdb)
	if err != nil {
		_ = rdb.Close()
		return nil, err
	}
	return &Client{Conn: conn, rdb: rdb}, nil
}

// ping makes one attempt, so that a wrong address is an error at once.
func (c *Client) ping(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.rdb.Process(ctx, redis.NewStatusCmd(ctx, "ping")) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inCluster asks the server whether it is a node of a cluster. One that won't
// say is taken for a single server.
func (c *Client) inCluster(ctx context.Context) bool {
	info, err := c.rdb.Info(ctx, "cluster").Result()
	return err == nil && strings.Contains(info, "cluster_enabled:1")
}

// clusterOf returns the options of the cluster that a single server's options
// led to.
func clusterOf(o *redis.Options) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:                    []string{o.Addr},
		ClientName:               o.ClientName,
		Dialer:                   nil, // o's knows one address only
		Protocol:                 o.Protocol,
		Username:                 o.Username,
		Password:                 o.Password,
		MaxRetries:               o.MaxRetries,
		DialTimeout:              o.DialTimeout,
		DialerRetries:            o.DialerRetries,
		ReadTimeout:              o.ReadTimeout,
		WriteTimeout:             o.WriteTimeout,
		ContextTimeoutEnabled:    o.ContextTimeoutEnabled,
		PoolFIFO:                 o.PoolFIFO,
		PoolSize:                 o.PoolSize,
		PoolTimeout:              o.PoolTimeout,
		MinIdleConns:             o.MinIdleConns,
		MaxIdleConns:             o.MaxIdleConns,
		MaxActiveConns:           o.MaxActiveConns,
		ConnMaxIdleTime:          o.ConnMaxIdleTime,
		ConnMaxLifetime:          o.ConnMaxLifetime,
		TLSConfig:                o.TLSConfig,
		MaintNotificationsConfig: noNotifications(),
	}
}

// noNotifications spares every new connection the question for a feature of
// Redis Enterprise.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// withoutArgs takes the arguments of a command out of an error: a server without
// AUTH or HELLO repeats them.
func withoutArgs(err error) error {
	if text, _, cut := strings.Cut(err.Error(), ", with args beginning with"); cut {
		return redactedError{text, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.err }
