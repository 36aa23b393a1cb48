package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/settings"
)

type serveFlags struct {
	frontend                  frontend
	http, backend, prefix     string
	httpHosts                 []string
	metricsNames              int
	pprof                     bool
	pools                     poolFlags
	storage                   storage
	password                  secret
	maxClients, maxPipeline   int
	threads                   int
	maxBulk, maxOutput        settings.Bytes
	maxClientMemory           settings.Bytes
	budget                    *budget.Budget // enforces maxClientMemory over all listeners
	idleTimeout, writeTimeout time.Duration
	drainTimeout              time.Duration
	logLevel, logFormat       string
}

func newServe() *cobra.Command {
	f := serveFlags{maxBulk: 512 << 20, maxOutput: 64 << 20, maxClientMemory: budget.Default}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve locks and rate limits to any Redis client",
		Long: `Serve Redis clients. The server runs Redoubt's own commands (see "redoubt commands")
and passes every other command through to the back end.

Without --backend the server keeps the data in its memory, and the data is gone when
it exits. With --dir PATH, or --backend embedded:/PATH, it saves the data in that
directory and loads it again at the next start.

With --pools the server stands in front of pools of servers, as twemproxy does: see
docs/pools.md.

With --listen tls://HOST:PORT, --tls-cert-file and --tls-key-file clients speak TLS.
Each --listen adds an address, with or without TLS. --aclfile names a file with users
and their rights, in the format of Redis.

SIGTERM and SIGINT shut the server down gracefully: it accepts no more clients, gives
commands in flight up to --drain-timeout to finish, and exits. A second signal ends
it at once. SIGUSR2 starts a new process with the same arguments, which takes the
addresses; then this one ends as by SIGTERM, and no client is refused. SIGHUP makes it
read the certificates and the users, or the file of pools, again; files with an error
change nothing. The log says what was read.

The --http address serves the dashboard to browsers; where other machines can reach it,
only with a password. There /metrics is for Prometheus, /livez says whether the process
works, and /readyz whether the back end answers and takes writes. None of them writes.

Exit codes: 0 ended by a signal; 1 not all data could be saved; 64 wrong usage; 65 the
directory is damaged; 69 the back end does not answer, or the directory or an
address can't be used.`,
		Example: `  redoubt serve
  redoubt serve --dir ./data
  redoubt serve --backend redis://10.0.0.5:6379
  redoubt serve --backend redis-sentinel://10.0.3.1:26379,10.0.3.2:26379/orders
  redoubt serve --listen tls://127.0.0.1:6381 --tls-cert-file server.crt --tls-key-file server.key
  redoubt serve --pools nutcracker.yml
  REDOUBT_PASSWORD=secret redoubt serve --listen :6380 --http :8080`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.budget = budget.New(int64(f.maxClientMemory))
			f.storage.clients = f.budget
			caught := make(chan os.Signal, 2)
			signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
			defer signal.Stop(caught)
			signals, stop := endingSignals(caught, func() { endAtOnce(f, cmd.ErrOrStderr()) })
			defer stop()
			if f.pools.given(cmd.Flags()) {
				if err := f.pools.checkUse(cmd.Flags()); err != nil {
					return err
				}
				if f.pools.testConf {
					return testConf(f, cmd.ErrOrStderr())
				}
				return servePools(f, signals, cmd.ErrOrStderr())
			}
			return serve(f, signals, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.frontend.flags(flags)
	flags.StringVar(&f.backend, "backend", "embedded:", "`URL` of the data store: embedded: (in memory), embedded:/path (in that directory), redis://[user:password@]host[:port][/db], rediss://…, unix:///path, redis-sentinel://host[:port],…/master or redis-cluster://host[:port],…")
	flags.StringVar(&f.http, "http", "127.0.0.1:8080", "`address` for the dashboard, /metrics, /livez and /readyz; empty: none")
	flags.StringSliceVar(&f.httpHosts, "http-host", nil, "`names` under which browsers reach the dashboard, beside localhost and the address of --http")
	flags.IntVar(&f.metricsNames, "metrics-names", 100, "maximum number of queues, stock items and caches that /metrics shows by name; 0: none, and /metrics asks the back end nothing")
	flags.BoolVar(&f.pprof, "pprof", false, "serve profiles of the process at /debug/pprof/ of the --http address, to users of the dashboard")
	f.pools.add(flags)
	flags.StringVar(&f.prefix, "prefix", "rd", "prefix of all keys that Redoubt's own commands use")
	f.storage.flags(flags)
	f.password.flags(flags, "password that clients must give")
	flags.IntVar(&f.threads, "threads", 0, "number of threads that run at once; 0: one per core, or half as many in front of other servers, which need cores too")
	flags.IntVar(&f.maxClients, "max-clients", 10_000, "maximum number of connected clients")
	flags.Var(&f.maxBulk, "max-bulk", "maximum `size` of one argument")
	flags.IntVar(&f.maxPipeline, "max-pipeline", 1024, "maximum number of commands in flight per client; the server reads no further until one is answered")
	flags.Var(&f.maxOutput, "max-output", "maximum `size` of unsent replies per client")
	flags.Var(&f.maxClientMemory, "maxmemory-clients", "maximum `size` of the buffers of all clients together: unfinished commands, transactions, replies and messages not yet sent; above it the server refuses commands and disconnects the clients that hold the most")
	flags.DurationVar(&f.idleTimeout, "idle-timeout", 0, "disconnect clients that send nothing for this long; 0: never")
	flags.DurationVar(&f.writeTimeout, "write-timeout", 30*time.Second, "disconnect clients that read no reply for this long")
	flags.DurationVar(&f.drainTimeout, "drain-timeout", 10*time.Second, "how long commands in flight may take to finish when the server shuts down")
	flags.StringVar(&f.logLevel, "log-level", "info", "lowest `level` to log: debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "`format` of the log on standard error: text or json")
	return cmd
}

// check refuses values out of range.
func (f *serveFlags) check() error {
	var errs []error
	positive := func(name string, n int) {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("%s is %d; want at least 1", name, n))
		}
	}
	positive("max-clients", f.maxClients)
	positive("max-pipeline", f.maxPipeline)
	positive("max-bulk", int(f.maxBulk))
	positive("max-output", int(f.maxOutput))
	positive("maxmemory-clients", int(f.maxClientMemory))
	if f.metricsNames < 0 || f.metricsNames > 10_000 {
		errs = append(errs, fmt.Errorf("metrics-names is %d; want 0 to 10000", f.metricsNames))
	}
	if f.threads < 0 {
		errs = append(errs, fmt.Errorf("threads is %d; want at least 0", f.threads))
	}
	if f.idleTimeout < 0 {
		errs = append(errs, fmt.Errorf("idle-timeout is %v; want at least 0", f.idleTimeout))
	}
	if f.writeTimeout <= 0 {
		errs = append(errs, fmt.Errorf("write-timeout is %v; want more than 0", f.writeTimeout))
	}
	if f.drainTimeout < 0 {
		errs = append(errs, fmt.Errorf("drain-timeout is %v; want at least 0", f.drainTimeout))
	}
	if f.pprof && f.http == "" {
		errs = append(errs, errors.New("pprof needs an address: --http is empty"))
	}
	errs = append(errs, checkHosts(f.httpHosts), f.frontend.check(), listenAddress("http", f.http), listenAddress("stats-addr", f.pools.statsAddr))
	return errors.Join(errs...)
}

