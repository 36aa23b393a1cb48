package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// users are the users that clients may log in as.
type users struct {
	byName map[string]*account
	// standard is the user of AUTH with a password alone. Clients are this user before AUTH if it
	// needs no password. nil: there is none.
	standard *account
}

// An account is a user that ACL SETUSER may change while clients are logged in. They have the new rights at once.
type account struct{ now atomic.Pointer[acl.User] }

func newAccount(u *acl.User) *account {
	a := new(account)
	a.now.Store(u)
	return a
}

// user returns the user as it is now. nil is the user of no account.
func (a *account) user() *acl.User {
	if a == nil {
		return nil
	}
	return a.now.Load()
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
		if o.user().Open() {
			return fmt.Errorf("%w: set one, or listen on 127.0.0.1 instead of %s", ErrExposed, address)
		}
	}
	return nil
}

// parseUsers makes the users that the options say.
func (o *Options) parseUsers() (*users, error) {
	u := &users{byName: make(map[string]*account)}
	standard := cmp.Or(o.Username, "default")
	var errs []error
	switch {
	case o.Password != "":
		u.byName[standard] = newAccount(withPassword(standard, o.Password))
		if _, twice := o.Users[standard]; twice {
			errs = append(errs, fmt.Errorf("server: user %q is both in Users and the user of Password: leave out one", standard))
		}
	case len(o.Users) == 0:
		u.byName[standard] = newAccount(withPassword(standard, ""))
	}
	for name, rules := range o.Users {
		user, err := acl.New(name, rules)
		if err != nil {
			errs = append(errs, fmt.Errorf("server: user %q: %w", name, err))
		}
		u.byName[name] = newAccount(user)
	}
	u.standard = u.byName[standard]
	return u, errors.Join(errs...)
}

// withPassword returns a user who may do all, without a password if it is empty.
func withPassword(name, password string) *acl.User {
	if password == "" {
		return acl.Anybody(name)
	}
	return acl.Almighty(name, password)
}

// open reports whether clients need no password.
func (u *users) open() bool { return u.standard != nil && u.standard.user().Open() }

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
	if err := s.storeUsers(func(was *users) (*users, error) {
		if o.Password != "" { // CONFIG SET may have changed it
			u.byName[s.standardUser()] = newAccount(withPassword(s.standardUser(), *s.required.Load()))
		}
		for name, a := range u.byName {
			if same := was.byName[name]; same != nil && same.user().Same(a.user()) {
				u.byName[name] = same
			}
		}
		u.standard = u.byName[s.standardUser()]
		return u, nil
	}); err != nil {
		return err
	}
	s.dismiss(patience)
	return nil
}

