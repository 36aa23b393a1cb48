package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Detach takes a socket away from Go's poller, so that a [Poll] can wait for it
// instead: a socket in both would wake both. It closes c and uses a duplicate of its
// descriptor. If c is no socket of this process, Detach returns an error and leaves c as
// it is.
//
// On the Conn that Detach returns, Read and Write don't wait: they return
// [ErrWouldBlock]. Deadlines do nothing, except that a read deadline in the past ends
// reading. Close ends the connection. Its owner then calls Release, which closes the
// descriptor. The Conn has the addresses of c.
func Detach(c net.Conn) (*Conn, error) {
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return nil, errors.ErrUnsupported
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd uintptr
	var errno syscall.Errno
	if err := raw.Control(func(of uintptr) {
		fd, _, errno = syscall.Syscall(syscall.SYS_FCNTL, of, syscall.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return nil, err
	}
	if errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	b := &detached{fd: int(fd), local: c.LocalAddr(), remote: c.RemoteAddr()}
	_ = c.Close() // the duplicate lives on
	return &Conn{Conn: b, detached: b}, nil
}

// A detached is a descriptor that a Poll may wait for, until attach gives it to package net again.
type detached struct {
	fd            int
	local, remote net.Addr

	mu       sync.Mutex // guards what follows, and the end of fd
	poll     *Poll      // that waits for it
	back     net.Conn   // what it has become
	released bool
}

func (b *detached) read(p []byte) (int, error) {
	for {
		n, err := read(uintptr(b.fd), p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, ErrWouldBlock
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

func (b *detached) tryWrite(p []byte) (int, error) {
	t := transfer{buf: p, try: true}
	t.send(uintptr(b.fd))
	return t.take("write", nil)
}

// attach makes b a connection of package net again.
func (b *detached) attach() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return nil, net.ErrClosed
	}
	b.leavePoll()
	f := os.NewFile(uintptr(b.fd), "socket")
	back, err := net.FileConn(f)
	_ = f.Close()
	b.released, b.fd = true, -1
	if err != nil {
		return nil, err
	}
	b.back = back
	return back, nil
}

func (b *detached) leavePoll() {
	if b.poll != nil {
		b.poll.remove(b.fd)
		b.poll = nil
	}
}

func (b *detached) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.released {
		b.released = true
		b.leavePoll()
		_ = syscall.Close(b.fd)
		b.fd = -1
	}
}

// Close implements net.Conn. Its owner may be using the descriptor, which
// therefore stays.
func (b *detached) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.back != nil:
		return b.back.Close()
	case b.released:
		return net.ErrClosed
	}
	return syscall.Shutdown(b.fd, syscall.SHUT_RDWR)
}

// SetReadDeadline implements net.Conn.
func (b *detached) SetReadDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.back != nil:
		return b.back.SetReadDeadline(t)
	case b.released:
		return net.ErrClosed
	case !t.IsZero() && t.Before(time.Now()):
		return syscall.Shutdown(b.fd, syscall.SHUT_RD) // which the poll notices
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (b *detached) SetWriteDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.back != nil {
		return b.back.SetWriteDeadline(t)
	}
	return nil
}

// SetDeadline implements net.Conn.
func (b *detached) SetDeadline(t time.Time) error {
	return errors.Join(b.SetReadDeadline(t), b.SetWriteDeadline(t))
}

// Read implements net.Conn. A Conn doesn't call it.
func (b *detached) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Write implements net.Conn. A Conn calls it when it should have been attached.
func (b *detached) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// LocalAddr implements net.Conn.
func (b *detached) LocalAddr() net.Addr { return b.local }

// RemoteAddr implements net.Conn.
func (b *detached) RemoteAddr() net.Addr { return b.remote }
