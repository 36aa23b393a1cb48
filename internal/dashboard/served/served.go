// Package served makes a [dashboard.Source] of a server that this process runs.
//
//	source := served.Source("redis", dashboard.KindRedis, served.URL(listener.Addr(), encrypted), srv, started)
//
// The users of the server are the users of the source, with their rights.
package served

import (
	"net"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/server"
)

// Source returns the source of a server that was started at a time. Its clients come in at the URL.
func Source(name, kind, url string, srv *server.Server, started time.Time) dashboard.Source {
	return dashboard.Source{
		Name: name, Kind: kind, URL: url, Of: srv, Client: srv.Client(), Users: users{srv},
		Counts: func() dashboard.Counts {
			st := srv.Stats()
			c := dashboard.Counts{Clients: st.Clients, Errors: st.BackendErrors, BytesIn: st.BytesIn, BytesOut: st.BytesOut, Started: started}
			for _, n := range st.Commands {
				c.Commands += n
			}
			return c
		},
		Limits: func() dashboard.LimitCounts {
			d := srv.Decisions()
			return dashboard.LimitCounts{Allowed: d.All.Allowed, Denied: d.All.Denied, Names: limitCounts(d.Names), Keys: limitCounts(d.Keys)}
		},
		Filters: func() map[string]dashboard.FilterCounts {
			all := map[string]dashboard.FilterCounts{}
			for key, n := range srv.Filters() {
				all[key] = dashboard.FilterCounts(n)
			}
			return all
		},
		Takers: srv.Takers,
	}
}

// URL returns where the clients of a listener come in, like redis://127.0.0.1:6380, or as --listen has it for TLS on a
// unix socket. tls: they speak TLS.
func URL(a net.Addr, tls bool) string { //nolint:revive // it says which scheme
	switch {
	case a.Network() == "unix" && tls:
		return "tls://unix:" + a.String()
	case a.Network() == "unix":
		return "unix://" + a.String()
	case tls:
		return "rediss://" + a.String()
	}
	return "redis://" + a.String()
}

func limitCounts(of map[string]command.Decided) map[string]dashboard.LimitCount {
	all := make(map[string]dashboard.LimitCount, len(of))
	for name, n := range of {
		all[name] = dashboard.LimitCount(n)
	}
	return all
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
