package main

import (
	"strings"
	"testing"
)

// TestRefusedURLs: every door uses the same words for a URL that it refuses, and names the door that accepts it.
func TestRefusedURLs(t *testing.T) {
	const malformed = "malformed URL: want redis://user:password@host:port/db, with special characters in the password percent-encoded"
	const (
		serve = "redoubt: back end: "
		all   = "redis, rediss, unix, redis-sentinel, rediss-sentinel, redis-cluster, rediss-cluster and embedded"
		takes = "redis, rediss, unix and embedded"
	)
	for _, c := range []struct{ args, want string }{
		{"serve --backend=http://:s3cret@h", serve + `URL scheme "http" is not known; want ` + all},
		{"serve --backend=redis-sentinel://:s3cret@h", serve + "a Sentinel URL names the master: redis-sentinel://host:port/name"},
		{"serve --backend=rediss-cluster://:s3cret@h/1", serve + "a cluster has no numbered databases: leave out the URL's path"},
		{"serve --backend=u:s3cret@h", serve + malformed},
		{"lock ls --backend=http://:s3cret@h", `redoubt: server: URL scheme "http" is not known; want ` + all},
		{"lock ls --backend=u:s3cret@h", "redoubt: server: " + malformed},
		{"lock ls --backend=redis-sentinel://:s3cret@h", "redoubt: server: goredis: a Sentinel URL names the master: redis-sentinel://host:port/name"},
		{"lock ls --backend=redis-cluster://:s3cret@h/1", "redoubt: server: goredis: a cluster has no numbered databases: leave out the URL's path"},
		{"import redis-sentinel://:s3cret@h/m", "redoubt: SOURCE: import or export takes no redis-sentinel URL, but " + takes + "; name the master itself, like redis://host:port"},
		{"import redis-cluster://:s3cret@h", "redoubt: SOURCE: import or export takes no redis-cluster URL, but " + takes + "; import the RDB file of each primary"},
		{"export rediss-cluster://:s3cret@h", "redoubt: TARGET: import or export takes no rediss-cluster URL, but " + takes + "; import the RDB file of each primary"},
		{"export x.rdb --backend=redis-cluster://:s3cret@h", "redoubt: server: import or export takes no redis-cluster URL, but " + takes + "; import the RDB file of each primary"},
		{"export x.rdb --backend=u:s3cret@h", "redoubt: server: " + malformed},
	} {
		code, stdout, stderr := runToEnd(t, nil, strings.Fields(c.args)...)
		if got, _, _ := strings.Cut(stderr, "\n"); code != exitUsage || got != c.want || stdout != "" {
			t.Errorf("redoubt %s: exit %d, %s\n got %s\nwant %s", c.args, code, stdout, got, c.want)
		}
	}
}
