// Package doctor examines servers: what Redoubt promises on them, and what it can't.
//
//	findings, err := doctor.Examine(ctx, target)
//
// Each [Finding] names a node, what was looked at, how bad it is, and what helps. Examine only reads, except for one SCRIPT
// LOAD of a script that does nothing.
package doctor

import (
	"context"

	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redoubt-go/redoubt/internal/redisurl"
)

// A Level says how bad a finding is.
type Level string

const (
	// OK is what should be so.
	OK Level = "ok"
	// Note is worth knowing.
	Note Level = "note"
	// Warning means that a promise holds less long, or for less, than people expect.
	Warning Level = "warning"
	// Danger means that a promise does not hold, or that Redoubt does not work.
	Danger Level = "danger"
)

// A Finding is the result of one check.
type Finding struct {
	Node   string `json:"node"` // address, or the URL's for the group as a whole
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Says   string `json:"says"`
	Remedy string `json:"remedy"` // "" if there is nothing to do
}

// Examine looks at all masters that the target names. The error says that it can't be reached at all.
func Examine(ctx context.Context, t *redisurl.Target) ([]Finding, error) {
	off := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case t.Cluster != nil:
		t.Cluster.MaintNotificationsConfig = off
		c := redis.NewClusterClient(t.Cluster)
		defer c.Close()
		return examineCluster(ctx, c, t.String())
	case t.Failover != nil:
		c := redis.NewFailoverClient(t.Failover)
		defer c.Close()
		if err := c.Ping(ctx).Err(); err != nil {
			return nil, err
		}
		x := &exam{node: t.String()}
		x.sentinels(ctx, t.Failover)
		return append(x.found, examineNode(ctx, c, t.Failover.MasterName)...), nil
	}
	t.Single.MaintNotificationsConfig = off
	c := redis.NewClient(t.Single)
	defer c.Close()
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	if t.Detect && field(c.Info(ctx, "cluster").Val(), "cluster_enabled") == "1" {
		o := t.Single
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, MaintNotificationsConfig: off})
		defer cluster.Close()
		return examineCluster(ctx, cluster, o.Addr)
	}
	return examineNode(ctx, c, t.Single.Addr), nil
}

// An exam collects the findings of one node.
type exam struct {
	node  string
	found []Finding
	info  string
	conf  map[string]string // nil if the user may not read it
}

func (x *exam) add(level Level, check, says, remedy string) {
	x.found = append(x.found, Finding{x.node, check, level, says, remedy})
}

// one is add for a value that is right or not.
func (x *exam) one(right bool, level Level, check, says, remedy string) { //nolint:revive // the verdict
	if right {
		x.add(OK, check, says, "")
		return
	}
	x.add(level, check, says, remedy)
}

func examineCluster(ctx context.Context, c *redis.ClusterClient, name string) ([]Finding, error) {
	state, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return nil, err
	}
	x := &exam{node: name}
	slots, _ := strconv.Atoi(field(state, "cluster_slots_ok"))
	x.one(field(state, "cluster_state") == "ok" && slots == 16384, Danger, "cluster", fmt.Sprintf("state %s, %d of 16384 slots are served", field(state, "cluster_state"), slots),
		"redis-cli --cluster check shows the missing slots; names in them are refused until a node serves them")
	type shard struct {
		addr     string
		findings []Finding
	}
	results := make(chan shard, 1024)
	err = c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		results <- shard{node.Options().Addr, examineNode(ctx, node, node.Options().Addr)}
		return nil
	})
	close(results)
	var shards []shard
	for s := range results {
		shards = append(shards, s)
	}
	slices.SortFunc(shards, func(a, b shard) int { return strings.Compare(a.addr, b.addr) })
	for _, s := range shards {
		x.found = append(x.found, s.findings...)
	}
	return x.found, err
}

func (x *exam) sentinels(ctx context.Context, o *redis.FailoverOptions) {
	up := 0
	for _, addr := range o.SentinelAddrs {
		s := redis.NewSentinelClient(&redis.Options{Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig})
		if err := s.CkQuorum(ctx, o.MasterName).Err(); err == nil {
			up++
		} else {
			x.add(Warning, "sentinel", addr+": "+err.Error(), "start that Sentinel, or take it out of the URL")
		}
		_ = s.Close()
	}
	x.one(up >= 3, Warning, "sentinels", fmt.Sprintf("%d of the %d in the URL have a quorum", up, len(o.SentinelAddrs)), "run three or more Sentinels on different machines, and name them all")
}