// serve serves one back end until a signal ends it.
func serve(f serveFlags, signals <-chan os.Signal, stderr io.Writer) (err error) {
	log, err := newLog(stderr, f.logLevel, f.logFormat)
	if err = errors.Join(err, f.check()); err != nil {
		return fail(exitUsage, err)
	}
	redis.SetLogger(clientLog{log})
	password, err := f.password.read()
	if err != nil {
		return err
	}
	if err := f.frontend.readTLS(); err != nil {
		return err
	}
	life, err := newLifecycle(log)
	if err != nil {
		return err
	}
	defer life.close()
	ctx, interrupted, stop := untilSignal(signals)
	var back *backend
	if err = life.awaitDirectory(ctx, &f, password); err == nil {
		back, err = openBackend(ctx, f.backend, f.storage, f.prefix, log)
	}
	stop()
	if back != nil {
		defer func() {
			if e := back.close(); e != nil && err == nil {
				err = failf(exitFault, "not all data could be saved: %w", e)
			}
		}()
	}
	if interrupted() != 0 {
		return nil // a signal came before the server was up
	}
	if err != nil {
		return err
	}

	if back.remote() { // the embedded back end keeps its own limit
		defer keepClients(f.budget)()
	}
	setThreads(f.threads, back.remote())
	users, err := f.frontend.readUsers(back.remote(), log)
	if err != nil {
		return err
	}
	srv, err := server.New(server.Options{
		Backend: back.raw, Sessions: back.sessions, Client: back.client, Pool: back.pool(), Prefix: back.prefix, Password: password, Users: users, UserFile: f.frontend.aclFile,
		Limits: resp.Limits{MaxBulk: int(f.maxBulk)}, MaxClients: f.maxClients, MaxPipeline: f.maxPipeline,
		MaxOutput: int(f.maxOutput), IdleTimeout: f.idleTimeout, WriteTimeout: f.writeTimeout, Budget: f.budget, Listen: life.sockets.Listen, Logger: log,
	})
	if err != nil {
		return fail(exitUsage, err)
	}
	defer func() { _ = srv.Close() }()
	if err := f.frontend.open(srv); err != nil {
		return err
	}
	defer f.frontend.close()
	web, err := listenHTTP(f.http, life.sockets.Listen, func(w *webServer) (http.Handler, error) {
		c := collector{srv: srv, back: back, frontend: &f.frontend, reading: make(chan struct{}, 1)}
		if f.metricsNames > 0 && srv.Client() != nil {
			c.watcher = dashboard.NewWatcher(srv.Client(), srv.Takers, f.metricsNames)
			w.closers = append(w.closers, c.watcher.Close)
		}
		mux, err := newHandler(c, back, &w.draining, back.metrics(srv)...)
		if err != nil {
			return nil, err
		}
		return mux, w.withDashboard(mux, &f, sourceOf(srv, back, f.frontend.url()), log)
	}, log)
	if err != nil {
		return err
	}
	defer web.close()

	log.Info("serving",
		slog.String("listen", f.frontend.addresses()), slog.String("backend", back.name),
		slog.String("durability", back.durability), slog.String("http", web.addr()),
		slog.String("password", needed(srv)), slog.String("version", readBuildVersion()))
	ended := f.frontend.serve(srv)
	defer f.frontend.follow(log)()
	if !back.remote() && back.inMemory {
		life.refuse = "the data is only in the memory of this process: set --dir, or end the process by SIGTERM and start it again without the data"
	}
	life.serving()
	cause, err := life.until(func() { f.frontend.reload(srv, back, f.drainTimeout, log) }, ended, signals)
	if err != nil {
		return err
	}
	life.leaving(web, f.drainTimeout)
	drain(drainingServer{srv, back}, web, f.drainTimeout, cause, signals, log)
	return nil
}

// setThreads limits the threads that run Go code. A server in front of a remote back end does little
// work per command, so that more threads mostly wake each other. GOMAXPROCS in the environment comes
// before the default; the runtime has applied it already.
func setThreads(n int, remote bool) {
	switch {
	case n > 0:
		runtime.GOMAXPROCS(n)
	case remote && os.Getenv("GOMAXPROCS") == "":
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
}

// needed is the log's word for whether clients need a password.
func needed(srv *server.Server) string {
	if srv.Open() {
		return "none"
	}
	return "required"
}
