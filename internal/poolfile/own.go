package poolfile

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/redoubt-go/redoubt/internal/acl"
)

// ownDirectives are those of Redoubt alone: nutcracker refuses a file with one.
var ownDirectives = []string{
	"listen_tls_cert", "listen_tls_key", "listen_tls_ca", "users", "replicas", "timeouts",
	"server_tls", "server_tls_ca", "server_tls_cert", "server_tls_key", "server_tls_name", "server_user",
	"sentinels", "sentinel_masters", "sentinel_user", "sentinel_password", "sentinel_tls",
	"cluster",
}

// A ListenTLS names the files for TLS with the clients. Without Cert there is none.
type ListenTLS struct {
	Cert, Key string
	CA        string // of the certificates that clients must have; empty: none need one
}

// A ServerTLS says whether and how TLS is spoken with the servers.
type ServerTLS struct {
	Enabled   bool
	CA        string // file of those that sign the servers' certificates; empty: the system's
	Cert, Key string // files of what the servers are shown; empty: nothing
	Name      string // that the servers' certificates are for; empty: the host of each
}

// A Replica is one of a server of a pool.
type Replica struct {
	Address string // as net.Dial takes it, for tcp
	Of      string // the server's name
	Line    int
}

// A User is who may use a pool.
type User struct {
	Name  string
	Rules string // of Redis' ACL
	Line  int
}

// own reads a directive that is Redoubt's own.
func (p *parser) own(pool *Pool, directive, value string) (err string) {
	boolean := func(to *bool) string {
		if value != "true" && value != "false" {
			return `is not "true" or "false"`
		}
		*to = value == "true"
		return ""
	}
	switch directive {
	case "server_tls":
		return boolean(&pool.ServerTLS.Enabled)
	case "sentinel_tls":
		return boolean(&pool.Sentinel.TLS)
	case "listen_tls_cert":
		pool.ListenTLS.Cert = value
	case "listen_tls_key":
		pool.ListenTLS.Key = value
	case "listen_tls_ca":
		pool.ListenTLS.CA = value
	case "server_tls_ca":
		pool.ServerTLS.CA = value
	case "server_tls_cert":
		pool.ServerTLS.Cert = value
	case "server_tls_key":
		pool.ServerTLS.Key = value
	case "server_tls_name":
		pool.ServerTLS.Name = value
	case "server_user":
		pool.ServerUser = value
	case "sentinel_user":
		pool.Sentinel.User = value
	case "sentinel_password":
		pool.Sentinel.Password = value
	}
	if value == "" {
		return "is empty"
	}
	return ""
}

// users reads who may use a pool.
func (p *parser) users(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "users, each behind a dash") {
		return
	}
	for _, n := range v.Content {
		if !p.plain(n, yaml.ScalarNode, `a user, as "name password" or "user name rules"`) {
			continue
		}
		u, escapes, fault := parseUser(n)
		switch {
		case fault != "":
			p.fail(n.Line, "directive \"users\" %s", fault)
		case slices.ContainsFunc(pool.Users, func(o User) bool { return o.Name == u.Name }):
			p.fail(n.Line, "pool %q has users with same name %q", pool.Name, u.Name)
		default:
			pool.Users = append(pool.Users, u)
			if escapes {
				p.warn(n.Line, "pool %q: user %q may run scripts, and what they do, but for the keys that they declare, is not looked at; -@scripting forbids them", pool.Name, u.Name)
			}
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive \"users\" names none")
	}
}

