// Package socket makes the calls of a busy server on its sockets cheap.
//
// A socket of Go's net package never blocks in the kernel, yet each call on it
// is announced to the scheduler as if it might. On a loopback connection a
// write carries its bytes all the way to the other process, which takes long
// enough for the scheduler to hand the processor to another thread, and that
// hand-over costs more than the call. A [Conn] makes small calls without the
// announcement, on Linux. Elsewhere it makes the usual ones.
//
// Waiting, deadlines and Close work as in package net.
package socket

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// direct is the greatest length of a call that the scheduler is not told of.
// Copying more takes long enough to let others run meanwhile.
const direct = 64 << 10

// A Conn is a connection. One goroutine may read and one may write at any time. It has
// all other methods of the connection it was made of.
type Conn struct {
	net.Conn

	raw      syscall.RawConn // nil: Conn is no socket of this process
	detached *detached       // not nil: no poller of Go's knows the socket
	read     transfer
	write    transfer
}

// A transfer is the arguments and results of a call that runs inside of a
// RawConn. The closure is made once, so that a call allocates nothing.
type transfer struct {
	buf []byte
	n   int
	err error
	try bool // don't wait
	run func(fd uintptr) (done bool)
}

// New returns a Conn on c. It uses a connection that is no socket of this process, such
// as a TLS connection, as it is.
func New(c net.Conn) *Conn {
	s := &Conn{Conn: c}
	s.use(c)
	return s
}

// Drop closes the connection and doesn't wait. The end of TLS, which the other side may
// not take, is told in the background.
func (s *Conn) Drop() {
	if _, encrypted := s.Conn.(*tls.Conn); encrypted {
		go s.Conn.Close() // for 5 s at most
		return
	}
	_ = s.Close()
}

// CloseWrite ends the sending side. The connection is one of package net, or TLS on one.
func (s *Conn) CloseWrite() error {
	conn := s.Conn
	if t, encrypted := conn.(*tls.Conn); encrypted {
		_ = t.CloseWrite() // which only says so, in TLS
		conn = t.NetConn()
	}
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Cork keeps what is written next back until CloseWrite, so that the last bytes and the end of the connection
// arrive together. The system ends that after 200 ms at most. Only Linux can do it, and only on TCP; elsewhere Cork
// does nothing.
func (s *Conn) Cork() {
	conn := s.Conn
	if t, encrypted := conn.(*tls.Conn); encrypted {
		conn = t.NetConn()
	}
	if c, ok := conn.(*net.TCPConn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(cork)
		}
	}
}

// use makes calls on c.
func (s *Conn) use(c net.Conn) {
	if sc, ok := c.(syscall.Conn); ok && supported {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	s.read.run = s.read.receive
	s.write.run = s.write.send
}

// ErrWouldBlock is returned by Read on what [Detach] made when nothing has come.
var ErrWouldBlock = errors.New("socket: nothing to read")

// Attach undoes [Detach]: Go's poller waits for the socket again, and no [Poll] does.
// Nobody else may read or write meanwhile. It returns the new connection, which has the
// options of a new one. After an error the connection is closed. The likeliest error is
// too many open files.
func (s *Conn) Attach() (net.Conn, error) {
	c, err := s.detached.attach()
	if err != nil {
		return nil, err
	}
	s.detached = nil
	s.use(c)
	return c, nil
}

// Release closes what [Detach] made, once nobody reads or writes any more.
func (s *Conn) Release() {
	if s.detached != nil {
		s.detached.release()
	}
}

func (t *transfer) receive(fd uintptr) bool {
	for {
		t.n, t.err = read(fd, t.buf)
		switch {
		case t.err == nil:
			return true
		case errors.Is(t.err, syscall.EINTR):
		case errors.Is(t.err, syscall.EAGAIN):
			t.n, t.err = 0, nil
			return false
		default:
			return true
		}
	}
}

func (t *transfer) send(fd uintptr) bool {
	for t.n < len(t.buf) {
		n, err := write(fd, t.buf[t.n:])
		switch {
		case err == nil:
			t.n += n
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return t.try
		default:
			t.err = err
			return true
		}
	}
	return true
}

// take returns the results and lets go of the buffer.
func (t *transfer) take(call string, err error) (int, error) {
	n := t.n
	if err == nil && t.err != nil {
		err = os.NewSyscallError(call, t.err)
	}
	t.buf, t.n, t.err = nil, 0, nil
	return n, err
}

// Read implements net.Conn.
func (s *Conn) Read(p []byte) (int, error) {
	if s.detached != nil {
		return s.detached.read(p)
	}
	if s.raw == nil || len(p) == 0 {
		return s.Conn.Read(p)
	}
	s.read.buf = p
	n, err := s.read.take("read", s.raw.Read(s.read.run))
	if n <= 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

// Write implements net.Conn.
func (s *Conn) Write(p []byte) (int, error) {
	if s.raw == nil {
		return s.Conn.Write(p)
	}
	s.write.buf, s.write.try = p, false
	return s.write.take("write", s.raw.Write(s.write.run))
}

// TryWrite writes as much of p as the socket takes without waiting, perhaps nothing. It
// writes nothing if the connection is no socket of this process.
func (s *Conn) TryWrite(p []byte) (int, error) {
	if s.detached != nil {
		return s.detached.tryWrite(p)
	}
	if s.raw == nil {
		return 0, nil
	}
	s.write.buf, s.write.try = p, true
	return s.write.take("write", s.raw.Write(s.write.run))
}
