package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/redoubt-go/redoubt/internal/handover"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A lifecycle is the start, the reloads and the end of `redoubt serve`, as signals, systemd and other processes
// of it see them. The goroutine that serves owns it.
type lifecycle struct {
	sockets   *handover.Sockets
	log       *slog.Logger
	refuse    string // why there is no hand-over; empty: there may be one
	hup, usr2 chan os.Signal

	cancel  context.CancelFunc // of the successor that is being started; nil: none is
	started chan startedSuccessor
	next    *handover.Successor // it has taken over

	alone    chan struct{} // closed: the former process has ended; nil: there was none
	yielded  bool          // it has ended, or closes its directory
	watching bool
	done     chan struct{}
}

type startedSuccessor struct {
	*handover.Successor

	err error
}

// newLifecycle takes the sockets that this process inherits. Signals that come before until are kept.
func newLifecycle(log *slog.Logger) (*lifecycle, error) {
	l := &lifecycle{
		log: log, hup: make(chan os.Signal, 1), usr2: make(chan os.Signal, 1),
		started: make(chan startedSuccessor, 1), done: make(chan struct{}),
	}
	notifyReload(l.hup)
	notifyHandOver(l.usr2)
	var err error
	if l.sockets, err = handover.Inherit(); err != nil {
		return nil, failf(exitUnavailable, "listening sockets: %w", err)
	}
	if l.sockets.Former() != nil {
		l.alone = make(chan struct{})
	}
	return l, nil
}

func (l *lifecycle) close() {
	signal.Stop(l.hup)
	signal.Stop(l.usr2)
	l.sockets.CloseUnused()
	close(l.done)
}

// awaitDirectory waits until the former process has closed the directory of the engine, if it is one that hands over and there
// is a directory: it has one owner. Before that it finds the faults that would keep this process from serving.
func (l *lifecycle) awaitDirectory(ctx context.Context, f *serveFlags, password string) error {
	former := l.sockets.Former()
	path, embedded := embeddedPath(f.backend)
	if former == nil || !embedded || path == "" && f.storage.dir == "" {
		return nil
	}
	if err := f.storage.settle(f.backend); err != nil {
		return err
	}
	users, err := f.frontend.readUsers(false, l.log)
	if err == nil {
		opts := server.Options{Password: password, Users: users, Limits: resp.Limits{MaxBulk: int(f.maxBulk)}}
		err = opts.Validate()
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	if err := f.frontend.reserve(ctx, l.sockets); err != nil {
		return fail(exitUnavailable, err)
	}
	if f.http != "" {
		if err := l.sockets.Reserve(ctx, "tcp", f.http); err != nil {
			return failf(exitUnavailable, "http: %w", err)
		}
	}
	began := time.Now()
	if err := former.Ready(); err != nil {
		l.log.Warn("the former process has ended already", slog.Any("error", err))
	}
	go func() {
		if former.Yields() == nil {
			l.watch() // this process is the one that systemd watches now
		}
		former.Ended()
		close(l.alone)
	}()
	select {
	case <-l.alone:
		l.yielded = true
		l.log.Info("the former process has closed the directory", slog.String("dir", f.storage.dir), slog.Duration("took", time.Since(began)))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serving tells everybody that clients are served.
func (l *lifecycle) serving() {
	for _, a := range l.sockets.CloseUnused() {
		l.log.Warn("closed an inherited socket: no address of the settings is its", slog.String("listen", a))
	}
	former := l.sockets.Former()
	if former == nil || l.yielded {
		l.watch()
		l.notify(daemon.SdNotifyReady)
		return
	}
	if err := former.Ready(); err != nil {
		l.log.Warn("the former process has ended already", slog.Any("error", err))
	}
	go func() {
		if err := former.Yields(); err != nil {
			l.log.Warn("the former process has ended without handing over", slog.Any("error", err))
		}
		// systemd takes this process's word from now on.
		l.watch()
		l.notify(daemon.SdNotifyReady)
		former.Ended()
		l.log.Info("the former process has ended")
		close(l.alone)
	}()
}

// until calls reload at each SIGHUP and hands over at SIGUSR2, until a signal, a fault or a successor ends the server. It returns
// the signal.
func (l *lifecycle) until(reload func(), failed <-chan error, signals <-chan os.Signal) (cause string, err error) {
	for {
		select {
		case <-l.hup:
			l.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
			reload()
			l.notify(daemon.SdNotifyReady)
		case <-l.usr2:
			l.handOver()
		case s := <-l.started:
			l.cancel()
			l.cancel = nil
			if l.yield(s) {
				return "user defined signal 2", nil
			}
		case err := <-failed:
			l.abandon()
			return "", err
		case sig := <-signals:
			l.notify(daemon.SdNotifyStopping)
			l.abandon()
			return sig.String(), nil
		}
	}
}

// handOver starts a successor, unless something is against it.
func (l *lifecycle) handOver() {
	why := l.refuse
	switch {
	case why != "":
	case os.Getpid() == 1:
		why = "this is process 1, with whose end the container ends: start another container instead"
	case l.cancel != nil:
		why = "a successor is being started"
	case l.alone != nil:
		select {
		case <-l.alone:
		default:
			why = "the former process still drains its clients"
		}
	}
	if why != "" {
		l.log.Warn("SIGUSR2: no hand-over", slog.String("reason", why))
		return
	}
	l.log.Info("SIGUSR2: starting a successor")
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	go func() {
		next, err := l.sockets.Start(ctx)
		l.started <- startedSuccessor{next, err}
	}()
}

// yield lets a successor take over. It reports false if there is none, and this process goes on.
func (l *lifecycle) yield(s startedSuccessor) bool {
	if s.err == nil {
		l.notify("MAINPID=" + strconv.Itoa(s.Pid))
		if s.err = s.Yield(); s.err != nil {
			l.notify("MAINPID=" + strconv.Itoa(os.Getpid()))
		}
	}
	if s.err != nil {
		l.log.Error("no hand-over: this process goes on, because its successor failed", slog.Any("error", s.err))
		return false
	}
	l.next = s.Successor
	l.log.Info("handed over", slog.Int("pid", s.Pid))
	return true
}

// abandon ends a successor that is being started.
func (l *lifecycle) abandon() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	if s := <-l.started; s.err == nil {
		s.Stop()
	}
}

// leaving leaves the http address to a successor: it answers there, also the probes, while this process drains.
func (l *lifecycle) leaving(web *webServer, patience time.Duration) {
	if l.next != nil {
		web.leave(patience)
	}
}

// watch tells systemd's watchdog that the process works, if it wants to know, until close.
func (l *lifecycle) watch() {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		l.log.Warn("systemd's watchdog", slog.Any("error", err))
	}
	if interval <= 0 || l.watching {
		return
	}
	l.watching = true
	go func() {
		t := time.NewTicker(interval / 2)
		defer t.Stop()
		for {
			l.notify(daemon.SdNotifyWatchdog)
			select {
			case <-t.C:
			case <-l.done:
				return
			}
		}
	}()
}

// notify tells systemd something, if it started this process and wants to know.
func (l *lifecycle) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && !errors.Is(err, syscall.ENOENT) {
		l.log.Warn("systemd can't be told", slog.String("state", state), slog.Any("error", err))
	}
}
