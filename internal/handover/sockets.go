package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// Variable is the environment variable by which a process tells its successor about the sockets.
const Variable = "REDOUBT_HANDOVER"

// Sockets are the listening sockets of this process. Their methods are safe for concurrent use.
type Sockets struct {
	former *Former

	mu     sync.Mutex
	unused []inherited
	open   []*listener
}

// A description says what a socket is for.
type description struct {
	Name string `json:"name"` // of Listen; of systemd's sockets the name there
	Kept bool   `json:"kept"` // systemd's: its path stays when it is closed
}

// An inherited socket has not been asked for yet.
type inherited struct {
	description
	net.Listener
}

// A letter is what a process tells its successor. The sockets' descriptors begin at firstSocket.
type letter struct {
	From    int           `json:"from"` // the process that wrote it
	Sockets []description `json:"sockets"`
}

const (
	readyPipe   = 3 // the successor writes
	yieldPipe   = 4 // the former writes
	firstSocket = 5
)

// Inherit returns the sockets that systemd or the former process gives to this one, if any. Child
// processes don't get them. Call it once, first.
func Inherit() (*Sockets, error) {
	s := &Sockets{}
	text, given := os.LookupEnv(Variable)
	if !given {
		for _, f := range activation.Files(true) {
			if err := s.inherit(f, description{f.Name(), true}); err != nil {
				return nil, fmt.Errorf("socket %s of systemd: %w", f.Name(), err)
			}
		}
		return s, nil
	}
	_ = os.Unsetenv(Variable)
	var l letter
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	if l.From != os.Getppid() {
		return nil, errors.New("the process that hands over has ended already")
	}
	closeOnExec(readyPipe, yieldPipe)
	s.former = &Former{sockets: s, ready: os.NewFile(readyPipe, "ready"), yields: os.NewFile(yieldPipe, "yields")}
	for i, d := range l.Sockets {
		if err := s.inherit(os.NewFile(firstSocket+uintptr(i), d.Name), d); err != nil { //nolint:gosec // positive
			return nil, fmt.Errorf("socket %s of the former process: %w", d.Name, err)
		}
	}
	return s, nil
}

func (s *Sockets) inherit(f *os.File, d description) error {
	l, err := net.FileListener(f) // a duplicate, which child processes don't get
	_ = f.Close()
	if err != nil {
		return err
	}
	s.unused = append(s.unused, inherited{d, l})
	return nil
}

// Former returns the process that hands over to this one, or nil if there is none.
func (s *Sockets) Former() *Former { return s.former }

// Listen returns the inherited socket for an address, or a new one. network is tcp or unix.
func (s *Sockets) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := network + " " + address
	at := slices.IndexFunc(s.unused, func(i inherited) bool { return i.Name == name })
	if at < 0 {
		at = slices.IndexFunc(s.unused, func(i inherited) bool { return same(i.Addr(), network, address) })
	}
	l := &listener{sockets: s, description: description{Name: name}}
	if at >= 0 {
		l.Listener, l.Kept = s.unused[at].Listener, s.unused[at].Kept
		s.unused = slices.Delete(s.unused, at, at+1)
	} else {
		opened, err := socket.Listen(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.Listener = opened
	}
	// The former process goes on with its sockets if this one fails.
	l.unlink(!l.Kept && (at < 0 || s.former == nil || s.former.over))
	s.open = append(s.open, l)
	return l, nil
}

// Reserve opens a socket, or finds the inherited one, for a later Listen.
func (s *Sockets) Reserve(ctx context.Context, network, address string) error {
	opened, err := s.Listen(ctx, network, address)
	if err != nil {
		return err
	}
	l := opened.(*listener) //nolint:forcetypeassert // Listen returns no other
	s.forget(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, inherited{l.description, l.Listener})
	return nil
}

// same reports whether a socket listens on an address.
func same(a net.Addr, network, address string) bool {
	switch a := a.(type) {
	case *net.UnixAddr:
		given, err := filepath.Abs(address)
		is, ierr := filepath.Abs(a.Name)
		return network == "unix" && err == nil && ierr == nil && given == is
	case *net.TCPAddr:
		if network == "unix" {
			return false
		}
		given, err := net.ResolveTCPAddr(network, address)
		return err == nil && given.Port == a.Port && (given.IP.Equal(a.IP) || everywhere(given.IP) && everywhere(a.IP))
	}
	return false
}

// everywhere reports whether ip stands for all addresses of the machine.
func everywhere(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }

// CloseUnused closes the inherited sockets that no Listen has asked for, and returns their addresses: a client that
// connects there would wait for ever.
func (s *Sockets) CloseUnused() (addresses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.unused {
		addresses = append(addresses, i.Addr().String())
		_ = i.Close()
	}
	s.unused = nil
	return addresses
}

// A listener is a socket that Listen has returned.
type listener struct {
	net.Listener
	description

	sockets *Sockets
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.sockets.forget(l)
	return l.Listener.Close()
}

// unlink says whether Close removes the path of a unix socket.
func (l *listener) unlink(on bool) { //nolint:revive // the parameter is the state
	if u, ok := l.Listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(on)
	}
}

func (s *Sockets) forget(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(o *listener) bool { return o == l })
}

// giveUp leaves the paths of unix sockets to the successor.
func (s *Sockets) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.open {
		l.unlink(false)
	}
}

// own lets this process remove the paths of its unix sockets.
func (s *Sockets) own() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.former.over = true
	for _, l := range s.open {
		l.unlink(!l.Kept)
	}
}

// files returns duplicates of all sockets, with the letter about them.
func (s *Sockets) files() (files []*os.File, about string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := letter{From: os.Getpid()}
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	for _, o := range s.open {
		of, ok := o.Listener.(interface{ File() (*os.File, error) })
		if !ok {
			return files, "", fmt.Errorf("%s can't be handed over", o.Name)
		}
		f, err := of.File()
		if err != nil {
			return files, "", err
		}
		files, l.Sockets = append(files, f), append(l.Sockets, o.description)
	}
	text, err := json.Marshal(l)
	return files, Variable + "=" + string(text), err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// A Former is the process whose place this one takes.
type Former struct {
	sockets       *Sockets
	ready, yields *os.File
	over          bool // it has yielded or ended; guarded by sockets.mu
}

// Ready tells the former process that this one can take its place.
func (f *Former) Ready() error {
	defer f.ready.Close()
	_, err := f.ready.WriteString(strconv.Itoa(os.Getpid()))
	return err
}

// Yields waits until the former process gives its place up, which it does after Ready. An error means that it ended
// before.
func (f *Former) Yields() error {
	_, err := f.yields.Read(make([]byte, 1))
	f.sockets.own()
	return err
}

// Ended waits until the former process has ended.
func (f *Former) Ended() {
	for {
		if _, err := f.yields.Read(make([]byte, 1)); err != nil {
			return
		}
	}
}
