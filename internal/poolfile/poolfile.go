// Package poolfile reads twemproxy's configuration file: pools of servers, in YAML.
//
//	file, err := poolfile.Parse("nutcracker.yml", text)
//
// Keys, defaults, rules and the wording of errors are those in nutcracker 0.5, and there are directives of
// Redoubt's own. Each error names its line and what is allowed, and Parse returns all errors, not only the
// first. It accepts every file that nutcracker accepts, with these differences: client_connections is a limit,
// where nutcracker ignores it; a number must fit in 31 bits, and permissions must be octal, where nutcracker
// does not check.
package poolfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/settings"
)

// A File is the content of a file.
type File struct {
	// Pools are in the order of the file.
	Pools []Pool
	// Warnings are about settings that are allowed but probably mistakes.
	Warnings []string
}

// A Listen is an address for clients. Network and Address are the arguments of net.Listen.
type Listen struct {
	Network, Address string

	Perm uint32 // of a unix socket; 0: the default
}

// Overlaps reports whether only one of two addresses can be listened on: they are equal, or have the same port and
// one is for all hosts.
func (l Listen) Overlaps(o Listen) bool {
	host, port, _ := cutLast(l.Address, ":")
	host2, port2, _ := cutLast(o.Address, ":")
	return l.Address == o.Address || l.Network == "tcp" && o.Network == "tcp" && port == port2 && (everyHost(host) || everyHost(host2))
}

// everyHost reports whether a socket on host takes a port on all addresses of the machine.
func everyHost(host string) bool {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "" || err == nil && ip.IsUnspecified()
}

// A Pool is a group of servers that clients use as one, with the address for clients.
type Pool struct {
	Name string
	Line int // in the file

	Listen []Listen // of the directives listen and listen_also

	Hash         ring.Hash
	Distribution ring.Distribution
	HashTag      string

	Timeout                    time.Duration // of commands; negative: none
	Backlog, ClientConnections int
	Redis                      bool // false: memcached
	RedisAuth                  string
	RedisDB                    int
	TCPKeepalive, Reuseport    bool
	Preconnect, AutoEjectHosts bool
	ServerConnections          int
	ServerRetryTimeout         time.Duration
	ServerFailureLimit         int
	Servers                    []Server

	// Directives of Redoubt's own.
	ListenTLS  ListenTLS
	ServerTLS  ServerTLS
	ServerUser string // for RedisAuth at the servers; empty: default
	Users      []User // of clients, besides the user of RedisAuth
	ACLFile    string // has the Users; empty: the pool's own file has them
	Replicas   []Replica
	Sentinel   Sentinel
	Cluster    []string                 // nodes of a Redis Cluster, as for net.Dial, instead of Servers
	Timeouts   map[string]time.Duration // by the command's name in lower case; negative: none
}

// A Server is a server of a pool.
type Server struct {
	ring.Server
	// Network and Address are the arguments of net.Dial.
	Network, Address string
	Line             int
}

// ServersOf returns the servers for package ring.
func (pool *Pool) ServersOf() []ring.Server {
	servers := make([]ring.Server, len(pool.Servers))
	for i, s := range pool.Servers {
		servers[i] = s.Server
	}
	return servers
}

// An Error is an error in a line of a file.
type Error struct {
	File string
	Line int // 0: the file as a whole
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: conf: %s", e.File, e.Text)
	}
	return fmt.Sprintf("%s:%d: conf: %s", e.File, e.Line, e.Text)
}