// dismiss closes the clients whose user is no longer there.
func (s *Server) dismiss(patience time.Duration) {
	others := s.dismissed()
	for _, c := range others {
		c.drain(ErrClosed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(others) == 0 || s.closed {
		return
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
}

// storeUsers sets the users that change makes of the present ones, unless a listener may not have them.
func (s *Server) storeUsers(change func(was *users) (*users, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := change(s.users.Load())
	if err != nil {
		return err
	}
	for l := range s.listeners {
		if err := u.mayListen(l.Addr(), l.Addr().String()); err != nil {
			return err
		}
	}
	s.users.Store(u)
	return nil
}

// setUser changes a user or adds one, by rules as for ACL SETUSER. Redis closes the clients that listen to a channel
// that the user has lost; this closes all of the user's that listen to any. Unless the user may do all now, it also
// closes those with commands behind one that waits: they were checked by the rights that the user had.
func (s *Server) setUser(by *session, name string, rules []string) error {
	if !acl.ValidName(name) {
		return errors.New("ERR Usernames can't contain spaces or null characters")
	}
	deaf, err := s.changeUser(name, rules)
	for _, c := range deaf {
		if c == by {
			c.quit = true // with its reply
		} else {
			c.kill(ErrClosed)
		}
	}
	return err
}

// changeUser is setUser, and returns the clients to close.
func (s *Server) changeUser(name string, rules []string) (deaf []*session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.users.Load()
	a := was.byName[name]
	old := a.user()
	if old == nil {
		if old, err = acl.New(name, ""); err != nil {
			return nil, err
		}
	}
	u, err := old.With(rules)
	if err != nil {
		return nil, err
	}
	if err := s.mayOpen(old, u); err != nil {
		return nil, fmt.Errorf("ERR %w", err)
	}
	if a == nil {
		byName := maps.Clone(was.byName)
		byName[name] = newAccount(u)
		s.users.Store(&users{byName: byName, standard: byName[s.standardUser()]})
		return nil, nil
	}
	a.now.Store(u)
	hears := u.HearsAllOf(old)
	for _, c := range s.sessions {
		if c.info.get().account == a && (!hears && c.route.holdings().subscribed() || !u.MayAll() && directOf(c).own.Load() != nil && c.sent.Load() > c.out.head.Load()+1) {
			deaf = append(deaf, c)
		}
	}
	return deaf, nil
}

// mayOpen returns an error if u is old, or a new user, without its password, and other machines can reach a listener.
// s.mu is held.
func (s *Server) mayOpen(old, u *acl.User) error {
	if !u.Open() || old.Open() {
		return nil
	}
	for l := range s.listeners {
		if socket.Exposed(l.Addr()) {
			return fmt.Errorf("redoubt: user '%s' would need no password, and other machines can reach %s; give the user a password", u.Name(), l.Addr())
		}
	}
	return nil
}

// requirePassword gives the standard user this password and no other, or none if it is empty. Clients stay logged in.
func (s *Server) requirePassword(password string) error {
	rules := []string{"resetpass", "nopass"}
	if password != "" {
		rules[1] = ">" + password
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.users.Load().standard
	if a == nil {
		return fmt.Errorf("redoubt: there is no user '%s'; ACL SETUSER adds it", s.standardUser())
	}
	old := a.user()
	u, err := old.With(rules)
	if err != nil {
		return errors.New("redoubt: this can't be a password") // err may show it
	}
	if err := s.mayOpen(old, u); err != nil {
		return err
	}
	a.now.Store(u)
	s.required.Store(&password)
	return nil
}

func (s *Server) standardUser() string { return cmp.Or(s.opts.Username, "default") }

// removeUsers removes users, closes their clients at once, and returns how many there were. A client that removes its
// own user has its reply first.
func (s *Server) removeUsers(by *session, names []string) (n int) {
	s.mu.Lock()
	byName := maps.Clone(s.users.Load().byName)
	for _, name := range names {
		if byName[name] != nil {
			delete(byName, name)
			n++
		}
	}
	s.users.Store(&users{byName: byName, standard: byName[s.standardUser()]})
	s.mu.Unlock()
	for _, c := range s.dismissed() {
		if c == by {
			c.quit = true
		} else {
			c.kill(ErrClosed)
		}
	}
	return n
}

// dismissed returns the clients whose user is no longer there.
func (s *Server) dismissed() []*session {
	u := s.users.Load()
	return slices.DeleteFunc(s.clients(), func(c *session) bool {
		a := c.info.get().account
		return a == nil || u.byName[a.user().Name()] == a
	})
}

// lines are the users as in an ACL file.
func (u *users) lines() (lines []string) {
	for _, name := range u.names() {
		lines = append(lines, u.byName[name].user().Line())
	}
	return lines
}

// loadUsers replaces the users by the users of the file.
func (s *Server) loadUsers() error {
	file := s.opts.UserFile
	text, err := os.ReadFile(file) //nolint:gosec // the operator's
	if err != nil {
		return err
	}
	rules, _, err := acl.ParseFile(file, string(text))
	if err != nil {
		return err
	}
	return s.SetUsers(rules, time.Second)
}

// saveUsers writes the users to the file, all or nothing.
func (s *Server) saveUsers() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	file := s.opts.UserFile
	mode := os.FileMode(0o600)
	if is, err := os.Stat(file); err == nil {
		mode = is.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.new")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // which is not there any more if all went well
	_, err = f.WriteString(strings.Join(s.users.Load().lines(), "\n") + "\n")
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

var nobody = acl.Nobody()

// Login returns the user with a name and a password, for another door than the listener, or nil. It takes
// as long for a wrong name as for a wrong password.
func (s *Server) Login(name, password string) *acl.User {
	u := s.users.Load().byName[name].user()
	if u == nil {
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
		return u.standard.user()
	}
	return nil
}

// knows reports whether there is a user, or a client that is this user of the back end.
func (s *Server) knows(user string) bool {
	return s.users.Load().byName[user] != nil ||
		slices.ContainsFunc(s.clients(), func(c *session) bool { return userOf(c) == user })
}
