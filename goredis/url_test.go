package goredis

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, step := range []struct {
		url   string
		check func(o *target) bool
	}{
		{"redis://h", func(o *target) bool { return o.Single.Addr == "h:6379" && o.Detect && o.Single.MaxRetries == -1 }},
		{"redis://u:p%40@h:7/3?read_timeout=2s", func(o *target) bool {
			s := o.Single
			return s.Addr == "h:7" && s.DB == 3 && s.Username == "u" && s.Password == "p@" && s.ReadTimeout == 2*time.Second
		}},
		{"redis://[::1]:7", func(o *target) bool { return o.Single.Addr == "[::1]:7" }},
		{"redis://h?cluster=false", func(o *target) bool { return o.Single != nil && !o.Detect }},
		{"rediss://h", func(o *target) bool { return o.Single.TLSConfig.ServerName == "h" }},
		{"unix:///tmp/r.sock?db=2", func(o *target) bool {
			return o.Single.Network == "unix" && o.Single.Addr == "/tmp/r.sock" && o.Single.DB == 2 && !o.Detect
		}},
		{"redis://h:1?addr=i:2&addr=j:3", func(o *target) bool {
			return slices.Equal(o.Cluster.Addrs, []string{"h:1", "i:2", "j:3"})
		}},
		{"redis-cluster://u:p@h:1,i,j:3?pool_size=7", func(o *target) bool {
			c := o.Cluster
			return slices.Equal(c.Addrs, []string{"h:1", "i:6379", "j:3"}) && c.Username == "u" && c.Password == "p" && c.PoolSize == 7
		}},
		{"rediss-cluster://h", func(o *target) bool { return o.Cluster.TLSConfig != nil }},
		{"redis://u:p@h:1/2?master_name=m&addr=i:2", func(o *target) bool {
			f := o.Failover
			return f.MasterName == "m" && f.DB == 2 && f.SentinelPassword == "p" && f.Password == "" &&
				slices.Equal(f.SentinelAddrs, []string{"h:1", "i:2"})
		}},
		{"redis-sentinel://u:p%2F@h,i:2/m/4?sentinel_username=su&sentinel_password=sp", func(o *target) bool {
			f := o.Failover
			return f.MasterName == "m" && f.DB == 4 && f.Username == "u" && f.Password == "p/" &&
				f.SentinelUsername == "su" && f.SentinelPassword == "sp" &&
				slices.Equal(f.SentinelAddrs, []string{"h:26379", "i:2"})
		}},
		{"redis-sentinel://[::1]/m?db=4", func(o *target) bool {
			return o.Failover.DB == 4 && slices.Equal(o.Failover.SentinelAddrs, []string{"[::1]:26379"})
		}},
		{"rediss-sentinel://h/m", func(o *target) bool { return o.Failover.TLSConfig != nil }},
	} {
		o, err := parse(step.url)
		if err != nil {
			t.Errorf("%s: %v", step.url, err)
		} else if !step.check(o) {
			t.Errorf("%s: got %+v %+v %+v", step.url, o.Single, o.Cluster, o.Failover)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for _, step := range []struct{ url, want string }{
		{"", "malformed"},
		{"localhost:6379", "malformed"},
		{"http://h", `goredis: URL scheme "http" is not known; want redis, rediss, unix, redis-sentinel, rediss-sentinel, redis-cluster and rediss-cluster`},
		{"embedded:", `goredis: goredis.Open takes no embedded URL, but redis, rediss, unix, redis-sentinel, rediss-sentinel, redis-cluster and rediss-cluster; redoubt.Open takes it, with an import of _ "github.com/redoubt-go/redoubt/engine"`},
		{"redis://:secret@h:port", "malformed"},
		{"redis://:sec/ret@h", "malformed"},
		{"redis://:1/secret@h", "malformed"},
		{"redis://:1?secret@h", "malformed"},
		{"redis://:1#secret@h", "malformed"},
		{"redis-cluster://:1/secret@h", "malformed"},
		{"redis-cluster://:secret@h:port,i", "malformed"},
		{"redis-cluster://h,,i", "malformed"},
		{"redis://h/x", "database"},
		{"redis://h?nonsense=1", "nonsense"},
		{"redis://h?cluster=yes", "cluster"},
		{"redis-cluster://h/1", "no numbered databases"},
		{"redis://h/1?addr=i:1", "no numbered databases"},
		{"redis-sentinel://h", "names the master"},
		{"redis-sentinel://h/m?password=x", "come before the host"},
		{"redis-sentinel://h/m/x", "database"},
		{"redis-sentinel://h/m?route_by_latency=true", "commands go to the master"},
		{"unix://", "socket"},
	} {
		_, err := parse(step.url)
		if err == nil {
			t.Errorf("%s: no error", step.url)
			continue
		}
		if !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: error %q, want one about %q", step.url, err, step.want)
		}
		if !strings.HasPrefix(err.Error(), "goredis: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %q", step.url, err)
		}
	}
}

// FuzzParse holds that no URL panics, that what is accepted has an address, and
// that no error shows a password.
func FuzzParse(f *testing.F) {
	for _, url := range []string{
		"redis://:@h:1/2?db=3", "unix:///a?db=1", "redis-sentinel://a,b:1/m/1?sentinel_password=x",
		"rediss-cluster://[::1]:1,h?addr=i:1", "redis://h?master_name=m&addr=i:2", "redis-sentinel://", "redis-cluster://,",
	} {
		f.Add(url)
	}
	const secret = "s3cr3t-p4ssw0rd"
	f.Fuzz(func(t *testing.T, url string) {
		scheme, rest, ok := strings.Cut(url, "://")
		if !ok {
			rest = url
		}
		for _, url := range []string{url, scheme + "://:" + secret + "@" + rest, scheme + "://u:" + secret + "@" + rest} {
			o, err := parse(url)
			if err != nil {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q: the error shows the password: %v", url, err)
				}
				continue
			}
			if s := o.String(); s == "" || strings.Contains(s, secret) {
				t.Errorf("%q: the address is %q", url, s)
			}
		}
	})
}
