package poolfile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
)

// The file of twemproxy's tutorial.
const tutorial = `alpha:
  listen: 127.0.0.1:22121
  hash: fnv1a_64
  distribution: modula
  auto_eject_hosts: true
  redis: true
  server_retry_timeout: 2000
  server_failure_limit: 3
  servers:
   - 127.0.0.1:8081:1 redis-1
   - 127.0.0.1:8082:1 redis-2
`

func TestTutorial(t *testing.T) {
	f, err := poolfile.Parse("nutcracker.yml", []byte(tutorial))
	if err != nil {
		t.Fatal(err)
	}
	want := poolfile.File{Pools: []poolfile.Pool{{
		Name: "alpha", Line: 1, Listen: []poolfile.Listen{{"tcp", "127.0.0.1:22121", 0}},
		Hash: ring.FNV64a, Distribution: ring.Modula, Timeout: -1, Backlog: 512, Redis: true, AutoEjectHosts: true,
		ServerConnections: 1, ServerRetryTimeout: 2 * time.Second, ServerFailureLimit: 3,
		Servers: []poolfile.Server{
			{ring.Server{Name: "redis-1", Weight: 1}, "tcp", "127.0.0.1:8081", 10},
			{ring.Server{Name: "redis-2", Weight: 1}, "tcp", "127.0.0.1:8082", 11},
		},
	}}}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v\nwant %+v", f, want)
	}
}

