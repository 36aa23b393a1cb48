package server

import (
	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/command"
)

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

// Client returns the client with which the server's own commands wait, or nil in front of a pool that
// refuses these commands. It is the server's, which closes it in front of a pool.
func (s *Server) Client() *redoubt.Client { return s.opts.Client }

// Decisions returns what the commands of rate limits have decided here: see [command.Env.Decisions].
func (s *Server) Decisions() (all command.Decided, names map[string]command.Decided) {
	if s.env == nil {
		return all, nil
	}
	return s.env.Decisions()
}

// Permits reports whether a user may run a command, one of Redis or of Redoubt's own, whose name is first.
func Permits(u *acl.User, args ...string) bool {
	if u.MayAll() {
		return true
	}
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	rights := acl.Lookup(args[0])
	if rights == nil {
		return false
	}
	if rights = rights.Of(raw); rights == nil {
		return false
	}
	if own := command.Lookup(args[0]); own != nil {
		return u.Refuses(rights, raw, own.Keys(len(raw))) == ""
	}
	k := lookupKeys(raw[0])
	if k == nil {
		return false
	}
	at, ok := k.positions(nil, raw)
	return ok && u.Refuses(rights, raw, at) == ""
}
