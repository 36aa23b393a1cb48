package poolfile

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/redoubt-go/redoubt/internal/acl"
)

// ownDirectives are Redoubt's own directives: nutcracker refuses a file with one.
var ownDirectives = []string{
	"listen_also", "listen_tls_cert", "listen_tls_key", "listen_tls_ca", "users", "aclfile", "replicas", "timeouts",
	"server_tls", "server_tls_ca", "server_tls_cert", "server_tls_key", "server_tls_name", "server_user",
	"sentinels", "sentinel_masters", "sentinel_user", "sentinel_password", "sentinel_tls",
	"cluster",
}

// A ListenTLS names the files for TLS with clients. Without Cert clients use plain text.
type ListenTLS struct {
	Cert, Key string
	CA        string // authorities that sign clients' certificates; empty: clients need no certificate
}

// A ServerTLS configures TLS with the servers.
type ServerTLS struct {
	Enabled   bool
	CA        string // file of authorities that sign the servers' certificates; empty: the system's
	Cert, Key string // files of the client certificate; empty: none
	Name      string // in the servers' certificates; empty: the host of each server
}

// A Replica is a replica of a server of a pool.
type Replica struct {
	Address string // for net.Dial with tcp
	Of      string // the server's name
	Line    int
}

// A User is a user of a pool.
type User struct {
	Name  string
	Rules string // of Redis' ACL
	Line  int
}

// own reads a directive of Redoubt's own.
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
	case "aclfile":
		pool.ACLFile = value
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

// users reads the users of a pool.
func (p *parser) users(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "users, each after a dash") {
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
				p.warn(n.Line, "pool %q: user %q may run scripts, and the pool checks only the keys that these declare; -@scripting forbids scripts", pool.Name, u.Name)
			}
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive \"users\" is empty")
	}
}

// parseUser reads a user: a name and a password for a user with all rights, or a line as in Redis' ACL files
// and ACL LIST. escapes is the result of User.EscapesByScripts. The error never shows a password.
func parseUser(n *yaml.Node) (u User, escapes bool, fault string) {
	u.Line = n.Line
	name, rest, _ := strings.Cut(n.Value, " ")
	switch {
	case strings.HasPrefix(n.LineComment, "#") && !strings.HasPrefix(n.LineComment, "# "):
		return u, false, "has a user with a rule that begins with #, which starts a comment in YAML; put the user in quotes"
	case name == "" || rest == "":
		return u, false, `has an invalid "name password" or "user name rules" format string`
	case name != "user":
		u.Name, u.Rules = name, acl.AlmightyRules(rest)
		return u, false, ""
	}
	u.Name, u.Rules, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if u.Rules == "" {
		return u, false, `has "user" and only a name; want "user name rules"`
	}
	user, err := acl.New(u.Name, u.Rules)
	if err != nil {
		return u, false, fmt.Sprintf("has the user %q: %s", u.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return u, user.EscapesByScripts(), ""
}

// ParseACLFile returns the users of an ACL file of Redis, and the names of those limited users that may run scripts.
// Errors name the file and the line, and show no password.
func ParseACLFile(path string, text []byte) (users []User, scripted []string, err error) {
	rules, scripted, err := acl.ParseFile(path, string(text))
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		users = append(users, User{Name: name, Rules: rules[name]})
	}
	return users, scripted, err
}

// listenAlso reads more addresses for clients.
func (p *parser) listenAlso(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "addresses, each after a dash") {
		return
	}
	for _, n := range v.Content {
		if !p.plain(n, yaml.ScalarNode, "an address, as in listen") {
			continue
		}
		l, err := parseListen(n.Value)
		if err != "" {
			p.fail(n.Line, "directive \"listen_also\" %s: %q", err, n.Value)
			continue
		}
		pool.Listen = append(pool.Listen, l)
	}
}

// replicas reads the replicas of the servers.
func (p *parser) replicas(pool *Pool, v *yaml.Node) {
	if v.Kind == yaml.ScalarNode && v.Value == "sentinel" {
		pool.Sentinel.Replicas = true
		return
	}
	if !p.plain(v, yaml.SequenceNode, "replicas, each after a dash, or \"sentinel\"") {
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
		p.fail(v.Line, "directive \"replicas\" is empty")
	}
}