func TestEveryDirective(t *testing.T) {
	f, err := poolfile.Parse("f", []byte(`# all of them
first pool:
  listen: /run/pool.sock 0600
  hash: "murmur"
  hash_tag: "{}"
  distribution: random
  timeout: 400
  backlog: 1024
  client_connections: 100
  redis: true
  tcpkeepalive: true
  reuseport: true
  redis_auth: 'se cret'
  redis_db: 3
  preconnect: true
  auto_eject_hosts: false
  server_connections: 4
  server_retry_timeout: 1
  server_failure_limit: 0
  servers:
  - cache-1:11211:1
  - ::1:6379:2
  - /run/redis.sock:3
  - /run/other.sock:3 other

second:
  listen: localhost:22122
  servers:
    - 10.0.0.1:6379:5 a:b:c
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []poolfile.Pool{{
		Name: "first pool", Line: 2, Listen: []poolfile.Listen{{"unix", "/run/pool.sock", 0o600}},
		Hash: ring.Murmur, HashTag: "{}", Distribution: ring.Random, Timeout: 400 * time.Millisecond, Backlog: 1024,
		ClientConnections: 100, Redis: true, TCPKeepalive: true, Reuseport: true, RedisAuth: "se cret", RedisDB: 3,
		Preconnect: true, ServerConnections: 4, ServerRetryTimeout: time.Millisecond,
		Servers: []poolfile.Server{
			{ring.Server{Name: "cache-1", Weight: 1}, "tcp", "cache-1:11211", 21},
			{ring.Server{Name: "::1:6379", Weight: 2}, "tcp", "[::1]:6379", 22},
			{ring.Server{Name: "/run/redis.sock:", Weight: 3}, "unix", "/run/redis.sock", 23},
			{ring.Server{Name: "other", Weight: 3}, "unix", "/run/other.sock", 24},
		},
	}, {
		Name: "second", Line: 26, Listen: []poolfile.Listen{{"tcp", "localhost:22122", 0}},
		Hash: ring.FNV64a, Distribution: ring.Ketama, Timeout: -1, Backlog: 512,
		ServerConnections: 1, ServerRetryTimeout: 30 * time.Second, ServerFailureLimit: 2,
		Servers: []poolfile.Server{{ring.Server{Name: "a:b:c", Weight: 5}, "tcp", "10.0.0.1:6379", 29}},
	}}
	if !reflect.DeepEqual(f.Pools, want) {
		t.Errorf("%+v\nwant %+v", f.Pools, want)
	}
	if len(f.Warnings) != 2 {
		t.Errorf("warnings: %q", f.Warnings)
	}
}

// Parse returns all errors of a file with their lines, in nutcracker's words where it has some. nutcracker refuses
// the same files.
func TestFaults(t *testing.T) {
	const listen, servers = "  listen: 127.0.0.1:22121\n", "  servers:\n   - 127.0.0.1:8081:1\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{"f: conf: the file has no pools"}},
		{"comment", "# a\n", []string{"f: conf: the file has no pools"}},
		{"no YAML", "a: b: c\n", []string{"f: conf: invalid YAML: mapping values are not allowed in this context"}},
		{"tab", "a:\n\tb: c\n", []string{"f:2: conf: invalid YAML: found character that cannot start any token"}},
		{"scalar", "a\n", []string{"f:1: conf: found a single value; want pools, each a name with directives below it"}},
		{"list", "- a\n", []string{"f:1: conf: found a list; want pools, each a name with directives below it"}},
		{"pool without body", "a:\n", []string{"f:1: conf: found a single value; want directives, indented below the pool's name"}},
		{"flow", "a: {listen: x}\n", []string{"f:1: conf: flow style, with brackets or braces, is disallowed; write one entry a line"}},
		{"flow of servers", "a:\n" + listen + "  servers: [a:1:1]\n", []string{"f:3: conf: flow style, with brackets or braces, is disallowed; write one entry a line"}},
		{"anchor", "a: &x\n" + listen + servers, []string{"f:1: conf: alias and anchor are disallowed"}},
		{"tag", "a:\n" + listen + servers + "  redis_auth: !!str x\n", []string{"f:5: conf: tag is disallowed"}},
		{"no listen", "a:\n" + servers, []string{`f:1: conf: directive "listen" is missing in pool "a"`}},
		{"no servers", "a:\n" + listen, []string{`f:1: conf: pool "a" has no servers`}},
		{"servers no list", "a:\n" + listen + "  servers: b:1:1\n", []string{"f:3: conf: found a single value; want servers, each after a dash"}},
		{"unknown", "a:\n" + listen + servers + "  hsh: md5\n", []string{`f:5: conf: directive "hsh" is unknown; want one of listen, hash, `}},
		{"duplicate", "a:\n" + listen + listen + servers, []string{`f:3: conf: directive "listen" is a duplicate of line 2`}},
		{"hash", "a:\n" + listen + "  hash: sha1\n" + servers, []string{`f:3: conf: directive "hash" is not a valid hash; want one of [one_at_a_time `}},
		{"distribution", "a:\n" + listen + "  distribution: slots\n" + servers, []string{`f:3: conf: directive "distribution" is not a valid distribution; want one of [ketama modula random]: "slots"`}},
		{"tag of one", "a:\n" + listen + "  hash_tag: \"{\"\n" + servers, []string{`f:3: conf: directive "hash_tag" is not a valid hash tag string with two characters`}},
		{"boolean", "a:\n" + listen + "  redis: yes\n" + servers, []string{`f:3: conf: directive "redis" is not "true" or "false": "yes"`}},
		{"number", "a:\n" + listen + "  timeout: -1\n" + servers, []string{`f:3: conf: directive "timeout" is not a number: "-1"`}},
		{"fraction", "a:\n" + listen + "  timeout: 1.5\n" + servers, []string{`f:3: conf: directive "timeout" is not a number: "1.5"`}},
		{"connections", "a:\n" + listen + "  server_connections: 0\n" + servers, []string{`f:3: conf: directive "server_connections" cannot be 0: "0"`}},
		{"auth of memcached", "a:\n" + listen + "  redis_auth: x\n" + servers, []string{`f:3: conf: directive "redis_auth" is only valid for a redis pool; want redis: true beside it`}},
		{"listen without port", "a:\n  listen: localhost\n" + servers, []string{`f:2: conf: directive "listen" has an invalid "hostname:port" format string: "localhost"`}},
		{"listen on port 0", "a:\n  listen: localhost:0\n" + servers, []string{`f:2: conf: directive "listen" has an invalid port in "hostname:port" format string: "localhost:0"`}},
		{"permission", "a:\n  listen: /tmp/x 0888\n" + servers, []string{`f:2: conf: directive "listen" has an invalid file permission in "socket_path permission" format string: "/tmp/x 0888"`}},
		{"no weight", "a:\n" + listen + "  servers:\n   - localhost:6379\n", []string{`f:4: conf: directive "servers" has an invalid "hostname:port:weight [name]" or "/path/unix_socket:weight [name]" format string: "localhost:6379"`}},
		{"zero weight", "a:\n" + listen + "  servers:\n   - localhost:6379:0\n", []string{`f:4: conf: directive "servers" has a zero weight in "hostname:port:weight [name]"`}},
		{"weight", "a:\n" + listen + "  servers:\n   - localhost:6379:x\n", []string{`f:4: conf: directive "servers" has an invalid weight in "hostname:port:weight [name]"`}},
		{"port", "a:\n" + listen + "  servers:\n   - localhost:65536:1\n", []string{`f:4: conf: directive "servers" has an invalid port in "hostname:port:weight [name]"`}},
		{"socket", "a:\n" + listen + "  servers:\n   - /a:b:1\n", []string{`f:4: conf: directive "servers" has an invalid "hostname:port:weight [name]"`}},
		{"same name", "a:\n" + listen + "  servers:\n   - a:1:1 x\n   - b:1:1 x\n", []string{`f:5: conf: pool "a" has servers with same name "x", the other in line 4`}},
		{"same address", "a:\n" + listen + "  servers:\n   - a:1:1\n   - a:1:2\n", []string{`f:5: conf: pool "a" has servers with same name "a:1", the other in line 4`}},
		{"same pool", "a:\n" + listen + servers + "a:\n  listen: 127.0.0.1:22122\n" + servers, []string{`f:5: conf: there are pools with same name "a"`}},
		{"same listen", "a:\n" + listen + servers + "b:\n" + listen + servers, []string{`f:5: conf: pools "a" and "b" have the same listen address "127.0.0.1:22121"`}},
		{"several", "a:\n  hash: x\n  redis: 1\n" + servers, []string{
			`f:1: conf: directive "listen" is missing in pool "a"`, `f:2: conf: directive "hash" is not a valid hash`, `f:3: conf: directive "redis" is not "true" or "false": "1"`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := poolfile.Parse("f", []byte(tt.text))
			if err == nil {
				t.Fatalf("taken: %+v", f)
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(tt.want) {
				t.Fatalf("%q\nwant %q", got, tt.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("%q\nwant %q", got[i], tt.want[i])
				}
			}
			if tt.name != "permission" && nutcrackerTakes(t, tt.text) {
				t.Error("nutcracker takes it")
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	f, err := poolfile.Parse("f", []byte("a:\n  listen: 127.0.0.1:22121\n  hash: crc32\n  servers:\n   - a:1:1\n   - b:1:1\n"))
	if err != nil || len(f.Warnings) != 1 || !strings.HasPrefix(f.Warnings[0], `f:3: pool "a": crc32 has 15 bits`) {
		t.Errorf("%q, %v", f.Warnings, err)
	}
}

// nutcrackerTakes reports whether nutcracker accepts a file, if it is installed.
func nutcrackerTakes(t *testing.T, text string) bool {
	t.Helper()
	path, err := exec.LookPath("nutcracker")
	if err != nil {
		return false
	}
	file := filepath.Join(t.TempDir(), "f.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), path, "-t", "-c", file).Run() == nil
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(tutorial))
	f.Add([]byte("a:\n  listen: /x 0600\n  servers:\n   - /a:1 b\n   - c:11211:2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := poolfile.Parse("f", text)
		if err != nil {
			return
		}
		for _, p := range file.Pools {
			if _, err := ring.New(ring.Options{Servers: p.ServersOf(), Hash: p.Hash, Distribution: ring.Ketama, Tag: p.HashTag}); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
