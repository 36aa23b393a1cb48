package poolfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Sentinel says which Sentinels know where the servers of a pool are, and how they are
// asked. Without Addresses there are none.
type Sentinel struct {
	Addresses      []string // as net.Dial takes them, for tcp
	Masters        []Master // of the servers that they call otherwise
	User, Password string   // empty: default, none
	TLS            bool     // with the files of ServerTLS
	Replicas       bool     // the Sentinels name replicas to read from, too
}

// A Master is how the Sentinels call a server.
type Master struct {
	Name string
	Of   string // the server's name
	Line int
}

// MasterOf returns how the Sentinels call a server of the pool.
func (pool *Pool) MasterOf(server string) string {
	for _, m := range pool.Sentinel.Masters {
		if m.Of == server {
			return m.Name
		}
	}
	return server
}

// sentinels reads where the Sentinels are.
func (p *parser) sentinels(pool *Pool, v *yaml.Node) {
	pool.Sentinel.Addresses = p.addresses("sentinels", "Sentinel", v)
}

// sentinelMasters reads how the Sentinels call servers.
func (p *parser) sentinelMasters(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "masters, each behind a dash") {
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
			p.fail(n.Line, "directive \"sentinel_masters\" has an invalid \"master name\" format string, with the name that the Sentinels have for it and that of a server: %q", n.Value)
		case slices.ContainsFunc(pool.Sentinel.Masters, func(o Master) bool { return o.Name == m.Name || o.Of == m.Of }):
			p.fail(n.Line, "directive \"sentinel_masters\" has the master or the server of %q twice", n.Value)
		default:
			pool.Sentinel.Masters = append(pool.Sentinel.Masters, m)
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive \"sentinel_masters\" names none")
	}
}

// isMasterName reports whether Sentinels take a name.
func isMasterName(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	return s != "" && !strings.ContainsFunc(s, other)
}

// checkSentinels finds what doesn't go together. lines are those of the directives, and
// needs says that one needs something beside it.
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
			p.fail(m.Line, "directive \"sentinel_masters\" has a master for %q, and pool %q has no such server", m.Of, pool.Name)
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
			p.fail(s.Line, "no Sentinel knows a server by the name %q: say in directive \"sentinel_masters\" which master it is", s.Name)
		case twice:
			p.fail(s.Line, "servers %q and %q are the same master %q", other, s.Name, m)
		}
		masters[m] = s.Name
	}
	if pool.AutoEjectHosts && len(pool.Servers) > 1 {
		p.warn(lines["auto_eject_hosts"], "pool %q: with auto_eject_hosts, keys may go to other servers while the Sentinels make a replica the master", pool.Name)
	}
}
