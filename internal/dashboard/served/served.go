// Package served makes a [dashboard.Source] of a server that this process runs.
//
//	source := served.Source("redis", dashboard.KindRedis, srv, started)
//
// The users of the server are the users of the source, with their rights.
package served

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/server"
)

// Source returns the source of a server that was started at a time.
func Source(name, kind string, srv *server.Server, started time.Time) dashboard.Source {
	return dashboard.Source{
		Name: name, Kind: kind, Of: srv, Client: srv.Client(), Users: users{srv},
		Counts: func() dashboard.Counts {
			st := srv.Stats()
			c := dashboard.Counts{Clients: st.Clients, Errors: st.BackendErrors, BytesIn: st.BytesIn, BytesOut: st.BytesOut, Started: started}
			for _, n := range st.Commands {
				c.Commands += n
			}
			return c
		},
		Limits: func() dashboard.LimitCounts {
			all, names := srv.Decisions()
			c := dashboard.LimitCounts{Allowed: all.Allowed, Denied: all.Denied, Names: make(map[string]dashboard.LimitCount, len(names))}
			for name, n := range names {
				c.Names[name] = dashboard.LimitCount(n)
			}
			return c
		},
	}
}

// users are the users of a server.
type users struct{ srv *server.Server }

// Login implements dashboard.Users.
func (u users) Login(name, password string) (dashboard.User, bool) {
	found := u.srv.Login(name, password)
	if found == nil {
		return nil, false
	}
	return user{found}, !found.Open()
}

// Open implements dashboard.Users.
func (u users) Open() dashboard.User {
	if found := u.srv.OpenUser(); found != nil {
		return user{found}
	}
	return nil
}

// A user has the rights of a user of the server.
type user struct{ *acl.User }

// May implements dashboard.User.
func (u user) May(args ...string) bool { return server.Permits(u.User, args...) }

// Writes implements dashboard.User: the rights decide.
func (u user) Writes() bool { return true }

// Password returns the users of a source without users of its own: one with a password, or one who needs
// none.
func Password(password string) dashboard.Users { return dashboard.OneUser("default", password, true) }
