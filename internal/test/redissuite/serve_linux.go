package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
)

// A loop runs the commands of all connections in one goroutine, in the order
// in which they arrived, as Redis does. The harness counts on that: it sends
// on one connection after the other without waiting for replies, and its test
// of BRPOPLPUSH with several clients hangs when they come in another order.
type loop struct {
	e     *engine.Engine
	poll  int
	mu    sync.Mutex
	conns map[int32]*served // by descriptor
}

type served struct {
	conn    *net.TCPConn
	raw     syscall.RawConn
	session net.Conn
	buf     []byte
	told    chan struct{} // closed when all replies have left
}

// accept serves e to whoever connects, until the listener is closed.
func accept(ln net.Listener, e *engine.Engine) error {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	l := &loop{e: e, poll: poll, conns: map[int32]*served{}}
	go l.run()
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.add(conn.(*net.TCPConn)); err != nil {
			conn.Close()
		}
	}
}

func (l *loop) add(conn *net.TCPConn) error {
	session, err := l.e.Open(context.Background())
	if err != nil {
		return err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var fd int32
	if err := raw.Control(func(n uintptr) { fd = int32(n) }); err != nil { //nolint:gosec // a descriptor
		return err
	}
	s := &served{conn, raw, session, make([]byte, 1<<16), make(chan struct{})}
	go func() {
		defer close(s.told)
		_, _ = io.Copy(conn, session) // ends when either side does
		_ = conn.CloseWrite()         // the loop sees the other side's end
	}()
	l.mu.Lock()
	l.conns[fd] = s
	l.mu.Unlock()
	return l.watch(fd)
}

// patience is how long one command may hold up the other connections: the
// tests of scripts that don't end send SCRIPT KILL on another one.
const patience = 50 * time.Millisecond

func (l *loop) run() {
	events := make([]syscall.EpollEvent, 1) // one by one: the list is in the order of arrival
	for {
		n, err := syscall.EpollWait(l.poll, events, -1)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		for _, ev := range events[:n] {
			l.mu.Lock()
			s := l.conns[ev.Fd]
			l.mu.Unlock()
			if s != nil {
				l.step(s, ev.Fd)
			}
		}
	}
}

// step runs what has arrived, and leaves it alone when that takes long.
func (l *loop) step(s *served, fd int32) {
	// Out of the poll set meanwhile: there may be more to read.
	if syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_DEL, int(fd), nil) != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.step() && l.watch(fd) == nil {
			return
		}
		l.mu.Lock()
		delete(l.conns, fd)
		l.mu.Unlock()
		// The last reply may say why this is the end.
		select {
		case <-s.told:
		case <-time.After(patience):
		}
		s.session.Close()
		_ = s.conn.Close()
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

func (l *loop) watch(fd int32) error {
	return syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP, Fd: fd})
}

// step runs what has arrived, and reports false when the client is gone.
func (s *served) step() bool {
	var n int
	var err error
	if rerr := s.raw.Read(func(fd uintptr) bool {
		n, err = syscall.Read(int(fd), s.buf) //nolint:gosec // a descriptor
		return true
	}); rerr != nil {
		return false
	}
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return true
	}
	if err != nil || n == 0 {
		return false
	}
	_, err = s.session.Write(s.buf[:n])
	return err == nil
}