func examineNode(ctx context.Context, c *redis.Client, name string) []Finding {
	x := &exam{node: name}
	var err error
	if x.info, err = c.Info(ctx, "all").Result(); err != nil {
		x.add(Danger, "INFO", err.Error(), "the user of the URL needs the right to INFO")
		return x.found
	}
	if conf, err := c.ConfigGet(ctx, "*").Result(); err == nil {
		x.conf = conf
	}
	x.version()
	x.role()
	x.scripts(ctx, c)
	x.eviction()
	x.persistence()
	x.replicas()
	x.clock(ctx, c)
	x.network(ctx, c)
	x.disk()
	if x.conf == nil {
		x.add(Note, "CONFIG", "the user of the URL may not read the configuration, so checks of it are missing", "run doctor as a user with the right to CONFIG GET")
	}
	return x.found
}

func (x *exam) version() {
	if field(x.info, "redoubt_engine") == "1" {
		x.add(OK, "version", "the engine of redoubt serve", "")
		return
	}
	product, version := "Redis", field(x.info, "redis_version")
	if v := field(x.info, "valkey_version"); v != "" {
		product, version = "Valkey", v
	}
	major, minor := 0, 0
	_, _ = fmt.Sscanf(field(x.info, "redis_version"), "%d.%d", &major, &minor) // 0 on an error
	says := product + " " + version
	switch {
	case major < 6 || major == 6 && minor < 2:
		x.add(Danger, "version", says, "Redoubt needs Redis 6.2 or newer, or Valkey")
	case major < 7:
		x.add(Note, "version", says, "from Redis 7.0 on, wake-ups in a cluster reach only the node of the name")
	default:
		x.add(OK, "version", says, "")
	}
}

func (x *exam) role() {
	role := field(x.info, "role")
	x.one(role == "master", Danger, "role", "it is a "+role, "name the master: a replica refuses writes, and lags behind")
	if field(x.info, "loading") == "1" {
		x.add(Danger, "loading", "it is loading its data", "wait until it has")
	}
}

func (x *exam) scripts(ctx context.Context, c *redis.Client) {
	sha, err := c.ScriptLoad(ctx, "return 1").Result()
	if err == nil {
		err = c.EvalSha(ctx, sha, []string{"redoubt:doctor"}).Err()
	}
	switch {
	case err == nil:
		x.add(OK, "scripts", "the user may run scripts", "")
	case redis.HasErrorPrefix(err, "NOPERM"):
		x.add(Danger, "scripts", err.Error(), "give the user EVAL, EVALSHA and SCRIPT LOAD: ACL SETUSER name +@scripting")
	default:
		x.add(Danger, "scripts", err.Error(), "every operation of Redoubt is a script")
	}
}

func (x *exam) eviction() {
	policy, limit := field(x.info, "maxmemory_policy"), number(field(x.info, "maxmemory"))
	x.one(policy == "noeviction" || limit == 0, Danger, "eviction", "maxmemory-policy is "+policy+", and maxmemory "+size(limit),
		"CONFIG SET maxmemory-policy noeviction: a server that evicts drops locks, messages and stock as well as caches. Give caches a server of their own")
	if n := number(field(x.info, "evicted_keys")); n > 0 {
		x.add(Warning, "evicted", fmt.Sprintf("%d keys were evicted since the start", n), "locks, messages or stock may have been among them")
	}
	used := number(field(x.info, "used_memory"))
	switch {
	case limit > 0 && used > limit/10*9:
		x.add(Warning, "memory", fmt.Sprintf("%s of %s are used", size(used), size(limit)), "raise maxmemory, or delete keys: above it every write fails")
	case limit > 0:
		x.add(OK, "memory", fmt.Sprintf("%s of %s are used", size(used), size(limit)), "")
	default:
		x.add(Note, "memory", size(used)+" are used, without a limit", "set maxmemory below the memory of the machine, so that writes fail instead of the server")
	}
}

