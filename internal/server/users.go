package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// users are the users that clients may log in as.
type users struct {
	byName map[string]*acl.User
	// standard is the user of AUTH with a password alone. Clients are this user before AUTH if it
	// needs no password. nil: there is none.
	standard *acl.User
}

// CheckListen returns the error with which [Server.Listen] would refuse an address for lack of a
// password, or the error in Password and Users. It uses nothing else of o, and opens nothing. The error
// for an address that other machines can reach matches [ErrExposed].
func (o Options) CheckListen(network, address string) error {
	u, err := o.parseUsers()
	if err != nil || network == "unix" {
		return err
	}
	if a, err := net.ResolveTCPAddr(network, address); err == nil {
		return u.mayListen(a, address)
	}
	return nil
}

// mayListen returns an error that matches [ErrExposed] if other machines can reach a, which the
// operator knows as address, and somebody may log in without a password.
func (u *users) mayListen(a net.Addr, address string) error {
	if !socket.Exposed(a) {
		return nil
	}
	for _, o := range u.byName {
		if o.Open() {
			return fmt.Errorf("%w: set one, or listen on 127.0.0.1 instead of %s", ErrExposed, address)
		}
	}
	return nil
}

// parseUsers makes the users that the options say.
func (o *Options) parseUsers() (*users, error) {
	u := &users{byName: make(map[string]*acl.User)}
	standard := cmp.Or(o.Username, "default")
	var errs []error
	switch {
	case o.Password != "":
		u.byName[standard] = acl.Almighty(standard, o.Password)
		if _, twice := o.Users[standard]; twice {
			errs = append(errs, fmt.Errorf("server: user %q is both in Users and the user of Password: leave out one", standard))
		}
	case len(o.Users) == 0:
		u.byName[standard] = acl.Anybody(standard)
	}
	for name, rules := range o.Users {
		user, err := acl.New(name, rules)
		if err != nil {
			errs = append(errs, fmt.Errorf("server: user %q: %w", name, err))
		}
		u.byName[name] = user
	}
	u.standard = u.byName[standard]
	return u, errors.Join(errs...)
}

// open reports whether clients need no password.
func (u *users) open() bool { return u.standard != nil && u.standard.Open() }

// Open reports whether clients need no password.
func (s *Server) Open() bool { return s.users.Load().open() }

// SetUsers replaces [Options.Users]. A client whose user is gone, or has other rules now, is closed as
// Shutdown closes it: once it has its replies, but at the latest when patience is over. Other clients
// notice nothing.
//
// After an error nothing has changed. The error matches [ErrExposed] if clients would need no password
// and other machines can reach the server.
func (s *Server) SetUsers(rules map[string]string, patience time.Duration) error {
	o := s.opts
	o.Users = rules
	u, err := o.parseUsers()
	if err != nil {
		return err
	}
	if err := s.storeUsers(u); err != nil {
		return err
	}
	var others []*session
	for _, c := range s.clients() {
		if was := c.info.get().user; was != nil && !was.Same(u.byName[was.Name()]) {
			c.drain(ErrClosed)
			others = append(others, c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(others) == 0 || s.closed {
		return nil
	}
	s.wg.Go(func() {
		select {
		case <-time.After(patience):
			for _, c := range others {
				c.kill(ErrClosed)
			}
		case <-s.ctx.Done(): // which ends them all
		}
	})
	return nil
}

// storeUsers sets the users, unless a listener may not have them.
func (s *Server) storeUsers(u *users) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if err := u.mayListen(l.Addr(), l.Addr().String()); err != nil {
			return err
		}
	}
	s.users.Store(u)
	return nil
}

var nobody = acl.Nobody()

// Login returns the user with a name and a password, for another door than the listener, or nil. It takes
// as long for a wrong name as for a wrong password.
func (s *Server) Login(name, password string) *acl.User {
	u, known := s.users.Load().byName[name]
	if !known {
		u = nobody
	}
	if !u.Admits([]byte(password)) {
		s.stats.authFailures.Add(1)
		return nil
	}
	return u
}

// OpenUser returns the user of clients that have not logged in, or nil if they need a password.
func (s *Server) OpenUser() *acl.User {
	if u := s.users.Load(); u.open() {
		return u.standard
	}
	return nil
}

// knows reports whether there is a user, or a client that is this user of the back end.
func (s *Server) knows(user string) bool {
	return s.users.Load().byName[user] != nil ||
		slices.ContainsFunc(s.clients(), func(c *session) bool { return userOf(c) == user })
}