// Parse reads the text of a file. name is the name of the file in errors. It returns all errors joined, each
// an *Error, in the order of their lines.
func Parse(name string, text []byte) (File, error) {
	p := parser{name: name}
	p.file(text)
	if len(p.errs) > 0 {
		slices.SortStableFunc(p.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
		errs := make([]error, len(p.errs))
		for i, e := range p.errs {
			errs[i] = e
		}
		return File{}, errors.Join(errs...)
	}
	return p.out, nil
}

type parser struct {
	name string
	out  File
	errs []*Error
}

func (p *parser) fail(line int, format string, args ...any) {
	p.errs = append(p.errs, &Error{p.name, line, fmt.Sprintf(format, args...)})
}

func (p *parser) warn(line int, format string, args ...any) {
	p.out.Warnings = append(p.out.Warnings, fmt.Sprintf("%s:%d: ", p.name, line)+fmt.Sprintf(format, args...))
}

func (p *parser) file(text []byte) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		p.fail(0, "the file has no pools")
		return
	case err != nil:
		p.syntax(err)
		return
	}
	var another yaml.Node
	if err := d.Decode(&another); err == nil {
		p.fail(another.Line, "the file has a second document; want one")
	} else if !errors.Is(err, io.EOF) {
		p.syntax(err)
	}
	root := doc.Content[0]
	if !p.plain(root, yaml.MappingNode, "pools, each a name with directives below it") {
		return
	}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if !p.plain(key, yaml.ScalarNode, "a pool's name") || !p.plain(value, yaml.MappingNode, "directives, indented below the pool's name") {
			continue
		}
		pool := p.pool(key, value)
		for _, other := range p.out.Pools {
			if other.Name == pool.Name {
				p.fail(key.Line, "there are pools with same name %q", pool.Name)
			}
			for _, l := range pool.Listen {
				if slices.ContainsFunc(other.Listen, l.Overlaps) {
					p.fail(key.Line, "pools %q and %q have the same listen address %q", other.Name, pool.Name, l.Address)
				}
			}
		}
		p.out.Pools = append(p.out.Pools, pool)
	}
	if len(root.Content) == 0 {
		p.fail(root.Line, "the file has no pools")
	}
}

// syntax reports an error of the YAML library, which has the line in its text.
func (p *parser) syntax(err error) {
	text := settings.NoYAML(err)
	line := 0
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, text = n, what
		}
	}
	p.fail(line, "invalid YAML: %s", text)
}

// plain reports whether n is of this kind, and without YAML features that nutcracker refuses.
func (p *parser) plain(n *yaml.Node, kind yaml.Kind, want string) bool {
	kinds := map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.fail(n.Line, "alias and anchor are disallowed")
	case n.Style&yaml.TaggedStyle != 0:
		p.fail(n.Line, "tag is disallowed")
	case n.Style&yaml.FlowStyle != 0:
		p.fail(n.Line, "flow style, with brackets or braces, is disallowed; write one entry a line")
	case n.Kind != kind:
		p.fail(n.Line, "found %s; want %s", kinds[n.Kind], want)
	default:
		return true
	}
	return false
}

// directives are nutcracker's directives, in its order.
var directives = []string{
	"listen", "hash", "hash_tag", "distribution", "timeout", "backlog", "client_connections", "redis", "tcpkeepalive",
	"reuseport", "redis_auth", "redis_db", "preconnect", "auto_eject_hosts", "server_connections", "server_retry_timeout",
	"server_failure_limit", "servers",
}

