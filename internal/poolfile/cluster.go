package poolfile

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// cluster reads the nodes of a Redis Cluster that are asked for all others.
func (p *parser) cluster(pool *Pool, v *yaml.Node) {
	pool.Cluster = p.addresses("cluster", "node", v)
}

// checkCluster refuses directives that a cluster excludes. lines has the line of each directive; needs reports
// a missing directive.
func (p *parser) checkCluster(pool *Pool, lines map[string]int, needs func(directive, what string, fine bool)) {
	needs("cluster", "redis: true", pool.Redis)
	if lines["cluster"] == 0 {
		return
	}
	refuse := func(directive, why string, refused bool) {
		if lines[directive] != 0 && refused {
			p.fail(lines[directive], "directive %q and directive \"cluster\" exclude each other: %s", directive, why)
		}
	}
	refuse("servers", "the nodes of the cluster name each other", true)
	for _, d := range []string{"hash", "distribution"} {
		refuse(d, "a cluster has its own", true)
	}
	refuse("hash_tag", `the hash tag of a cluster is "{}"`, pool.HashTag != "{}")
	refuse("redis_db", "a cluster only has database 0", pool.RedisDB != 0)
	refuse("auto_eject_hosts", "a cluster replaces failed nodes itself", pool.AutoEjectHosts)
	refuse("replicas", "only the masters of a cluster are read", true)
	for _, d := range []string{"sentinels", "sentinel_masters", "sentinel_user", "sentinel_password", "sentinel_tls"} {
		refuse(d, "no Sentinel watches the nodes of a cluster", true)
	}
	pool.HashTag = "{}"
}

// HasCluster reports whether the pool's keys are in a Redis Cluster.
func (pool *Pool) HasCluster() bool { return len(pool.Cluster) > 0 }

// addresses reads a list of hostname:port. noun is the singular of its elements in errors.
func (p *parser) addresses(directive, noun string, v *yaml.Node) (list []string) {
	if !p.plain(v, yaml.SequenceNode, noun+"s, each after a dash") {
		return nil
	}
	for _, n := range v.Content {
		if !p.plain(n, yaml.ScalarNode, "a "+noun+`, as "hostname:port"`) {
			continue
		}
		addr, ok := hostPort(n.Value)
		switch {
		case !ok:
			p.fail(n.Line, "directive %q has an invalid \"hostname:port\" format string: %q", directive, n.Value)
		case slices.Contains(list, addr):
			p.fail(n.Line, "directive %q has %q twice", directive, n.Value)
		default:
			list = append(list, addr)
		}
	}
	if len(v.Content) == 0 {
		p.fail(v.Line, "directive %q is empty", directive)
	}
	return list
}
