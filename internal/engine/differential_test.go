package engine

import (
	stdflag "flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

var rounds = stdflag.Int("rounds", thorough(3000, 1000), "random commands a type")

const (
	normalLimits = "hash-max-listpack-entries 512 hash-max-listpack-value 64 set-max-intset-entries 512 zset-max-listpack-entries 128 zset-max-listpack-value 64 stream-node-max-entries 100 stream-node-max-bytes 4096"
	smallLimits  = "hash-max-listpack-entries 4 hash-max-listpack-value 5 set-max-intset-entries 3 zset-max-listpack-entries 4 zset-max-listpack-value 5 stream-node-max-entries 3 stream-node-max-bytes 100"
)

// A vocabulary gives the words that stand for a letter in a template.
type vocabulary struct {
	r    *rand.Rand
	used map[int]bool // by away
}

func newVocabulary(r *rand.Rand) vocabulary { return vocabulary{r, map[int]bool{}} }

func (v vocabulary) pick(words ...string) string { return words[v.r.IntN(len(words))] }

func (v vocabulary) word(name string) string {
	r := v.r
	switch name {
	case "k": // a key
		return v.pick("{t}1", "{t}2", "{t}3", "{t}4", "{t}5")
	case "K": // a key of members with one score: with several, lexical ranges are not defined
		return v.pick("{t}6", "{t}7")
	case "v": // a value
		return v.pick("", "a", "foo", "hello world", "12", "-7", "3.5", "1e3", "9223372036854775807", "  5", "0x10", "x\x00y", strings.Repeat("ab", r.IntN(60)))
	case "m": // a member
		if r.IntN(20) == 0 {
			return strings.Repeat("m", 70)
		}
		return fmt.Sprint(v.pick("m", "", "x"), r.IntN(30))
	case "i": // an integer
		if r.IntN(15) == 0 {
			return v.pick("x", "", "9223372036854775807", "-9223372036854775808", "1.5", " 1", "01", "+1", "99999999999999999999")
		}
		return fmt.Sprint(r.IntN(41) - 20)
	case "n": // a small natural number
		return fmt.Sprint(r.IntN(12))
	case "b": // a bit offset
		return fmt.Sprint(r.IntN(200))
	case "f": // a number
		if r.IntN(15) == 0 {
			return v.pick("inf", "-inf", "nan", "x", "", "1e400", "0x1p3", "1e-5", "(1", "1_0", "-0", "3.0e10", "1e17", "123456789012345678")
		}
		return v.pick(fmt.Sprint(r.IntN(20)-10), fmt.Sprintf("%.3f", r.NormFloat64()*10), fmt.Sprint(r.NormFloat64()))
	case "s": // the end of a score range
		return v.pick("-inf", "+inf", "inf", "(") + ""
	case "z": // the end of a score range
		if r.IntN(12) == 0 {
			return v.pick("x", "(x", "", "(", "nan", "((1")
		}
		return v.pick("-inf", "+inf", fmt.Sprint(r.IntN(20)-10), fmt.Sprint("(", r.IntN(20)-10))
	case "l": // the end of a lexical range
		if r.IntN(12) == 0 {
			return v.pick("x", "", "+x", "-1")
		}
		return v.pick("-", "+", "[", "(", "[m", "(m1", "[m2", "(m25", "[x1", "(x", fmt.Sprint("[m", r.IntN(30)), fmt.Sprint("(x", r.IntN(30)))
	case "t": // seconds far away
		return v.pick(v.away(""), v.away(""), v.away(""), "0", "-1", "x", "9223372036854775807", v.away(""))
	case "T": // milliseconds far away
		return v.pick(v.away("000"), v.away("000"), v.away("000"), "0", "-1", "x", "9223372036854775807")
	case "A": // a time in seconds
		return v.pick(fmt.Sprint(time.Now().Unix()+50_000_000+v.distance()), fmt.Sprint(time.Now().Unix()+50_000_000+v.distance()), "1", "0", "-5", "x", "33177117420")
	case "side":
		return v.pick("LEFT", "RIGHT", "left", "middle")
	case "lon":
		return v.pick(fmt.Sprintf("%.6f", r.Float64()*360-180), fmt.Sprintf("%.4f", 13+r.Float64()), "181", "0", "x")
	case "lat":
		return v.pick(fmt.Sprintf("%.6f", r.Float64()*170-85), fmt.Sprintf("%.4f", 38+r.Float64()), "86", "0")
	case "unit":
		return v.pick("m", "km", "ft", "mi", "KM", "parsec")
	case "rad":
		return v.pick("0", "10", "100", "500", "3000", "20000", "-1", "x")
	case "w":
		return v.pick("u8", "i8", "u1", "i5", "u63", "i64", "i16", "u32", "u64", "i65", "x")
	case "e": // the ID of a new entry, whose time does not depend on a clock
		if r.IntN(25) == 0 {
			return v.pick("0-*", "0-0", "0", "-", "+", "x", "1-", "-1", "18446744073709551615-18446744073709551615", "18446744073709551615-*", "1-1-1", "1-x", " 7-+3", "8--1", "8--01", "99999999999999999999", "50-* ", "007-01")
		}
		return v.pick("50-*", "50-*", "50-*", fmt.Sprintf("50-%d", r.IntN(40)), fmt.Sprintf("%d-*", r.IntN(50)), fmt.Sprintf("%d-%d", r.IntN(50), r.IntN(5)), fmt.Sprint(r.IntN(50)))
	case "x": // the ID of an entry
		if r.IntN(25) == 0 {
			return v.pick("-", "+", "x", "", "5-*", "*", "$", ">", "(50-3", "18446744073709551615-18446744073709551615", "18446744073709551615", "(+", "(-", "(", "(0-0", "(18446744073709551615-18446744073709551615", " 50-+3", "50--01", "0x10")
		}
		return v.pick(fmt.Sprintf("50-%d", r.IntN(20)), fmt.Sprintf("50-%d", r.IntN(20)), fmt.Sprintf("50-%d", r.IntN(60)), fmt.Sprintf("%d-%d", r.IntN(50), r.IntN(3)), fmt.Sprint(r.IntN(52)), "0", "0-0")
	case "r": // the end of a range of IDs
		return v.pick("-", "+", "-", "+", v.word("x"), "("+v.word("x"))
	case "g": // a group
		return v.pick("g1", "g1", "g1", "g2", "")
	case "c": // a consumer
		return v.pick("c1", "c1", "c2", "c3", "")
	case "trim":
		return v.pick("MAXLEN <n>", "MAXLEN = <n>", "MAXLEN ~ <n>", "MAXLEN <i>", "MINID <x>", "MINID ~ <x>", "MINID = <x>", "MAXLEN ~ <n> LIMIT <i>", "MAXLEN <n> LIMIT 3", "MAXLEN ~ 3 MINID 1", "LIMIT 3", "maxlen ~ 0 limit 0", "MAXLEN", "MAXLEN ~", "MINID ~ 50-5 LIMIT 200")
	case "limits": // of the small forms
		return v.pick(normalLimits, smallLimits, smallLimits, "hash-max-listpack-entries 3 zset-max-listpack-value 2", "stream-node-max-entries 1", "set-max-intset-entries 0 hash-max-listpack-value 1")
	case "any": // a command
		groups := slices.Sorted(maps.Keys(templates))
		group := templates[groups[r.IntN(len(groups))]]
		template := group[r.IntN(len(group))]
		if strings.Contains(template, "STREAMS") || strings.HasPrefix(template, "ZUNIONSTORE") {
			return v.word("any") // Redis finds fewer keys of an invalid command, or more
		}
		return template
	case "p":
		return v.pick("*", "m*", "?1", "[a-f]*", "*1*", "\\m*", "[^m]*")
	}
	for _, words := range []map[string][]string{scriptWords, programWords} {
		if list := words[name]; list != nil {
			return v.pick(list...)
		}
	}
	panic("no word " + name)
}

// distance is a number of seconds that is minutes from all others: of two deadlines at the same distance, which a
// millisecond may have passed between on one side alone, GT and LT could not say which is later.
func (v vocabulary) distance() int64 {
	for {
		n := 1 + v.r.IntN(100_000)
		if !v.used[n] {
			v.used[n] = true
			return int64(n) * 300
		}
	}
}

// away is a time from now.
func (v vocabulary) away(zeros string) string { return fmt.Sprint(v.distance()) + zeros }

// fill replaces <x> in a template. [a|b|c] chooses one, which may be empty.
func (v vocabulary) fill(template string) [][]byte {
	for {
		i := strings.LastIndexByte(template, '[')
		if i < 0 {
			break
		}
		j := i + strings.IndexByte(template[i:], ']')
		template = template[:i] + v.pick(strings.Split(template[i+1:j], "|")...) + template[j+1:]
	}
	var args [][]byte
	for w := range strings.FieldsSeq(template) {
		if w == "<trim>" || w == "<any>" || w == "<limits>" {
			args = append(args, v.fill(v.word(w[1:len(w)-1]))...)
		} else if w == "<primitive>" {
			args = append(args, v.primitive()...)
		} else if w[0] == '<' {
			args = append(args, []byte(v.word(w[1:len(w)-1])))
		} else {
			args = append(args, []byte(w))
		}
	}
	return args
}

var general = []string{
	"DEL <k>", "EXISTS <k> <k>", "TYPE <k>", "EXPIRE <k> <t> [||NX|XX|GT|LT|NX GT|foo]", "PEXPIRE <k> <T> [||NX|XX|GT|LT|GT LT]",
	"EXPIREAT <k> <A> [||NX|XX|GT|LT]", "PTTL <k>", "TTL <k>", "PERSIST <k>", "RENAME <k> <k>", "RENAMENX <k> <k>", "COPY <k> <k> [||REPLACE|DB 0|REPLACE DB 99|foo]",
	"OBJECT ENCODING <k>", "TOUCH <k> <k>", "UNLINK <k>", "EXPIRETIME <k>", "PEXPIRETIME <k>", "SORT <k> [||ALPHA] [||DESC|LIMIT 1 3|LIMIT -1 2|BY {t}*] [||GET # GET {t}*]",
	"SORT <k> ALPHA STORE <k>", "SET <k> <v>", "DBSIZE", "KEYS {t}*", "MOVE <k> 0", "EXPIRE <k>", "SORT_RO <k> ALPHA",
}

var templates = map[string][]string{
	"strings": {
		"SET <k> <v> [||NX|XX|GET|NX GET|KEEPTTL|EX <t>|PX <T>|EXAT <A>|XX GET EX <t>|EX <t> KEEPTTL|foo|EX]", "SET <k> <v>", "SET <k> <i>", "GET <k>", "GETSET <k> <v>", "GETDEL <k>",
		"GETEX <k> [||EX <t>|PX <T>|PERSIST|EXAT <A>|PERSIST EX 1|foo]", "SETNX <k> <v>", "SETEX <k> <t> <v>", "PSETEX <k> <T> <v>", "APPEND <k> <v>", "STRLEN <k>",
		"INCR <k>", "DECR <k>", "INCRBY <k> <i>", "DECRBY <k> <i>", "INCRBYFLOAT <k> <f>", "MSET <k> <v> <k> <v>", "MSET <k> <v> <k>", "MSETNX <k> <v> <k> <v>", "MGET <k> <k> <k>",
		"GETRANGE <k> <i> <i>", "SUBSTR <k> <i> <i>", "SETRANGE <k> <n> <v>", "SETRANGE <k> <i> <v>", "LCS <k> <k> [||LEN|IDX|IDX WITHMATCHLEN|IDX MINMATCHLEN 2|IDX LEN|foo]",
		"LPUSH <k> a", "GET", "SET <k>",
	},
	"bits": {
		"SETBIT <k> <b> [0|1|2|x]", "SETBIT <k> <b> 1", "GETBIT <k> <b>", "GETBIT <k> <i>", "BITCOUNT <k>", "BITCOUNT <k> <i> <i> [||BIT|BYTE|foo]", "BITCOUNT <k> 1",
		"BITPOS <k> [0|1|2|x]", "BITPOS <k> [0|1] <i>", "BITPOS <k> [0|1] <i> <i> [||BIT|BYTE|foo]", "BITOP [AND|OR|XOR|NOT|foo] <k> <k>", "BITOP [AND|OR|XOR|NOT] <k> <k> <k> <k>",
		"BITFIELD <k> GET <w> <b>", "BITFIELD <k> SET <w> <b> <i> GET u4 #1", "BITFIELD <k> OVERFLOW [WRAP|SAT|FAIL|foo] INCRBY <w> <b> <i>", "BITFIELD <k> OVERFLOW [WRAP|SAT|FAIL] INCRBY <w> #<n> <i> SET <w> <b> <i>",
		"BITFIELD_RO <k> GET <w> <b> GET i8 3", "BITFIELD_RO <k> SET u8 0 1", "BITFIELD <k>", "GET <k>", "SET <k> <v>", "STRLEN <k>", "LPUSH <k> a", "DEL <k>",
	},
	"hll": {
		"PFADD <k> <m> <m> <m>", "PFADD <k>", "PFADD <k> <v> <v>", "PFCOUNT <k>", "PFCOUNT <k> <k>", "PFMERGE <k> <k> <k>", "GET <k>", "SET <k> <v>", "PFDEBUG ENCODING <k>", "LPUSH <k> a", "DEL <k>", "STRLEN <k>",
	},
	"lists": {
		"LPUSH <k> <v> <m>", "RPUSH <k> <v> <m> <m>", "LPUSHX <k> <v>", "RPUSHX <k> <m>", "LPOP <k> [||<n>|<i>]", "RPOP <k> [||<n>|-1]", "LLEN <k>", "LINDEX <k> <i>", "LSET <k> <i> <v>",
		"LRANGE <k> <i> <i>", "LTRIM <k> <i> <i>", "LTRIM <k> -10 10", "LREM <k> <i> <m>", "LREM <k> [0|1|-1|2] <m>", "LINSERT <k> [BEFORE|AFTER|foo] <m> <v>", "LPOS <k> <m> [||RANK <i>|COUNT <n>|MAXLEN 5|RANK -1 COUNT 2|RANK 0|COUNT -1|foo]",
		"RPOPLPUSH <k> <k>", "LMOVE <k> <k> <side> <side>", "LMPOP [0|1|2|x] <k> <k> [LEFT|RIGHT|foo] [||COUNT 2|COUNT 0|foo]", "SORT <k> BY nosort [||DESC] [||GET #]", "LMPOP 1 <k> <side> COUNT <n>",
		"BLPOP <k> <k> 0.001", "BRPOP <k> -1", "BLPOP <k> x", "BLMOVE <k> <k> <side> <side> 0.001", "BRPOPLPUSH <k> <k> 0.001", "BLMPOP 0.001 2 <k> <k> LEFT COUNT 3", "SADD <k> a", "LRANGE <k> 0 -1",
	},
	"hashes": {
		"HSET <k> <m> <v>", "HSET <k> <m> <v> <m> <i>", "HSET <k> <m>", "HMSET <k> <m> <v> <m> <v>", "HSETNX <k> <m> <v>", "HGET <k> <m>", "HMGET <k> <m> <m>", "HDEL <k> <m> <m>", "HLEN <k>", "HSTRLEN <k> <m>",
		"HEXISTS <k> <m>", "HGETALL <k>", "HKEYS <k>", "HVALS <k>", "HINCRBY <k> <m> <i>", "HINCRBYFLOAT <k> <m> <f>", "HSCAN <k> 0 COUNT 1000 [||MATCH zzz]", "HSCAN <k> x", "HRANDFIELD <k> 0", "HRANDFIELD <k> x", "HRANDFIELD <k> 1 foo", "SADD <k> a",
	},
	"sets": {
		"SADD <k> <m> <m> <i>", "SADD <k> <i> <n> <n>", "SREM <k> <m> <i>", "SMOVE <k> <k> <m>", "SMOVE <k> <k> <n>", "SISMEMBER <k> <m>", "SMISMEMBER <k> <m> <n>", "SCARD <k>", "SMEMBERS <k>", "SINTER <k> <k>", "SUNION <k> <k> <k>", "SDIFF <k> <k>",
		"SINTERSTORE <k> <k> <k>", "SUNIONSTORE <k> <k> <k>", "SDIFFSTORE <k> <k> <k>", "SINTERCARD [1|2|0|x|9] <k> <k>", "SINTERCARD 2 <k> <k> LIMIT [0|1|3|-1|x]", "SPOP <k> [0|-1|x]", "SRANDMEMBER <k> [0|x]", "SSCAN <k> 0 COUNT 1000 MATCH zzz", "LPUSH <k> a", "SPOP <k> 1000",
	},
	"zsets": {
		"ZADD <k> <f> <m>", "ZADD <k> <f> <m> <f> <m> <f> <m>", "ZADD <k> [NX|XX|GT|LT|CH|XX GT CH|NX GT|INCR|NX INCR|GT LT|foo] <f> <m>", "ZADD <k> [CH|XX CH|GT CH] <f> <m> <f> <m>", "ZINCRBY <k> <f> <m>", "ZREM <k> <m> <m>", "ZCARD <k>", "ZSCORE <k> <m>", "ZMSCORE <k> <m> <m>", "ZRANK <k> <m>", "ZREVRANK <k> <m>",
		"ZRANGE <k> <i> <i> [||WITHSCORES|REV|REV WITHSCORES|LIMIT 0 1|foo]", "ZRANGE <k> <z> <z> BYSCORE [||WITHSCORES|REV|LIMIT <n> <i>|REV LIMIT 1 2 WITHSCORES]", "ZREVRANGE <k> <i> <i> WITHSCORES", "ZRANGEBYSCORE <k> <z> <z> [||WITHSCORES|LIMIT <i> <i>]", "ZREVRANGEBYSCORE <k> <z> <z> [||WITHSCORES|LIMIT <n> <n>]",
		"ZRANGESTORE <k> <k> <i> <i> [||REV|WITHSCORES]", "ZRANGESTORE <k> <k> <z> <z> BYSCORE [||LIMIT 1 2]", "ZCOUNT <k> <z> <z>",
		"ZREMRANGEBYRANK <k> <i> <i>", "ZREMRANGEBYSCORE <k> <z> <z>", "ZUNIONSTORE <k> [1|2|0|x|9] <k> <k> [||WEIGHTS <f> <f>|AGGREGATE MIN|AGGREGATE MAX WEIGHTS 2 3|WITHSCORES]", "ZINTERSTORE <k> 2 <k> <k> [||WEIGHTS <f> <f>|AGGREGATE MAX]", "ZDIFFSTORE <k> 2 <k> <k>", "ZUNION 2 <k> <k> [||WITHSCORES|AGGREGATE foo]", "ZINTER 2 <k> <k> WITHSCORES", "ZDIFF 2 <k> <k> [||WITHSCORES|WEIGHTS 1 2]", "ZINTERCARD 2 <k> <k> [||LIMIT <n>|LIMIT x]", "ZINTERCARD 0 <k>",
		"ZPOPMIN <k> [||<n>|<i>]", "ZPOPMAX <k> [||<n>]", "ZMPOP 2 <k> <k> [MIN|MAX|foo] [||COUNT 2|COUNT 0]", "BZPOPMIN <k> <k> 0.001", "BZPOPMAX <k> 0.001", "BZMPOP 0.001 1 <k> MAX COUNT 2", "ZRANDMEMBER <k> 0", "ZRANDMEMBER <k> x", "ZSCAN <k> 0 COUNT 1000 MATCH zzz", "SADD <k> <m> <m>", "LPUSH <k> a", "ZRANGE <k> 0 -1 WITHSCORES",
	},
	"lex": {
		"ZADD <K> 0 <m> 0 <m>", "ZADD <K> 0 <m> 0 <m> 0 <m>", "ZRANGE <K> <l> <l> BYLEX [||REV|LIMIT <n> <n>|REV LIMIT <n> <i>|WITHSCORES]", "ZRANGEBYLEX <K> <l> <l> [||LIMIT <n> <i>]", "ZREVRANGEBYLEX <K> <l> <l> [||LIMIT <n> <n>]", "ZLEXCOUNT <K> <l> <l>", "ZREMRANGEBYLEX <K> <l> <l>", "ZREM <K> <m> <m>", "ZRANGESTORE <K> <K> <l> <l> BYLEX [||LIMIT 1 3|REV]", "ZRANK <K> <m>", "SADD <K> a", "DEL <K>", "LPUSH <K> a",
	},
	"geo": {
		"GEOADD <k> [||NX|XX|CH|NX XX] <lon> <lat> <m>", "GEOADD <k> <lon> <lat> <m> <lon> <lat> <m>", "GEOADD <k> <lon> <lat>", "GEOPOS <k> <m> <m>", "GEOHASH <k> <m> <m>", "GEODIST <k> <m> <m> [||<unit>|m m]",
		"GEOSEARCH <k> FROMLONLAT <lon> <lat> BYRADIUS <rad> <unit> [ASC|DESC|ASC COUNT 2|ASC WITHDIST WITHCOORD WITHHASH|COUNT 1 ANY|ANY|STORE x|]", "GEOSEARCH <k> FROMMEMBER <m> BYBOX <rad> <rad> <unit> [ASC|DESC|ASC WITHDIST|COUNT 3|COUNT 0|]", "GEOSEARCH <k> FROMLONLAT 13 38 BYRADIUS 500 km ASC WITHDIST", "GEOSEARCH <k> BYRADIUS 1 m ASC", "GEOSEARCH <k> FROMLONLAT 1 1 ASC",
		"GEOSEARCHSTORE <k> <k> FROMLONLAT <lon> <lat> BYRADIUS <rad> <unit> [||WITHDIST]", "GEORADIUS <k> <lon> <lat> <rad> <unit> [||WITHDIST|ASC COUNT 2|STORE <k>|STOREDIST|STORE <k> WITHDIST|foo]", "GEORADIUSBYMEMBER <k> <m> <rad> <unit> [||WITHCOORD|DESC|STORE <k>]", "GEORADIUS_RO <k> <lon> <lat> <rad> <unit> ASC", "GEORADIUSBYMEMBER_RO <k> <m> <rad> <unit> [||STORE <k>]", "ZRANGE <k> 0 -1 WITHSCORES", "LPUSH <k> a", "DEL <k>",
	},
	"streams": {
		"XADD <k> <e> <m> <v>", "XADD <k> <e> f1 <v> f2 <i>", "XADD <k> <e> f1 <v> f2 <i>", "XADD <k> <e> f1 <v> f2 <i>", "XADD <k> <trim> <e> f1 <v> f2 <n>", "XADD <k> [NOMKSTREAM|nomkstream MAXLEN ~ 5|NOMKSTREAM NOMKSTREAM|foo] <e> a b", "XADD <k> <e> <m>", "XADD <k> <e>", "XADD <k> <e> a b c", "XADD <k> MAXLEN 1000 <e> a b",
		"XLEN <k>", "XRANGE <k> <r> <r> [||COUNT <i>|COUNT <n>|COUNT|foo]", "XREVRANGE <k> <r> <r> [||COUNT <n>|COUNT -1|COUNT 1 COUNT 2]", "XDEL <k> <x> <x>", "XDEL <k> <x>", "XDEL <k> <x> <x> <x>", "XTRIM <k> <trim>", "XTRIM <k> <trim> [||LIMIT 10|foo]",
		"XSETID <k> <x> [||ENTRIESADDED <i>|MAXDELETEDID <x>|ENTRIESADDED 100 MAXDELETEDID <x>|foo]", "XSETID <k> 60 ENTRIESADDED 70", "XSETID <k> 18446744073709551615-18446744073709551614",
		"XREAD [||COUNT <n>|COUNT <i>|NOACK|GROUP a b|foo] STREAMS <k> <x>", "XREAD COUNT 2 STREAMS <k> <k> <x> [$|<x>|>]", "XREAD STREAMS <k> <k> <x>", "XREAD BLOCK [1|-1|x|1.5] STREAMS <k> $", "XREAD COUNT 1", "XREAD STREAMS", "XREAD BLOCK 1 COUNT 3 STREAMS <k> <k> 50-5 $",
		"XGROUP CREATE <k> <g> [$|0|<x>] [||MKSTREAM|MKSTREAM ENTRIESREAD <i>|ENTRIESREAD <n>|ENTRIESREAD|foo|MKSTREAM MKSTREAM MKSTREAM]", "XGROUP CREATE <k> <g> 0 MKSTREAM", "XGROUP SETID <k> <g> [$|0|-|+|<x>] [||ENTRIESREAD <i>|ENTRIESREAD 2 ENTRIESREAD 3|MKSTREAM]", "XGROUP DESTROY <k> <g>", "XGROUP CREATECONSUMER <k> <g> <c>", "XGROUP DELCONSUMER <k> <g> <c>", "XGROUP HELP", "XGROUP foo", "XGROUP CREATE <k>",
		"XREADGROUP GROUP <g> <c> [||COUNT <n>|COUNT 1|NOACK|NOACK COUNT 2|COUNT -1] STREAMS <k> >", "XREADGROUP GROUP <g> <c> COUNT <n> STREAMS <k> >", "XREADGROUP GROUP <g> <c> COUNT 3 STREAMS <k> <k> > >", "XREADGROUP GROUP <g> <c> [||COUNT 2] STREAMS <k> <x>", "XREADGROUP GROUP <g> <c> STREAMS <k> <k> > 0", "XREADGROUP GROUP <g> <c> STREAMS <k> 0", "XREADGROUP GROUP <g> <c> BLOCK 1 STREAMS <k> >", "XREADGROUP COUNT 1 STREAMS <k> <k> > >", "XREADGROUP GROUP <g> <c> STREAMS <k> $", "XREADGROUP GROUP STREAMS <c> STREAMS <k> >",
		"XACK <k> <g> <x>", "XACK <k> <g> <x> <x>", "XPENDING <k> <g>", "XPENDING <k> <g> <r> <r> <n> [||<c>|<c> foo]", "XPENDING <k> <g> IDLE [0|100000|x|-5] <r> <r> <i> [||<c>|<c> foo]", "XPENDING <k> <g> - + 10", "XPENDING <k> <g> - +",
		"XCLAIM <k> <g> <c> [0|1800000|-1|x] <x> [||JUSTID|IDLE 3600000|IDLE 3600000 JUSTID|TIME 1|FORCE|FORCE RETRYCOUNT <i>|LASTID <x>|FORCE JUSTID LASTID 50-3|IDLE x|RETRYCOUNT|foo]", "XCLAIM <k> <g> <c> [0|1800000] <x> <x> <x> [||FORCE|IDLE 3600000|RETRYCOUNT 3 JUSTID]", "XCLAIM <k> <g> <c> 1800000 50-3 50-3 50-4 FORCE [||IDLE 3600000]",
		"XAUTOCLAIM <k> <g> <c> [0|1800000|-1|x] <r> [||COUNT <n>|COUNT 2|JUSTID|COUNT <i> JUSTID|foo|COUNT]", "XAUTOCLAIM <k> <g> <c> 0 0",
		"XINFO STREAM <k> [||FULL|FULL COUNT <i>|FULL COUNT 1|FULL COUNT|foo]", "XINFO STREAM <k>", "XINFO STREAM <k> FULL COUNT 0", "XINFO GROUPS <k>", "XINFO CONSUMERS <k> <g>", "XINFO HELP", "XINFO CONSUMERS <k>", "XINFO foo <k>",
		"SADD <k> a", "DEL <k>", "COPY <k> <k> REPLACE", "RENAME <k> <k>",
	},
	"scripts": scriptTemplates,
	"multi": {
		"MULTI", "EXEC", "DISCARD", "WATCH <k>", "UNWATCH", "SET <k> <i>", "GET <k>", "INCR <k>", "LPUSH <k> <v>", "LPOP <k>", "BLPOP <k> 0.001", "foo", "GET", "EXEC", "SELECT [0|1|99|x]", "DBSIZE", "FLUSHDB", "MOVE <k> 1", "SWAPDB 0 1", "ECHO <v>", "PING", "PING <v>", "ZADD <k> 1 a", "BZPOPMIN <k> 0.001", "BLMOVE <k> <k> LEFT LEFT 0.001",
	},
}
