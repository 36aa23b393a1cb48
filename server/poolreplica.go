package server

import (
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/proxy"
)

// readers are the commands that a replica can answer: those that only read, except
// cursors, which are of one server, and scripts, which a replica may not know.
var readers = strings.Fields(`
	get mget strlen getrange substr exists type ttl pttl expiretime pexpiretime dump lcs
	getbit bitcount bitpos bitfield_ro pfcount sort_ro
	llen lindex lpos lrange
	scard sismember smismember smembers srandmember sdiff sinter sintercard sunion
	zcard zcount zlexcount zscore zmscore zrank zrevrank zrandmember zrange zrevrange
	zrangebyscore zrevrangebyscore zrangebylex zrevrangebylex zdiff zinter zintercard zunion
	hget hmget hgetall hlen hkeys hvals hexists hstrlen hrandfield
	geodist geohash geopos geosearch georadius_ro georadiusbymember_ro
	xlen xrange xrevrange xread
`)

// upstreamOf returns the connection for a command to a server: for one that only reads
// that to a replica, if there are any. k may be nil, for what is no such command.
func (c *session) upstreamOf(k *keySpec, n *proxy.Node) (*proxy.Upstream, error) {
	if k != nil && k.reads && len(n.Replicas()) > 0 && !c.readwrite && c.watched == nil && !c.tx.active {
		return n.Reader(c.protocol, c.id)
	}
	return n.Upstream(c.protocol)
}

// hasReplicas reports whether a server of the pool has any.
func (s *Server) hasReplicas() bool {
	return slices.ContainsFunc(s.pool.Load().Nodes(), func(n *proxy.Node) bool { return len(n.Replicas()) > 0 })
}
