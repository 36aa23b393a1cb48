package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/server"
)

// checkPools finds flags that make no sense beside --pools.
func (f *serveFlags) checkPools(flags *pflag.FlagSet) error {
	switch {
	case f.pools == "" && f.testConf:
		return misusef("--test-conf needs the file that it is about: --pools FILE")
	case f.pools == "":
		return misusef("--strict, the --slowlog and the --stats flags are for pools: --pools FILE")
	case f.slowMaxLen < 1:
		return misusef("--slowlog-max-len is %d; want at least 1", f.slowMaxLen)
	case f.stats.port == 0 && (flags.Changed("stats-addr") || flags.Changed("stats-interval")):
		return misusef("--stats-addr and --stats-interval need --stats-port")
	}
	for _, name := range []string{"listen", "backend", "dir", "prefix"} {
		if flags.Changed(name) {
			return misusef("--%s and --pools exclude each other: the file says where to listen and which servers there are", name)
		}
	}
	return nil
}

// A poolsFile is the file of --pools, and what the files hold that it names.
type poolsFile struct {
	poolfile.File

	tls map[string]poolTLS // by the name of the pool
}

// readPools reads the file of --pools, and finds all that serve refuses before it connects. It
// returns the warnings too. The password is that of --password.
func readPools(path, password string) (poolsFile, error) {
	file := poolsFile{tls: make(map[string]poolTLS)}
	text, err := os.ReadFile(path)
	if err != nil {
		return file, usagef("pools: %w", err)
	}
	if file.File, err = poolfile.Parse(path, text); err != nil {
		return file, fail(exitUsage, err)
	}
	var errs []error
	for _, p := range file.Pools {
		t, err := readTLS(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, p.Line, err))
		}
		file.tls[p.Name] = t
		if p.Redis {
			if err := exposure(p.Name, clientsOf(p, password).CheckListen(p.Network, p.Address)); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %w", path, p.Line, err))
			}
		}
		if p.Reuseport {
			file.Warnings = append(file.Warnings, fmt.Sprintf("%s:%d: pool %q: reuseport is not supported, and ignored", path, p.Line, p.Name))
		}
	}
	if len(errs) > 0 {
		return file, fail(exitUsage, errors.Join(errs...))
	}
	return file, nil
}

// exposure says what to do about an error of a pool that matches [server.ErrExposed].
func exposure(pool string, err error) error {
	switch {
	case errors.Is(err, server.ErrExposed):
		return fmt.Errorf("pool %q: %w: redis_auth or users in the file, or --password", pool, err)
	case err != nil:
		return fmt.Errorf("pool %q: %w", pool, err)
	}
	return nil
}

// prepare checks the flags and the file of pools. It is all that --test-conf does, and the
// beginning of servePools. The warnings are there beside an error, too.
func (f serveFlags) prepare(stderr io.Writer) (file poolsFile, password string, log *slog.Logger, err error) {
	log, err = newLog(stderr, f.logLevel, f.logFormat)
	if err = errors.Join(err, f.check(), f.stats.check()); err != nil {
		return file, "", nil, fail(exitUsage, err)
	}
	if password, err = f.password.read(); err != nil {
		return file, "", nil, err
	}
	file, err = readPools(f.pools, password)
	return file, password, log, err
}

// testConf says what is wrong with the flags and the file of pools, or that nothing is.
func testConf(f serveFlags, stderr io.Writer) error {
	file, _, _, err := f.prepare(stderr)
	for _, w := range file.Warnings {
		_, _ = fmt.Fprintln(stderr, "warning:", w)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "%s: %d pools, nothing wrong\n", f.pools, len(file.Pools))
	return nil
}

// A servedPool is one pool of the file and what serves it.
type servedPool struct {
	name     string
	conf     poolfile.Pool // of the goroutine that reloads, as is held: that of poolTLS
	held     [sha256.Size]byte
	front    front
	tls      frontTLS
	listener net.Listener
}

// A front serves the clients of a pool in the protocol of its servers.
type front interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error

	// listen returns a listener for Serve.
	listen(network, address string) (net.Listener, error)
	// clients is how many are connected.
	clients() int
	// digest is the same for pools that choose servers alike now.
	digest() string
	// health returns how many servers answer, and the names of the others.
	health(ctx context.Context) (up int, down []string)
	// change gives the pool other servers, under its clients. retire waits until those
	// before are not needed, or ctx ends, and closes them.
	change(c poolfile.Pool, t poolTLS) (retire func(ctx context.Context), err error)
	// counters are what it has counted.
	counters() poolCounters
}

// close ends it at once. It may be half made.
func (p *servedPool) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	if p.front != nil {
		_ = p.front.Close()
	}
}

// openPool makes what serves a pool, and listens.
func openPool(c poolfile.Pool, t poolTLS, f serveFlags, password string, log *slog.Logger) (_ *servedPool, err error) {
	p := &servedPool{name: c.Name, conf: c, held: t.held}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	log = log.With("pool", c.Name)
	p.tls.now.Store(t.listen)
	if c.Redis {
		p.front, err = openRedisPool(c, f, password, p.tls.config(), t, log)
	} else {
		p.front, err = openMemcachedPool(c, f, p.tls.config(), t.servers, log)
	}
	if err != nil {
		return nil, err
	}
	p.listener, err = p.front.listen(c.Network, c.Address)
	switch {
	case errors.Is(err, server.ErrExposed):
		return nil, fail(exitUsage, exposure(c.Name, err))
	case err != nil:
		return nil, failf(exitUnavailable, "pool %q: %w", c.Name, err)
	}
	if c.Perm != 0 {
		if err := os.Chmod(c.Address, os.FileMode(c.Perm)); err != nil {
			return nil, failf(exitUnavailable, "pool %q: %w", c.Name, err)
		}
	}
	return p, nil
}

// maxClientsOf is how many clients a pool may have.
func (f serveFlags) maxClientsOf(c poolfile.Pool) int {
	return cmp.Or(c.ClientConnections, f.maxClients)
}

// servePools serves all pools of a file until a signal ends it.
func servePools(f serveFlags, signals <-chan os.Signal, stderr io.Writer) error {
	file, password, log, err := f.prepare(stderr)
	if err != nil {
		return err
	}
	for _, w := range file.Warnings {
		log.Warn("the file of pools", slog.String("warning", w))
	}
	defer keepClients(f.budget)()
	redis.SetLogger(clientLog{log})
	setThreads(f.threads, true)
	h := &poolHost{flags: f, password: password, log: log, ended: make(chan error, 1)}
	defer h.close()
	for _, c := range file.Pools {
		if err := h.open(c, file.tls[c.Name]); err != nil {
			return err
		}
	}
	web, err := listenHTTP(f.http, func(draining *atomic.Bool) (http.Handler, error) {
		return newHandlerOf(h, h.health, draining)
	}, log)
	if err != nil {
		return err
	}
	defer web.close()
	stats, err := listenStats(f.stats, h)
	if err != nil {
		return err
	}
	defer stats.close()
	for _, p := range h.pools {
		h.serve(p, web.addr())
	}
	hup := make(chan os.Signal, 1)
	notifyReload(hup)
	defer signal.Stop(hup)
	for {
		select {
		case <-hup:
			h.reload(web.addr())
		case err := <-h.ended:
			return err
		case sig := <-signals:
			h.drain(web, f.drainTimeout, sig, signals)
			return nil
		}
	}
}
