package goredis_test

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestShapes runs the commands whose replies have another shape in RESP3. Their replies must have the
// shapes of RESP2 in both protocols.
func TestShapes(t *testing.T) {
	redistest.Needs(t, 7, 0, "ZMPOP and LCS")
	s := redistest.Start(t)
	conns := map[int]redoubt.Conn{}
	for _, protocol := range []int{2, 3} {
		conns[protocol] = wrap(t, &redis.Options{Addr: s.Addr(), Protocol: protocol})
	}
	do := func(protocol int, line string) any {
		t.Helper()
		f := strings.Fields(line)
		cmd := redoubt.Cmd{Name: f[0], Args: f[1:]}
		if name, rest, two := strings.Cut(f[0], ":"); two {
			cmd.Name = name + " " + rest
		}
		r := conns[protocol].Do(t.Context(), cmd)
		if r.Err != nil {
			t.Fatalf("%s in RESP%d: %v", line, protocol, r.Err)
		}
		return r.Val
	}
	for line := range strings.SplitSeq(strings.TrimSpace(`
		ZADD z 1 a 2.5 b -3 c inf d
		ZADD y 7 b 8 c
		HSET h f 1 g 2
		SADD s m
		GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
		XADD x 1-1 f v g w
		XADD STREAMS 1-1 f v
		XGROUP:CREATE x group 0
		RPUSH l 1
		SET k ohmytext
		SET j mynewtext`), "\n") {
		do(2, line)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(`
		ZRANGE z 0 -1
		ZRANGE z 0 -1 WITHSCORES
		zrange z 0 -1 rev withscores
		ZREVRANGE z 0 -1 WITHSCORES
		ZRANGEBYSCORE z -inf +inf WITHSCORES LIMIT 1 2
		ZREVRANGEBYSCORE z +inf -inf WITHSCORES
		ZDIFF 2 z y WITHSCORES
		ZINTER 2 z y WITHSCORES
		ZUNION 2 z y WITHSCORES
		ZRANDMEMBER y -3 WITHSCORES
		ZRANDMEMBER none 3 WITHSCORES
		HRANDFIELD h 5
		ZSCORE z b
		ZMSCORE z a none d
		ZINCRBY z 0.5 b
		ZADD z INCR 1 a
		ZMPOP 1 none MIN
		HGETALL h
		HRANDFIELD h 1
		SMEMBERS s
		SPOP s 0
		GEOPOS g Palermo none Catania
		GEOPOS g none Palermo
		GEODIST g Palermo Catania
		GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC
		GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH
		GEORADIUS_RO g 15 37 200 km WITHCOORD ASC
		XREAD COUNT 2 STREAMS x STREAMS 0 0
		XREAD STREAMS none x 0 0
		XREAD STREAMS none 0
		XRANGE x - +
		XINFO:GROUPS x
		CONFIG:GET maxmemory*
		LCS k j
		LCS k j IDX
		LPOS l 1 COUNT 0
		PUBSUB:NUMSUB a b
		COMMAND:GETKEYS GET k
		CLIENT:GETREDIR
		EXISTS k none
		OBJECT:ENCODING k`), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "ZRANDMEMBER y") || strings.HasPrefix(line, "HRANDFIELD h 1") {
			if a, b := do(2, line).([]any), do(3, line).([]any); len(a) != len(b) {
				t.Errorf("%s: %v in RESP2, %v in RESP3", line, a, b)
			}
			continue
		}
		two, three := do(2, line), do(3, line)
		if strings.HasPrefix(line, "ZINCRBY") || strings.HasPrefix(line, "ZADD") {
			if _, ok := three.(string); !ok || reflect.TypeOf(two) != reflect.TypeOf(three) {
				t.Errorf("%s: %#v in RESP2, %#v in RESP3", line, two, three)
			}
			continue
		}
		if strings.HasPrefix(line, "XINFO") || strings.HasPrefix(line, "CONFIG") || strings.HasPrefix(line, "LCS") && strings.HasSuffix(line, "IDX") { // maps lose their order
			two, three = sorted(two), sorted(three)
		}
		if !reflect.DeepEqual(two, three) {
			t.Errorf("%s:\n%#v in RESP2,\n%#v in RESP3", line, two, three)
		}
	}
	for _, line := range []string{"ZPOPMIN z 2", "ZPOPMAX z", "XREADGROUP GROUP group me STREAMS x >"} {
		do(2, "FLUSHALL")
		var got [2]any
		for i, protocol := range []int{2, 3} {
			for _, prepare := range []string{"DEL z x", "ZADD z 1 a 2 b 3 c", "XADD x 1-1 f v", "XGROUP:CREATE x group 0"} {
				do(2, prepare)
			}
			got[i] = do(protocol, line)
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s:\n%#v in RESP2,\n%#v in RESP3", line, got[0], got[1])
		}
	}
}

// sorted sorts the fields of maps that arrived flat.
func sorted(v any) any {
	a, ok := v.([]any)
	if !ok {
		return v
	}
	for i := range a {
		a[i] = sorted(a[i])
	}
	if _, field := a[0].(string); !field || len(a)%2 != 0 {
		return a
	}
	pairs := make([][2]any, 0, len(a)/2)
	for i := 0; i < len(a); i += 2 {
		pairs = append(pairs, [2]any{a[i], a[i+1]})
	}
	slices.SortFunc(pairs, func(a, b [2]any) int { return cmp.Compare(a[0].(string), b[0].(string)) })
	for i, p := range pairs {
		a[2*i], a[2*i+1] = p[0], p[1]
	}
	return a
}