func (p *parser) pool(key, body *yaml.Node) Pool {
	pool := Pool{
		Name: key.Value, Line: key.Line,
		Hash: ring.FNV64a, Distribution: ring.Ketama, Timeout: -1, Backlog: 512,
		ServerConnections: 1, ServerRetryTimeout: 30 * time.Second, ServerFailureLimit: 2,
	}
	if pool.Name == "" {
		p.fail(key.Line, "a pool's name is empty")
	}
	lines := map[string]int{}
	for i := 0; i < len(body.Content); i += 2 {
		k, v := body.Content[i], body.Content[i+1]
		if !p.plain(k, yaml.ScalarNode, "a directive") {
			continue
		}
		if known := slices.Concat(directives, ownDirectives); !slices.Contains(known, k.Value) {
			p.fail(k.Line, "directive %q is unknown; want one of %s", settings.Word(k.Value), strings.Join(known, ", "))
			continue
		}
		if lines[k.Value] != 0 {
			p.fail(k.Line, "directive %q is a duplicate of line %d", k.Value, lines[k.Value])
			continue
		}
		lines[k.Value] = k.Line
		if k.Value == "servers" {
			p.servers(&pool, v)
		} else if k.Value == "listen_also" {
			p.listenAlso(&pool, v)
		} else if k.Value == "users" {
			p.users(&pool, v)
		} else if k.Value == "timeouts" {
			p.timeouts(&pool, v)
		} else if k.Value == "replicas" {
			p.replicas(&pool, v)
		} else if k.Value == "cluster" {
			p.cluster(&pool, v)
		} else if k.Value == "sentinels" {
			p.sentinels(&pool, v)
		} else if k.Value == "sentinel_masters" {
			p.sentinelMasters(&pool, v)
		} else if p.plain(v, yaml.ScalarNode, "one for directive "+strconv.Quote(k.Value)) {
			p.directive(&pool, k, v)
		}
	}
	if lines["listen"] == 0 {
		p.fail(key.Line, "directive \"listen\" is missing in pool %q", pool.Name)
	}
	if len(pool.Servers) == 0 && lines["servers"] == 0 && lines["cluster"] == 0 {
		p.fail(key.Line, "pool %q has no servers", pool.Name)
	}
	p.checkOwn(&pool, lines)
	if !pool.Redis && pool.RedisAuth != "" {
		p.fail(lines["redis_auth"], "directive \"redis_auth\" is only valid for a redis pool; want redis: true beside it")
	}
	if pool.Hash == ring.CRC32 && pool.Distribution == ring.Ketama && len(pool.Servers) > 1 {
		p.warn(lines["hash"], "pool %q: crc32 has 15 bits, so ketama sends nearly all keys to one server; crc32a has 32", pool.Name)
	}
	if pool.ClientConnections > 0 {
		p.warn(lines["client_connections"], "pool %q: client_connections limits the pool to %d clients; nutcracker ignores it", pool.Name, pool.ClientConnections)
	}
	if pool.Distribution == ring.Random && len(pool.Servers) > 1 {
		p.warn(lines["distribution"], "pool %q: random sends a key to any server, and ignores weights", pool.Name)
	}
	return pool
}

func (p *parser) directive(pool *Pool, k, v *yaml.Node) {
	var err string
	number := func(least int) (n int) {
		n, err = parseNumber(v.Value)
		if err == "" && n < least {
			err = fmt.Sprintf("cannot be %d", n)
		}
		return n
	}
	milliseconds := func() time.Duration { return time.Duration(number(0)) * time.Millisecond }
	boolean := func() bool {
		if v.Value != "true" && v.Value != "false" {
			err = `is not "true" or "false"`
		}
		return v.Value == "true"
	}
	switch k.Value {
	case "listen":
		var l Listen
		if l, err = parseListen(v.Value); err == "" {
			pool.Listen = slices.Insert(pool.Listen, 0, l)
		}
	case "hash":
		if pool.Hash = ring.Hash(v.Value); !slices.Contains(ring.Hashes, pool.Hash) {
			err = fmt.Sprintf("is not a valid hash; want one of %v", ring.Hashes)
		}
	case "distribution":
		if pool.Distribution = ring.Distribution(v.Value); !slices.Contains(ring.Distributions, pool.Distribution) {
			err = fmt.Sprintf("is not a valid distribution; want one of %v", ring.Distributions)
		}
	case "hash_tag":
		if pool.HashTag = v.Value; len(v.Value) != 2 {
			err = `is not a valid hash tag string with two characters, like "{}"`
		}
	case "redis_auth":
		pool.RedisAuth = v.Value
	case "timeout":
		pool.Timeout = milliseconds()
	case "server_retry_timeout":
		pool.ServerRetryTimeout = milliseconds()
	case "backlog":
		pool.Backlog = number(0)
	case "client_connections":
		pool.ClientConnections = number(0)
	case "redis_db":
		pool.RedisDB = number(0)
	case "server_connections":
		pool.ServerConnections = number(1)
	case "server_failure_limit":
		pool.ServerFailureLimit = number(0)
	case "redis":
		pool.Redis = boolean()
	case "tcpkeepalive":
		pool.TCPKeepalive = boolean()
	case "reuseport":
		pool.Reuseport = boolean()
	case "preconnect":
		pool.Preconnect = boolean()
	case "auto_eject_hosts":
		pool.AutoEjectHosts = boolean()
	default:
		err = p.own(pool, k.Value, v.Value)
	}
	if err != "" {
		p.fail(v.Line, "directive %q %s: %q", k.Value, err, v.Value)
	}
}

