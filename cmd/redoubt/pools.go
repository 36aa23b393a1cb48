package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/dashboard"
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
	flags.StringVar(&f.file, "pools", "", "configuration `file` in twemproxy's format: serve its pools, each on its own address, instead of one back end")
	flags.BoolVar(&f.testConf, "test-conf", false, "check the file of --pools, print each error with its line, and exit; with 64 if there is an error")
	flags.BoolVar(&f.strict, "strict", false, "with --pools: close clients that send a command which twemproxy does not support, as twemproxy does")
	flags.DurationVar(&f.slowerThan, "slowlog-slower-than", 10*time.Millisecond, "with --pools: INFO slowlog lists commands that took a Redis server at least this long; negative: none")
	flags.IntVar(&f.slowMaxLen, "slowlog-max-len", 128, "with --pools: how many commands INFO slowlog lists, the latest ones; at least 1")
	flags.IntVar(&f.statsPort, "stats-port", 0, "with --pools: TCP `port` that sends twemproxy's statistics, in JSON, to every connection; 0: none")
	flags.StringVar(&f.statsAddr, "stats-addr", "127.0.0.1", "`address` that --stats-port listens on")
	flags.IntVar(&f.statsInterval, "stats-interval", 0, "maximum age of the statistics of --stats-port in `ms`; 0: always current")
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
		return misusef("--test-conf needs the file to check: --pools FILE")
	case f.file == "":
		return misusef("--strict, the --slowlog and the --stats flags need --pools FILE")
	case f.slowMaxLen < 1:
		return misusef("--slowlog-max-len is %d; want at least 1", f.slowMaxLen)
	case f.statsPort == 0 && (flags.Changed("stats-addr") || flags.Changed("stats-interval")):
		return misusef("--stats-addr and --stats-interval need --stats-port")
	}
	for _, name := range []string{"listen", "tls-cert-file", "tls-key-file", "tls-ca-cert-file", "aclfile", "backend", "dir", "prefix"} {
		if flags.Changed(name) {
			return misusef("--%s and --pools exclude each other: the file names the addresses and the servers", name)
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
	_, _ = fmt.Fprintf(stderr, "%s is valid: %s\n", f.pools.file, poolCount(len(file.Pools)))
	return nil
}

func poolCount(n int) string {
	if n == 1 {
		return "1 pool"
	}
	return fmt.Sprintf("%d pools", n)
}

// servePools serves all pools of a file until a signal ends it.
func servePools(f serveFlags, signals <-chan os.Signal, stderr io.Writer) error {
	file, log, err := readPools(f, stderr)
	if err != nil {
		return err
	}
	for _, w := range file.Warnings {
		log.Warn("warning about the file of pools", slog.String("warning", w))
	}
	life, err := newLifecycle(log)
	if err != nil {
		return err
	}
	defer life.close()
	defer keepClients(f.budget)()
	redis.SetLogger(clientLog{log})
	setThreads(f.threads, true)
	host, err := poolhost.Open(file, poolhost.Options{
		MaxClients: f.maxClients, MaxPipeline: f.maxPipeline, MaxBulk: int(f.maxBulk), MaxOutput: int(f.maxOutput),
		IdleTimeout: f.idleTimeout, WriteTimeout: f.writeTimeout, DrainTimeout: f.drainTimeout,
		Strict: f.pools.strict, SlowerThan: f.pools.slowerThan, SlowLogMaxLen: f.pools.slowMaxLen,
		Budget: f.budget, MetricsNames: f.metricsNames, Listen: life.sockets.Listen, Logger: log, Version: readBuildVersion(),
	})
	if err != nil {
		return poolFailure(err)
	}
	defer host.Close()
	web, err := listenHTTP(f.http, life.sockets.Listen, func(w *webServer) (http.Handler, error) {
		mux, err := newHandlerOf(host, func() []healthCheck { return poolChecks(host.Probes()) }, &w.draining)
		if err != nil {
			return nil, err
		}
		return mux, w.withDashboard(mux, &f, func() []dashboard.Source { return host.Sources(file.Password()) }, log)
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
	life.serving()
	cause, err := life.until(host.Reload, host.Failed(), signals)
	if err != nil {
		return poolFailure(err)
	}
	life.leaving(web, f.drainTimeout)
	drain(host, web, f.drainTimeout, cause, signals, log)
	return nil
}
