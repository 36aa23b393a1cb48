package poolfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/poolfile"
)

func TestCluster(t *testing.T) {
	f, err := poolfile.Parse("f", []byte("a:\n  listen: 127.0.0.1:1\n  redis: true\n  cluster:\n   - a.example:7000\n   - 127.0.0.1:7001\n  redis_auth: s3cret\n  server_user: pool\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Pools[0]
	if want := []string{"a.example:7000", "127.0.0.1:7001"}; !slices.Equal(p.Cluster, want) || !p.HasCluster() || p.HashTag != "{}" {
		t.Errorf("%q, %q", p.Cluster, p.HashTag)
	}
}

func TestClusterErrors(t *testing.T) {
	const head, nodes = "a:\n  listen: 127.0.0.1:1\n", "  redis: true\n  cluster:\n   - a:1\n"
	for _, c := range []struct{ text, want string }{
		{"  cluster:\n   - a:1\n", `f:3: conf: directive "cluster" needs redis: true beside it`},
		{"  redis: true\n  cluster: a:1\n", `f:4: conf: found a single value; want nodes, each after a dash`},
		{"  redis: true\n  cluster:\n   - a\n", `f:5: conf: directive "cluster" has an invalid "hostname:port" format string: "a"`},
		{"  redis: true\n  cluster:\n   - a:1:1\n   - a:0\n", `f:6: conf: directive "cluster" has an invalid "hostname:port" format string: "a:0"`},
		{nodes + "   - a:1\n", `f:6: conf: directive "cluster" has "a:1" twice`},
		{nodes + "  servers:\n   - b:1:1\n", `f:6: conf: directive "servers" and directive "cluster" exclude each other: the nodes of the cluster name each other`},
		{nodes + "  hash: md5\n", `f:6: conf: directive "hash" and directive "cluster" exclude each other: a cluster has its own`},
		{nodes + "  distribution: modula\n", `f:6: conf: directive "distribution" and directive "cluster" exclude each other: a cluster has its own`},
		{nodes + "  hash_tag: \"[]\"\n", `f:6: conf: directive "hash_tag" and directive "cluster" exclude each other: the hash tag of a cluster is "{}"`},
		{nodes + "  redis_db: 1\n", `f:6: conf: directive "redis_db" and directive "cluster" exclude each other: a cluster only has database 0`},
		{nodes + "  auto_eject_hosts: true\n", `f:6: conf: directive "auto_eject_hosts" and directive "cluster" exclude each other: a cluster replaces failed nodes itself`},
		{nodes + "  replicas: sentinel\n", `f:6: conf: directive "replicas" and directive "cluster" exclude each other: only the masters of a cluster are read`},
		{nodes + "  sentinels:\n   - b:1\n", `f:6: conf: directive "sentinels" and directive "cluster" exclude each other: no Sentinel watches the nodes of a cluster`},
	} {
		_, err := poolfile.Parse("f", []byte(head+c.text))
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), c.want) {
			t.Errorf("%s\n%v, want %s", c.text, err, c.want)
		}
	}
	for _, fine := range []string{"  hash_tag: \"{}\"\n", "  redis_db: 0\n", "  auto_eject_hosts: false\n", "  server_tls: true\n"} {
		if _, err := poolfile.Parse("f", []byte(head+nodes+fine)); err != nil {
			t.Errorf("%s\n%v", fine, err)
		}
	}
}
