package poolfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Sentinel configures the Sentinels that know the addresses of a pool's servers. Without Addresses the pool
// uses none.
type Sentinel struct {
	Addresses      []string // for net.Dial with tcp
	Masters        []Master // of servers whose master has another name
	User, Password string   // empty: the default user, no password
	TLS            bool     // with the files of ServerTLS
	Replicas       bool     // read from replicas that the Sentinels name
}

// A Master is the Sentinels' name of a server.
type Master struct {
	Name string
	Of   string // the server's name
	Line int
}

// MasterOf returns the Sentinels' name of a server of the pool.
func (pool *Pool) MasterOf(server string) string {
	for _, m := range pool.Sentinel.Masters {
		if m.Of == server {
			return m.Name
		}
	}
	return server
}

// sentinels reads the addresses of the Sentinels.
func (p *parser) sentinels(pool *Pool, v *yaml.Node) {
	pool.Sentinel.Addresses = p.addresses("sentinels", "Sentinel", v)
}

// sentinelMasters reads the Sentinels' names of servers.
func (p *parser) sentinelMasters(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "masters, each after a dash") {
		return
	}
	for _, n := range v.Content {
		if !p.plain(n, yaml.ScalarNode, `a master, as "master name"`) {
			continue
		}
		name, of, _ := strings.Cut(n.Value, " ")
		m := Master{name, of, n.Line}
		switch {
		case !isMasterName(name) || of == "":
			p.fail(n.Line, "directive \"sentinel_masters\" has an invalid \"master name\" format string, with the Sentinels' name of the master and the name of a server: %q", n.Value)
		case slices.ContainsFunc(pool.Sentinel.Masters, func(o Master) bool { return o.Name == m.Name || o.Of == m.Of }):
			p.fail(n.Line, "directive \"sentinel_masters\" has the master or the server of %q twice", n.Value)
		default:
			pool.Sentinel.Masters = append(pool.Sentinel.Masters, m)
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive \"sentinel_masters\" is empty")
	}
}

// isMasterName reports whether Sentinel allows the name for a master.
func isMasterName(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	return s != "" && !strings.ContainsFunc(s, other)
}

// checkSentinels refuses directives that Sentinels exclude. lines has the line of each directive; needs reports
// a missing directive.
func (p *parser) checkSentinels(pool *Pool, lines map[string]int, needs func(directive, what string, fine bool)) {
	needs("sentinels", "redis: true", pool.Redis)
	for _, d := range []string{"sentinel_masters", "sentinel_user", "sentinel_password", "sentinel_tls"} {
		needs(d, "sentinels", lines["sentinels"] != 0)
	}
	needs("sentinel_user", "sentinel_password", pool.Sentinel.Password != "")
	if pool.Sentinel.Replicas {
		needs("replicas", "sentinels", lines["sentinels"] != 0)
	}
	for _, m := range pool.Sentinel.Masters {
		if !slices.ContainsFunc(pool.Servers, func(s Server) bool { return s.Name == m.Of }) {
			p.fail(m.Line, "directive \"sentinel_masters\" has a master for %q, but pool %q has no such server", m.Of, pool.Name)
		}
	}
	if lines["sentinels"] == 0 {
		return
	}
	masters := map[string]string{}
	for _, s := range pool.Servers {
		m := pool.MasterOf(s.Name)
		switch other, twice := masters[m]; {
		case !isMasterName(m):
			p.fail(s.Line, "%q can't be the name of a master: name its master in directive \"sentinel_masters\"", s.Name)
		case twice:
			p.fail(s.Line, "servers %q and %q are the same master %q", other, s.Name, m)
		}
		masters[m] = s.Name
	}
	if pool.AutoEjectHosts && len(pool.Servers) > 1 {
		p.warn(lines["auto_eject_hosts"], "pool %q: with auto_eject_hosts, keys may go to other servers while the Sentinels make a replica the master", pool.Name)
	}
}