func parseNumber(s string) (n int, err string) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, "is not a number"
	}
	n, e := strconv.Atoi(s)
	if e != nil || n > math.MaxInt32 {
		return 0, fmt.Sprintf("is not a number of at most %d", math.MaxInt32)
	}
	return n, ""
}

func parseListen(s string) (l Listen, err string) {
	if path, perm, found := cutLast(s, " "); strings.HasPrefix(s, "/") {
		if !found {
			return Listen{"unix", s, 0}, ""
		}
		n, e := strconv.ParseUint(perm, 8, 32)
		if e != nil || n > 0o777 {
			return l, `has an invalid file permission in "socket_path permission" format string`
		}
		return Listen{"unix", path, uint32(n)}, ""
	}
	host, port, found := cutLast(s, ":")
	switch {
	case strings.Contains(s, ","):
		return l, `has several addresses; want one here, and the others in listen_also`
	case !found:
		return l, `has an invalid "hostname:port" format string`
	case !isPort(port):
		return l, `has an invalid port in "hostname:port" format string`
	}
	return Listen{"tcp", net.JoinHostPort(host, port), 0}, ""
}

// hostPort returns s, a "hostname:port", as an address for net.Dial.
func hostPort(s string) (addr string, ok bool) {
	host, port, found := cutLast(s, ":")
	return net.JoinHostPort(host, port), found && isPort(port)
}

func isPort(s string) bool {
	n, err := parseNumber(s)
	return err == "" && n >= 1 && n <= math.MaxUint16
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (p *parser) servers(pool *Pool, v *yaml.Node) {
	if !p.plain(v, yaml.SequenceNode, "servers, each after a dash") {
		return
	}
	lines := map[string]int{}
	for _, n := range v.Content {
		if !p.plain(n, yaml.ScalarNode, `a server, as "hostname:port:weight [name]"`) {
			continue
		}
		s, err := parseServer(n.Value)
		if err != "" {
			p.fail(n.Line, "directive \"servers\" %s: %q", err, n.Value)
			continue
		}
		if s.Line = n.Line; lines[s.Name] != 0 {
			p.fail(n.Line, "pool %q has servers with same name %q, the other in line %d", pool.Name, s.Name, lines[s.Name])
		}
		lines[s.Name] = n.Line
		pool.Servers = append(pool.Servers, s)
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "pool %q has no servers", pool.Name)
	}
}

// ketamaPort is left out of a server's name, as in libmemcached.
const ketamaPort = "11211"

func parseServer(text string) (s Server, err string) {
	const format = `"hostname:port:weight [name]" or "/path/unix_socket:weight [name]" format string`
	rest, name, named := cutLast(text, " ")
	addr, weight, found := cutLast(rest, ":")
	if !found {
		return s, "has an invalid " + format
	}
	if s.Weight, err = parseNumber(weight); err != "" {
		return s, "has an invalid weight in " + format
	}
	if s.Weight == 0 {
		return s, "has a zero weight in " + format
	}
	if strings.HasPrefix(text, "/") {
		if strings.Contains(addr, ":") {
			return s, "has an invalid " + format
		}
		// In nutcracker the colon after the path is part of the name.
		s.Network, s.Address, s.Name = "unix", addr, addr+":"
	} else {
		host, port, found := cutLast(addr, ":")
		if !found {
			return s, "has an invalid " + format
		}
		if !isPort(port) {
			return s, "has an invalid port in " + format
		}
		s.Network, s.Address, s.Name = "tcp", net.JoinHostPort(host, port), addr
		if n, _ := parseNumber(port); strconv.Itoa(n) == ketamaPort {
			s.Name = host
		}
	}
	if named {
		s.Name = name
	}
	return s, ""
}