// parseUser reads a user: a name and a password, who may do all, or a line as Redis' ACL
// files and ACL LIST have it. escapes is User.EscapesByScripts. What may be a password is not
// in the error.
func parseUser(n *yaml.Node) (u User, escapes bool, fault string) {
	u.Line = n.Line
	name, rest, _ := strings.Cut(n.Value, " ")
	switch {
	case strings.HasPrefix(n.LineComment, "#") && !strings.HasPrefix(n.LineComment, "# "):
		return u, false, "has a user with a rule that YAML takes for a comment, since it begins with #; want the user in quotes"
	case name == "" || rest == "":
		return u, false, `has an invalid "name password" or "user name rules" format string`
	case name != "user":
		u.Name, u.Rules = name, acl.AlmightyRules(rest)
		return u, false, ""
	}
	u.Name, u.Rules, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if u.Rules == "" {
		return u, false, `has "user" and one word behind it; want rules behind that, as "user name rules"`
	}
	user, err := acl.New(u.Name, u.Rules)
	if err != nil {
		return u, false, fmt.Sprintf("has the user %q: %s", u.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return u, user.EscapesByScripts(), ""
}

// replicas reads which servers have replicas.
func (p *parser) replicas(pool *Pool, v *yaml.Node) {
	if v.Kind == yaml.ScalarNode && v.Value == "sentinel" {
		pool.Sentinel.Replicas = true
		return
	}
	if !p.plain(v, yaml.SequenceNode, "replicas, each behind a dash, or \"sentinel\"") {
		return
	}
	for _, n := range v.Content {
		const format = `"hostname:port name" format string, with the name of a server`
		if !p.plain(n, yaml.ScalarNode, `a replica, as "hostname:port name"`) {
			continue
		}
		addr, of, named := strings.Cut(n.Value, " ")
		host, port, found := cutLast(addr, ":")
		r := Replica{net.JoinHostPort(host, port), of, n.Line}
		switch {
		case !named || !found || !isPort(port):
			p.fail(n.Line, "directive \"replicas\" has an invalid %s: %q", format, n.Value)
		case slices.ContainsFunc(pool.Replicas, func(o Replica) bool { return o.Address == r.Address && o.Of == r.Of }):
			p.fail(n.Line, "directive \"replicas\" has %q twice", n.Value)
		default:
			pool.Replicas = append(pool.Replicas, r)
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive \"replicas\" names none")
	}
}

// timeouts reads which commands have another time-out.
func (p *parser) timeouts(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "time-outs, each behind a dash") {
		return
	}
	pool.Timeouts = make(map[string]time.Duration)
	for _, n := range v.Content {
		if !p.plain(n, yaml.ScalarNode, `a time-out, as "command milliseconds"`) {
			continue
		}
		name, number, _ := strings.Cut(n.Value, " ")
		name = strings.ToLower(name)
		ms, err := parseNumber(number)
		switch _, twice := pool.Timeouts[name]; {
		case err != "":
			p.fail(n.Line, "directive \"timeouts\" has an invalid \"command milliseconds\" format string: %q", n.Value)
		case acl.Lookup(name) == nil || strings.Contains(name, "|"):
			p.fail(n.Line, "directive \"timeouts\" has the command %q, and there is none of that name", name)
		case twice:
			p.fail(n.Line, "directive \"timeouts\" has %q twice", name)
		case ms == 0:
			pool.Timeouts[name] = -1
		default:
			pool.Timeouts[name] = time.Duration(ms) * time.Millisecond
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive \"timeouts\" names none")
	}
}

// checkOwn finds what doesn't go together. lines are those of the directives.
func (p *parser) checkOwn(pool *Pool, lines map[string]int) {
	needs := func(directive, what string, fine bool) {
		if lines[directive] != 0 && !fine {
			p.fail(lines[directive], "directive %q needs %s beside it", directive, what)
		}
	}
	needs("listen_tls_cert", "listen_tls_key", pool.ListenTLS.Key != "")
	needs("listen_tls_key", "listen_tls_cert", pool.ListenTLS.Cert != "")
	needs("listen_tls_ca", "listen_tls_cert", pool.ListenTLS.Cert != "")
	needs("listen_tls_cert", `listen with "hostname:port"`, pool.Network != "unix")
	for _, d := range []string{"server_tls_ca", "server_tls_cert", "server_tls_key", "server_tls_name"} {
		needs(d, "server_tls: true", pool.ServerTLS.Enabled || pool.Sentinel.TLS)
	}
	needs("server_tls_cert", "server_tls_key", pool.ServerTLS.Key != "")
	needs("server_tls_key", "server_tls_cert", pool.ServerTLS.Cert != "")
	needs("server_user", "redis_auth", pool.RedisAuth != "")
	needs("users", "redis: true", pool.Redis)
	if pool.RedisAuth != "" && slices.ContainsFunc(pool.Users, func(u User) bool { return u.Name == "default" }) {
		p.fail(lines["users"], "directive \"users\" has the user \"default\", whose password is that of directive \"redis_auth\"")
	}
	needs("replicas", "redis: true", pool.Redis)
	needs("timeouts", "redis: true", pool.Redis)
	for _, r := range pool.Replicas {
		if !slices.ContainsFunc(pool.Servers, func(s Server) bool { return s.Name == r.Of }) {
			p.fail(r.Line, "directive \"replicas\" has a replica of %q, and pool %q has no such server", r.Of, pool.Name)
		}
	}
	for _, s := range pool.Servers {
		if pool.ServerTLS.Enabled && s.Network == "unix" {
			p.fail(s.Line, "server %q is a unix socket, and directive \"server_tls\" is for \"hostname:port\" alone", s.Name)
		}
	}
	p.checkSentinels(pool, lines, needs)
	p.checkCluster(pool, lines, needs)
}