func (x *exam) persistence() {
	aof := field(x.info, "aof_enabled") == "1"
	fsync := x.conf["appendfsync"]
	if fsync == "" {
		fsync = field(x.info, "aof_fsync")
	}
	save := x.conf["save"]
	switch {
	case aof && fsync == "always":
		x.add(OK, "persistence", "append-only file, appendfsync always", "")
	case aof:
		x.add(Warning, "persistence", "append-only file, appendfsync "+fsync, "a crash of the machine loses about a second of acknowledged writes: CONFIG SET appendfsync always where none may be lost")
	case save != "":
		x.add(Danger, "persistence", "snapshots only (save "+save+")", "a crash loses all writes since the last snapshot: CONFIG SET appendonly yes")
	case x.conf == nil && !aof:
		x.add(Warning, "persistence", "no append-only file", "a crash loses at least all writes since the last snapshot: CONFIG SET appendonly yes")
	default:
		x.add(Danger, "persistence", "none", "a restart loses everything: CONFIG SET appendonly yes, or serve --dir for the engine")
	}
}

func (x *exam) replicas() {
	n := number(field(x.info, "connected_slaves"))
	least := number(x.conf["min-replicas-to-write"])
	switch {
	case n == 0 && least > 0:
		x.add(Danger, "replicas", fmt.Sprintf("none, and min-replicas-to-write is %d", least), "every write is refused: start replicas, or CONFIG SET min-replicas-to-write 0")
	case n == 0:
		x.add(Note, "replicas", "none", "the loss of this machine stops everything, until its disk is back")
	case least == 0:
		x.add(Warning, "replicas", fmt.Sprintf("%d, and min-replicas-to-write is 0", n), "a master that is cut off goes on taking writes, which a failover then loses: CONFIG SET min-replicas-to-write 1, and lock.Options.Replicas for locks")
	default:
		x.add(OK, "replicas", fmt.Sprintf("%d, and min-replicas-to-write is %d", n, least), "")
	}
}

// drift is the difference between the server's clock and this one from which on it is a warning.
const drift = 500 * time.Millisecond

func (x *exam) clock(ctx context.Context, c *redis.Client) {
	best, diff := time.Hour, time.Duration(0)
	for range 5 {
		began := time.Now()
		at, err := c.Time(ctx).Result()
		took := time.Since(began)
		if err != nil {
			x.add(Danger, "clock", err.Error(), "the user of the URL needs the right to TIME")
			return
		}
		if took < best {
			best, diff = took, at.Sub(began.Add(took/2))
		}
	}
	x.one(diff.Abs() < drift, Warning, "clock", fmt.Sprintf("the server's differs by %s (measured to %s)", diff.Abs().Round(time.Millisecond), best.Round(10*time.Microsecond)),
		"leases and delays follow the server's clock: keep it by NTP, and let it never jump")
}

func (x *exam) network(ctx context.Context, c *redis.Client) {
	const rounds = 200
	times := make([]time.Duration, 0, rounds)
	for range rounds {
		began := time.Now()
		if err := c.Ping(ctx).Err(); err != nil {
			x.add(Danger, "network", err.Error(), "the connection is not steady")
			return
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	median, late := times[rounds/2], times[rounds*99/100]
	x.one(late < 100*time.Millisecond, Warning, "network", fmt.Sprintf("a round trip takes %s in the median, %s in the 99th percentile", median.Round(time.Microsecond), late.Round(time.Microsecond)),
		"choose leases of at least a hundred such times, and look for slow commands: SLOWLOG GET")
}

func (x *exam) disk() {
	for _, f := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
		if v := field(x.info, f); v != "" && v != "ok" {
			x.add(Danger, "disk", f+" is "+v, "see the server's log: the disk is full, or fails. Writes are refused meanwhile")
		}
	}
	if n := number(field(x.info, "aof_delayed_fsync")); n > 0 {
		x.add(Warning, "disk", fmt.Sprintf("%d writes waited for a slow fsync since the start", n), "the disk is too slow for this load, or shared: LATENCY LATEST shows how slow")
	}
}

// field returns a value of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if n, value, _ := strings.Cut(strings.TrimSpace(line), ":"); n == name {
			return value
		}
	}
	return ""
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func size(n int64) string {
	if n == 0 {
		return "no limit"
	}
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
