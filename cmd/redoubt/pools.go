package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/poolhost"
)

// poolFlags are the flags of serve that only pools have. The names of the statistics' flags are
// twemproxy's.
type poolFlags struct {
	file             string
	testConf, strict bool
	slowerThan       time.Duration
	slowMaxLen       int

	statsPort, statsInterval int
	statsAddr                string
}

func (f *poolFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "pools", "", "`file` of pools in twemproxy's format: serve them, each on its address, instead of one back end")
	flags.BoolVar(&f.testConf, "test-conf", false, "only say what is wrong with the file of --pools, and in which line; exit code 64 if anything is")
	flags.BoolVar(&f.strict, "strict", false, "in front of pools, close clients without a reply for what twemproxy doesn't take, as it does")
	flags.DurationVar(&f.slowerThan, "slowlog-slower-than", 10*time.Millisecond, "in front of pools of Redis, INFO slowlog names commands for which a server lets others wait this long; none if negative")
	flags.IntVar(&f.slowMaxLen, "slowlog-max-len", 128, "how many of them are kept, the latest, at least 1")
	flags.IntVar(&f.statsPort, "stats-port", 0, "in front of pools, `port` that tells twemproxy's statistics, in JSON, to whoever connects; 0 for none")
	flags.StringVar(&f.statsAddr, "stats-addr", "127.0.0.1", "`address` of --stats-port")
	flags.IntVar(&f.statsInterval, "stats-interval", 0, "how old what --stats-port tells may be, in `ms`; 0 for now")
}

// given reports whether one of them is used.
func (f *poolFlags) given(flags *pflag.FlagSet) bool {
	return f.file != "" || f.testConf || f.strict || flags.Changed("slowlog-slower-than") || flags.Changed("slowlog-max-len") ||
		flags.Changed("stats-port") || flags.Changed("stats-addr") || flags.Changed("stats-interval")
}

// checkUse refuses flags that exclude each other.
func (f *poolFlags) checkUse(flags *pflag.FlagSet) error {
	switch {
	case f.file == "" && f.testConf:
		return misusef("--test-conf needs the file that it is about: --pools FILE")
	case f.file == "":
		return misusef("--strict, the --slowlog and the --stats flags are for pools: --pools FILE")
	case f.slowMaxLen < 1:
		return misusef("--slowlog-max-len is %d; want at least 1", f.slowMaxLen)
	case f.statsPort == 0 && (flags.Changed("stats-addr") || flags.Changed("stats-interval")):
		return misusef("--stats-addr and --stats-interval need --stats-port")
	}
	for _, name := range []string{"listen", "backend", "dir", "prefix"} {
		if flags.Changed(name) {
			return misusef("--%s and --pools exclude each other: the file says where to listen and which servers there are", name)
		}
	}
	return nil
}

// check refuses values out of range.
func (f *poolFlags) check() error {
	var errs []error
	if f.statsPort < 0 || f.statsPort > 65535 {
		errs = append(errs, fmt.Errorf("stats-port is %d; want 1 to 65535, or 0 for none", f.statsPort))
	}
	if f.statsInterval < 0 {
		errs = append(errs, fmt.Errorf("stats-interval is %d; want at least 0", f.statsInterval))
	}
	return errors.Join(errs...)
}

// readPools checks the flags and reads the file of pools. It is all that --test-conf does. The file
// has its warnings beside an error, too.
func readPools(f serveFlags, stderr io.Writer) (file *poolhost.File, log *slog.Logger, err error) {
	file = &poolhost.File{}
	log, err = newLog(stderr, f.logLevel, f.logFormat)
	if err = errors.Join(err, f.check(), f.pools.check()); err != nil {
		return file, nil, fail(exitUsage, err)
	}
	password, err := f.password.read()
	if err != nil {
		return file, nil, err
	}
	file, err = poolhost.Read(f.pools.file, password)
	return file, log, poolFailure(err)
}

// poolFailure adds the exit code to an error of package poolhost.
func poolFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, poolhost.ErrConfig):
		return fail(exitUsage, err)
	case errors.Is(err, poolhost.ErrListen):
		return fail(exitUnavailable, err)
	}
	return fail(exitFault, err)
}

// testConf prints the faults and the warnings of the flags and the file of pools.
func testConf(f serveFlags, stderr io.Writer) error {
	file, _, err := readPools(f, stderr)
	for _, w := range file.Warnings {
		_, _ = fmt.Fprintln(stderr, "warning:", w)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "%s: %d pools, nothing wrong\n", f.pools.file, len(file.Pools))
	return nil
}

// servePools serves all pools of a file until a signal ends it.
func servePools(f serveFlags, signals <-chan os.Signal, stderr io.Writer) error {
	file, log, err := readPools(f, stderr)
	if err != nil {
		return err
	}
	for _, w := range file.Warnings {
		log.Warn("the file of pools", slog.String("warning", w))
	}
	defer keepClients(f.budget)()
	redis.SetLogger(clientLog{log})
	setThreads(f.threads, true)
	host, err := poolhost.Open(file, poolhost.Options{
		MaxClients: f.maxClients, MaxPipeline: f.maxPipeline, MaxBulk: int(f.maxBulk), MaxOutput: int(f.maxOutput),
		IdleTimeout: f.idleTimeout, WriteTimeout: f.writeTimeout, DrainTimeout: f.drainTimeout,
		Strict: f.pools.strict, SlowerThan: f.pools.slowerThan, SlowLogMaxLen: f.pools.slowMaxLen,
		Budget: f.budget, Logger: log, Version: readBuildVersion(),
	})
	if err != nil {
		return poolFailure(err)
	}
	defer host.Close()
	web, err := listenHTTP(f.http, func(draining *atomic.Bool) (http.Handler, error) {
		return newHandlerOf(host, func(ctx context.Context) ([]string, error) {
			ctx, cancel := context.WithTimeout(ctx, healthTimeout)
			defer cancel()
			return host.Health(ctx)
		}, draining)
	}, log)
	if err != nil {
		return err
	}
	defer web.close()
	if f.pools.statsPort != 0 {
		addr := net.JoinHostPort(f.pools.statsAddr, strconv.Itoa(f.pools.statsPort))
		if err := host.ListenStats(addr, time.Duration(f.pools.statsInterval)*time.Millisecond); err != nil {
			return poolFailure(fmt.Errorf("stats-port: %w", err))
		}
	}
	host.Serve(slog.String("http", web.addr()), slog.String("version", readBuildVersion()))
	hup := make(chan os.Signal, 1)
	notifyReload(hup)
	defer signal.Stop(hup)
	for {
		select {
		case <-hup:
			host.Reload()
		case err := <-host.Failed():
			return poolFailure(err)
		case sig := <-signals:
			drain(host, web, f.drainTimeout, sig, signals, log)
			return nil
		}
	}
}
