//go:build unix

package handover

import (
	"context"
	"net"
	"syscall"
	"testing"
)

// TestStartLeavesSocketsNonblocking: a successor shares the mode of the sockets. In blocking mode Close would wait for
// the next client.
func TestStartLeavesSocketsNonblocking(t *testing.T) {
	s, err := Inherit()
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	defer func(p string) { program = p }(program)
	program = "/bin/false"
	if _, err := s.Start(context.Background()); err == nil {
		t.Fatal("/bin/false is ready")
	}
	tcp, _ := l.(*listener).Listener.(*net.TCPListener)
	c, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = c.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		if errno != 0 || flags&syscall.O_NONBLOCK == 0 {
			t.Errorf("flags are %#x (%v); want O_NONBLOCK", flags, errno)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
