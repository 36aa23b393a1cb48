package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/engine" // for redoubt.Open
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/poolhost"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/redisurl"
	"github.com/redoubt-go/redoubt/internal/scheme"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A backend stores the data of `redoubt serve`.
type backend struct {
	name       string                               // for logs and errors
	durability string                               // what survives a crash, for the log
	raw        server.Backend                       // opens connections to it
	sessions   func(client net.Conn) server.Session // of an engine in this process; else nil
	inMemory   bool                                 // an engine in this process that saves nothing
	saveErr    func() error                         // why the engine in this process can't save; else nil
	client     *redoubt.Client                      // nil with a group, which has no client of its own
	group      *poolhost.Group                      // Sentinel or a cluster, instead of raw; else nil
	prefix     string                               // of the group's keys
	closers    []func() error                       // in this order
	engine     *engine.Engine                       // in this process; else nil
	fsyncs     *latency.Shared                      // of the engine's log
	hurry      func()                               // stops long scripts of the engine in this process; else nil
}

// remote reports whether another process stores the data.
func (b *backend) remote() bool { return b.name != embeddedName }

// close returns once all data is saved. An error means that some may not be.
func (b *backend) close() (err error) {
	for _, c := range b.closers {
		err = errors.Join(err, c())
	}
	return err
}

const embeddedName = scheme.Embedded

// openBackend opens or connects to the back end that url names. Its errors name the address and never
// the password.
func openBackend(ctx context.Context, url string, s storage, prefix string, log *slog.Logger) (_ *backend, err error) {
	if _, err := serveDoor.Check(url); err != nil {
		return nil, usagef("back end: %w", err)
	}
	if err := s.settle(url); err != nil {
		return nil, err
	}
	if _, ok := embeddedPath(url); ok {
		return openEmbedded(ctx, s, prefix, log)
	}
	b := &backend{}
	defer func() {
		if err != nil {
			_ = b.close() // err says more
		}
	}()
	target, err := redisurl.Parse(url)
	if err == nil && target.Single == nil {
		err = poolhost.CheckOptions(url)
	}
	if err != nil {
		return nil, usagef("back end: %w", err)
	}
	if b.client, err = redoubt.Open(ctx, url, redoubt.Options{Prefix: prefix}); err != nil {
		return nil, openFailure("back end", url, err)
	}
	b.closers = append(b.closers, b.client.Close)
	b.name, b.durability = target.String(), durability(ctx, b.client)
	switch cluster := inCluster(ctx, b.client); {
	case cluster && target.Single != nil && !target.Detect:
		return nil, usagef("back end %s is a node of a cluster; serve needs the cluster: name it by redis-cluster://host:port", b.name)
	case cluster || target.Single == nil:
		if err := b.openGroup(target, prefix, log); err != nil {
			return nil, err
		}
		return b, nil
	}
	redis, err := proxy.ParseURL(url)
	if err != nil {
		return nil, usagef("back end: %w", err)
	}
	redis.TLS = target.Single.TLSConfig
	b.name, b.raw = redis.Name(), redis
	return b, nil
}

// openGroup opens the pool of a Sentinel group or a cluster, and closes the client, which has shown that the servers
// answer.
func (b *backend) openGroup(of *redisurl.Target, prefix string, log *slog.Logger) (err error) {
	_ = b.client.Close()
	b.client, b.prefix = nil, prefix
	if b.group, err = poolhost.OpenGroup(of, log); err != nil {
		return usagef("back end: %w", err)
	}
	b.closers = []func() error{b.group.Close}
	return nil
}

// metrics returns the metrics of the group, if there is one.
func (b *backend) metrics(srv *server.Server) []prometheus.Collector {
	if b.group == nil {
		return nil
	}
	return []prometheus.Collector{b.group.Collector(srv)}
}

// pool returns the pool of the group, or nil.
func (b *backend) pool() *proxy.Pool {
	if b.group == nil {
		return nil
	}
	return b.group.Pool()
}

// connect creates the client.
func (b *backend) connect(conn redoubt.Conn, prefix string) (err error) {
	if b.client, err = redoubt.New(conn, redoubt.Options{Prefix: prefix}); err != nil {
		return fail(exitUsage, err)
	}
	b.closers = append([]func() error{b.client.Close}, b.closers...)
	return nil
}

// openFailure returns the error, with its exit code, for a server that doesn't answer or refuses us, or
// for an invalid URL.
func openFailure(what, url string, err error) error {
	switch {
	case unreachable(err):
		return failf(exitUnavailable, "%s %s does not answer: %w", what, address(url), cause(err))
	case errors.Is(err, context.Canceled):
		return failf(exitUnavailable, "%s %s: interrupted before it answered: %w", what, address(url), context.Canceled)
	case errors.Is(err, goredis.ErrNotConnected): // the server answered with an error
		return failf(exitUnavailable, "%s %s refuses us: %w%s", what, address(url), cause(err), nextStep(err))
	}
	return usagef("%s: %w", what, err)
}

// cause unwraps an error of goredis.Open once.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// unreachable reports whether err says that no server answered, or that it only closed the connection.
func unreachable(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF)
}

func inCluster(ctx context.Context, client *redoubt.Client) bool {
	return info(ctx, client, "cluster")["cluster_enabled"] == "1"
}

// durability describes which data of a Redis survives a crash, as far as its configuration shows.
func durability(ctx context.Context, client *redoubt.Client) string {
	persistence := info(ctx, client, "persistence")
	if persistence == nil {
		return "unknown: the server refuses INFO"
	}
	if persistence["aof_enabled"] == "1" {
		if policy, ok := configured(ctx, client, "appendfsync"); ok {
			return "append-only file, fsync " + policy
		}
		return "append-only file"
	}
	save, ok := configured(ctx, client, "save")
	switch {
	case !ok:
		return "unknown: no append-only file, perhaps snapshots"
	case save == "":
		return "none: data is in memory and gone when the server ends"
	}
	return "periodic snapshots (save " + save + "): a crash loses later writes"
}

// info returns a section of INFO, or nil when the server refuses.
func info(ctx context.Context, client *redoubt.Client, section string) map[string]string {
	text, err := client.Do(ctx, redoubt.Cmd{Name: "INFO", Args: []string{section}, Flags: redoubt.ReadOnly}).Text()
	if err != nil {
		return nil
	}
	return infoFields(text)
}

// infoFields returns the fields of a reply of INFO.
func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[k] = v
		}
	}
	return fields
}

// configured returns a parameter of the server's configuration.
func configured(ctx context.Context, client *redoubt.Client, name string) (string, bool) {
	reply, err := client.Do(ctx, redoubt.Cmd{Name: "CONFIG GET", Args: []string{name}, Flags: redoubt.ReadOnly}).Array()
	if err != nil || len(reply) != 2 {
		return "", false
	}
	return fmt.Sprint(reply[1]), true
}