// timeouts reads the timeouts of single commands.
func (p *parser) timeouts(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "timeouts, each after a dash") {
		return
	}
	pool.Timeouts = make(map[string]time.Duration)
	for _, n := range v.Content {
		if !p.plain(n, yaml.ScalarNode, `a timeout, as "command milliseconds"`) {
			continue
		}
		name, number, _ := strings.Cut(n.Value, " ")
		name = strings.ToLower(name)
		ms, err := parseNumber(number)
		switch _, twice := pool.Timeouts[name]; {
		case err != "":
			p.fail(n.Line, "directive \"timeouts\" has an invalid \"command milliseconds\" format string: %q", n.Value)
		case acl.Lookup(name) == nil || strings.Contains(name, "|"):
			p.fail(n.Line, "directive \"timeouts\" has the unknown command %q", name)
		case twice:
			p.fail(n.Line, "directive \"timeouts\" has %q twice", name)
		case ms == 0:
			pool.Timeouts[name] = -1
		default:
			pool.Timeouts[name] = time.Duration(ms) * time.Millisecond
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive \"timeouts\" is empty")
	}
}

// checkOwn refuses directives that exclude each other. lines has the line of each directive.
func (p *parser) checkOwn(pool *Pool, lines map[string]int) {
	needs := func(directive, what string, fine bool) {
		if lines[directive] != 0 && !fine {
			p.fail(lines[directive], "directive %q needs %s beside it", directive, what)
		}
	}
	needs("listen_tls_cert", "listen_tls_key", pool.ListenTLS.Key != "")
	needs("listen_tls_key", "listen_tls_cert", pool.ListenTLS.Cert != "")
	needs("listen_tls_ca", "listen_tls_cert", pool.ListenTLS.Cert != "")
	for i, l := range pool.Listen {
		if slices.ContainsFunc(pool.Listen[:i], l.Overlaps) {
			p.fail(lines["listen_also"], "directive \"listen_also\" has an address twice, or has the one of listen: %q", l.Address)
		}
	}
	unix := slices.ContainsFunc(pool.Listen, func(l Listen) bool { return l.Network == "unix" })
	needs("listen_tls_cert", `listen and listen_also with "hostname:port"`, !unix)
	for _, d := range []string{"server_tls_ca", "server_tls_cert", "server_tls_key", "server_tls_name"} {
		needs(d, "server_tls: true", pool.ServerTLS.Enabled || pool.Sentinel.TLS)
	}
	needs("server_tls_cert", "server_tls_key", pool.ServerTLS.Key != "")
	needs("server_tls_key", "server_tls_cert", pool.ServerTLS.Cert != "")
	needs("server_user", "redis_auth", pool.RedisAuth != "")
	needs("users", "redis: true", pool.Redis)
	needs("aclfile", "redis: true", pool.Redis)
	if lines["users"] != 0 && lines["aclfile"] != 0 {
		p.fail(lines["aclfile"], "directive \"users\" and directive \"aclfile\" exclude each other")
	}
	if pool.RedisAuth != "" && slices.ContainsFunc(pool.Users, func(u User) bool { return u.Name == "default" }) {
		p.fail(lines["users"], "directive \"users\" has the user \"default\", but directive \"redis_auth\" sets the password of that user")
	}
	needs("replicas", "redis: true", pool.Redis)
	needs("timeouts", "redis: true", pool.Redis)
	for _, r := range pool.Replicas {
		if !slices.ContainsFunc(pool.Servers, func(s Server) bool { return s.Name == r.Of }) {
			p.fail(r.Line, "directive \"replicas\" has a replica of %q, but pool %q has no such server", r.Of, pool.Name)
		}
	}
	for _, s := range pool.Servers {
		if pool.ServerTLS.Enabled && s.Network == "unix" {
			p.fail(s.Line, "server %q is a unix socket, but directive \"server_tls\" needs \"hostname:port\"", s.Name)
		}
	}
	p.checkSentinels(pool, lines, needs)
	p.checkCluster(pool, lines, needs)
}
